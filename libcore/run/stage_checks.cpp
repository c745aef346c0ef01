#include "run/stage_checks.h"

#include "base/count_of.h"
#include "base/error.h"
#include "base/str.h"
#include "layout/schedule.h"
#include "layout/stages.h"

namespace mtl {

namespace {

std::vector<Problem> flag_problems(const ParallelOptions& options, std::optional<std::int64_t> num_layers) {
  const LayerSplit& split = options.split;
  const bool has_text = !split.layer_counts.empty();
  const auto& per_chunk = options.layers_per_virtual_stage;
  std::vector<Problem> out;
  if (per_chunk && options.virtual_stages)
    out.push_back({"--num-layers-per-virtual-pipeline-stage, --num-virtual-stages-per-pipeline-rank",
                   "mean the same; use only one of them"});
  if (has_text && (per_chunk || options.virtual_stages))
    out.push_back({per_chunk ? "--num-layers-per-virtual-pipeline-stage" : "--num-virtual-stages-per-pipeline-rank",
                   "contradicts --pipeline-model-parallel-layout, which divides stages into chunks; leave it out"});
  std::vector<std::string> given;  // flags that distribute the layers
  for (auto [flag, is_given] : {std::pair("--pipeline-model-parallel-layout", has_text),
                                std::pair("--num-layers-per-virtual-pipeline-stage", per_chunk.has_value()),
                                std::pair("--num-layers-in-first-pipeline-stage", split.first_stage_layers.has_value()),
                                std::pair("--num-layers-in-last-pipeline-stage", split.last_stage_layers.has_value()),
                                std::pair("--account-for-embedding-in-pipeline-split", split.account_for_embedding),
                                std::pair("--account-for-loss-in-pipeline-split", split.account_for_loss)}) {
    if (is_given) given.emplace_back(flag);
  }
  for (const std::string& flag : given) {
    if (options.balances_stages())
      out.push_back(
          {"--pipeline-split balanced, " + flag, "both distribute the layers over the stages; use only one of them"});
  }
  if (!out.empty()) return out;
  if (!num_layers) {
    for (const std::string& flag : given) out.push_back({flag, "needs --num-layers"});
  } else if (per_chunk && *num_layers % (options.pipeline * *per_chunk) != 0) {
    out.push_back(
        {cat("--num-layers ", *num_layers), cat("is not a multiple of --pipeline-model-parallel-size ",
                                                options.pipeline, " x --num-layers-per-virtual-pipeline-stage ",
                                                *per_chunk, "; choose a multiple of ", options.pipeline * *per_chunk)});
  } else if (per_chunk && options.chunks(num_layers) > 1 && (split.account_for_embedding || split.account_for_loss)) {
    // The layers would have to be a multiple with and without the one or two more.
    out.push_back(
        {cat("--num-layers-per-virtual-pipeline-stage ", *per_chunk),
         "cannot be combined with --account-for-*-in-pipeline-split; use --num-virtual-stages-per-pipeline-rank"});
  }
  return out;
}

}  // namespace

bool check_stages(const ParallelOptions& options, std::optional<std::int64_t> num_layers, bool is_fixed,
                  const ReportProblem& report) {
  const std::vector<Problem> problems = flag_problems(options, num_layers);
  for (const Problem& problem : problems) report(problem.where, problem.what);
  if (!problems.empty()) return false;
  if (options.balances_stages() && num_layers) {
    const std::int64_t chunks = options.chunks({}), least = options.pipeline * chunks - 2;
    if (*num_layers >= least) return true;  // they are distributed when their work has been counted
    report("--pipeline-split balanced", cat("needs at least ", count_of(least, "layer"), " for ", options.pipeline,
                                            " stages", chunks > 1 ? cat(" of ", chunks, " chunks") : "",
                                            ", but the model has ", *num_layers, "; use fewer stages or chunks"));
    return false;
  }
  try {
    // Without --num-layers, a layer in each chunk: tests only that there are stages to interleave.
    layer_counts(resolve_stages(options, num_layers), num_layers.value_or(options.pipeline * options.chunks({})),
                 is_fixed);
  } catch (const Error& error) {
    report(error.where(), error.message());
    return false;
  }
  return true;
}

bool check_schedule_kind(const ParallelOptions& options, std::optional<std::int64_t> num_layers,
                         const std::string& flag, const ReportProblem& report) {
  const ScheduleKind kind = options.schedule_kind(num_layers);
  const std::int64_t chunks = options.chunks(num_layers);
  const bool interleaves = kind == ScheduleKind::interleaved, has_chunks = chunks > 1;
  const bool is_too_high = options.zero_stage == 3 && options.pipeline > 1;  // reported by the flag
  if (options.zero_stage >= 2 && !is_too_high && defers_weights(kind))
    report(cat("--zero-stage ", options.zero_stage),
           cat("cannot be combined with ", flag, " ", *options.schedule,
               ", which leaves weight gradients for later; use --zero-stage 1, or ", flag,
               has_chunks ? " interleaved" : " 1f1b"));
  if (!interleaves && options.group)
    report("--microbatch-group-size-per-virtual-pipeline-stage", cat("needs ", flag, " interleaved"));
  if (kind == ScheduleKind::zero_bubble_v) {
    if (chunks != 2)
      report(flag + " zb-v", cat("divides every stage into 2 chunks, not ", chunks,
                                 "; leave out the flags for several chunks, or divide the layers into ",
                                 2 * options.pipeline, " parts"));
    return chunks == 2 && !options.group;
  }
  if (interleaves && !has_chunks)
    report(flag + " interleaved",
           "needs several chunks per stage; add --num-virtual-stages-per-pipeline-rank with at least 2");
  if (!interleaves && has_chunks)
    report(cat(flag, " ", *options.schedule),
           cat("runs one chunk per stage; use ", flag, " interleaved, or leave out the flags for several chunks"));
  return interleaves == has_chunks && (interleaves || !options.group);
}

void check_step(const ParallelOptions& options, std::optional<std::int64_t> num_layers, std::int64_t micro_batches,
                const std::string& step, const ReportProblem& report) {
  try {
    check_micro_batches(resolve_stages(options, num_layers), micro_batches);
  } catch (const Error& error) {
    report(options.group ? cat("--microbatch-group-size-per-virtual-pipeline-stage ", *options.group) : step,
           error.what());
  }
}

}  // namespace mtl
