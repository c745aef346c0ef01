// Checks that mtl-topo can draw a layout, and suggests one that it can.
#include <algorithm>
#include <functional>
#include <map>

#include "base/count_of.h"
#include "base/error.h"
#include "base/printable.h"
#include "run/stage_checks.h"
#include "topo/options.h"

namespace mtl {

namespace {

// Limit for counts such as the global batch size. Schedules store counts as int, and the product of two counts and the
// world size must stay below 2^63.
constexpr std::int64_t kLargestCount = INT32_MAX;

/// Returns the first eight suitable sizes up to `world`, as "1, 2 or 4".
std::string fitting_sizes(std::int64_t world, const std::function<bool(std::int64_t)>& fits) {
  std::vector<std::string> sizes;
  for (std::int64_t size = 1; size <= world && sizes.size() < 8; ++size) {
    if (fits(size)) sizes.push_back(std::to_string(size));
  }
  return join_or(std::move(sizes));
}

using FlagSize = std::pair<std::string, std::int64_t>;

/// Requires the world size to be a multiple of these sizes' product, and suggests other values for each flag.
void check_product(const ReportProblem& report, std::int64_t world, const std::vector<FlagSize>& flag_sizes) {
  std::int64_t product = 1;
  std::vector<std::string> factors;
  for (const auto& [flag, size] : flag_sizes) {
    product *= size;  // at most three sizes, each at most 65536
    factors.push_back(cat(size));
  }
  if (world % product == 0) return;
  std::vector<std::string> remedies;
  if (world > product)
    remedies.push_back(cat("--world-size ", world / product * product, " or ", (world / product + 1) * product));
  else if (product <= kLargestWorld)
    remedies.push_back(cat("--world-size ", product));
  for (const auto& [flag, size] : flag_sizes) {
    std::int64_t others = product / size;
    std::string sizes =
        size == 1 ? "" : fitting_sizes(world, [&](std::int64_t other) { return world % (others * other) == 0; });
    if (!sizes.empty()) remedies.push_back(cat(flag, " ", sizes));
  }
  report(cat("--world-size ", world),
         cat("is not a multiple of ", product, " = ", join(factors, " x "), " (tensor x pipeline x ",
             flag_sizes.back().first == "--expert-model-parallel-size" ? "expert" : "context", "); ",
             remedies.empty() ? "choose smaller sizes" : cat("use one of: ", join(remedies, "; "))));
}

void check_grid(const TopoOptions& options, const ReportProblem& report) {
  const ParallelOptions& parallel = options.run.parallel;
  const FlagSize tensor{"--tensor-model-parallel-size", parallel.tensor};
  const FlagSize pipeline{"--pipeline-model-parallel-size", parallel.pipeline};
  check_product(report, parallel.world, {tensor, pipeline, {"--context-parallel-size", parallel.context}});
  if (parallel.expert > 1)
    check_product(report, parallel.world, {tensor, pipeline, {"--expert-model-parallel-size", parallel.expert}});
  if (parallel.tp_pp_dp_mapping && parallel.rank_order)
    report("--use-tp-pp-dp-mapping, --rank-order", "mean the same; use only one of them");
  try {  // the result depends only on which axes have several ranks
    auto at_most_two = [](std::int64_t size) { return static_cast<int>(std::min<std::int64_t>(size, 2)); };
    std::int64_t replicas =
        std::max<std::int64_t>(parallel.world / parallel.tensor / parallel.context / parallel.pipeline, 1);
    RankGrid({.tensor = at_most_two(parallel.tensor),
              .context = at_most_two(parallel.context),
              .expert = at_most_two(parallel.expert),
              .data = at_most_two(replicas),
              .pipeline = at_most_two(parallel.pipeline)},
             parallel.order());
  } catch (const Error& error) {
    report(cat("--rank-order ", parallel.order()),
           cat(error.message(), "; name each of tp, cp, ep, dp and pp once, the fastest first"));
  }
}

/// Like Megatron-LM, refuses an order in which the experts' pipeline groups differ from the dense layers', or agree
/// only by chance. Both grids must fit the world.
void check_expert_order(const TopoOptions& options, const ReportProblem& report) {
  const ParallelOptions& parallel = options.run.parallel;
  if (parallel.expert == 1 || parallel.pipeline == 1) return;
  const Layout layout = options.layout();
  const RankGrid &dense = layout.grid, &experts = *layout.expert_grid;
  bool pipeline_is_last = parallel.order().ends_with("pp");
  if ((pipeline_is_last || dense.size(Axis::data) == experts.size(Axis::data)) &&
      dense.groups(Axis::pipeline) == experts.groups(Axis::pipeline))
    return;
  std::string remedy = cat("; choose an order that ends with pp",
                           parallel.tp_pp_dp_mapping ? " (leave out --use-tp-pp-dp-mapping)" : "");
  std::string flag = parallel.tp_pp_dp_mapping ? "--use-tp-pp-dp-mapping" : cat("--rank-order ", parallel.order());
  if (dense.size(Axis::data) != experts.size(Axis::data)) {
    report(flag, cat("gives the experts ", experts.size(Axis::data), " data-parallel ranks and the other layers ",
                     dense.size(Axis::data), "; Megatron-LM requires equal numbers", remedy));
  } else {
    report(flag, cat("gives the experts pipeline groups that differ from those of the other layers; "
                     "Megatron-LM requires equal groups",
                     remedy));
  }
}

void check_hosts(const TopoOptions& options, const ReportProblem& report) {
  const ParallelOptions& parallel = options.run.parallel;
  std::vector<std::string> hosts = options.host_names();
  std::int64_t nodes = (parallel.world + options.node_size() - 1) / options.node_size();
  if (options.hosts && std::ssize(hosts) != nodes) {
    report(cat("--hosts ", *options.hosts),
           cat("names ", count_of(hosts.size(), "host"), ", but ", count_of(parallel.world, "rank"),
               " with --gpus-per-node ", options.node_size(), parallel.world == 1 ? " needs " : " need ", nodes,
               "; name ", nodes, ", or change --gpus-per-node"));
  }
  std::map<std::string, int> times;
  for (const std::string& host : hosts) {
    if (++times[host] == 2) {
      report(cat("--hosts ", *options.hosts),
             cat("names '", host, "' twice, which would give its cores to two ranks each; name it once, and set ",
                 "its number of ranks with --gpus-per-node"));
    }
    if (host.empty() || host.find_first_of(" =") != std::string::npos || printable_text(host) != host)
      report(cat("--hosts ", *options.hosts),
             cat("contains '", host, "', which is not the name of a host; separate names by commas"));
  }
}

/// Checks the schedule's flags. `fits` means that the global batch can be divided into micro-batches.
void check_schedule(const TopoOptions& options, bool fits, const ReportProblem& report) {
  const ParallelOptions& parallel = options.run.parallel;
  bool has_step = options.micro_batches || options.run.batch.global_batch_size;
  if (parallel.group && !has_step) {
    report("--microbatch-group-size-per-virtual-pipeline-stage", "needs --micro-batches or --global-batch-size");
  }
  if (parallel.schedule && !has_step) {
    report(cat("--schedule ", *parallel.schedule), "needs --micro-batches or --global-batch-size");
  }
  if (!has_step || (!options.micro_batches && !fits)) return;
  std::string step = options.micro_batches ? cat("--micro-batches ", *options.micro_batches)
                                           : cat("--global-batch-size ", *options.run.batch.global_batch_size);
  const std::optional<std::int64_t> layers = options.run.architecture.num_layers;
  const bool is_possible = check_schedule_kind(parallel, layers, "--schedule", report),
             fits_chart = options.fits_chart();
  if (!fits_chart && options.micro_batches) {
    report(step, cat("makes the chart too large: a chart has at most ", kMostChartStages, " stages and ",
                     kMostChartForwards, " forward passes; use --global-batch-size instead to omit the chart"));
  }
  if (is_possible && fits_chart) check_step(parallel, layers, options.step_micro_batches().value_or(1), step, report);
}

/// Returns true if the global batch can be divided into micro-batches, if their number agrees with --micro-batches, and
/// if there are few enough to list. Otherwise adds a problem.
bool check_batch(const TopoOptions& options, const ReportProblem& report) {
  const ParallelOptions& parallel = options.run.parallel;
  const BatchOptions& batch = options.run.batch;
  const std::int64_t micro = batch.micro_batch_size, at_once = micro * parallel.data();
  if (batch.global_batch_size) {
    if (!check_batches(batch, parallel.data(), parallel.data_text(), options.run.data.seq_length, report)) return false;
    if (!options.micro_batches || options.run.micro_batches() == *options.micro_batches) return true;
    report(cat("--global-batch-size ", *batch.global_batch_size),
           cat("is not --micro-batches ", *options.micro_batches, " x --micro-batch-size ", micro,
               " x data-parallel size ", parallel.data(), parallel.data_text(), "; leave out one of the two flags"));
    return false;
  }
  if (at_once <= kLargestCount / options.micro_batches.value_or(1)) return true;
  report(cat("--micro-batch-size ", micro),
         cat("makes a global batch of more than ", kLargestCount, "; choose a smaller size"));
  return false;
}

/// Refuses flags that affect only memory and work per step if the report shows neither.
void check_idle_flags(const TopoOptions& options, const ReportProblem& report) {
  if (options.wants_memory()) return;
  for (auto [flag, is_given] :
       {std::pair("--hidden-dropout", options.run.hidden_dropout.has_value()),
        std::pair("--pipeline-split balanced", options.run.parallel.pipeline_split == "balanced"),
        std::pair("--attention-dropout", options.run.attention_dropout.has_value()),
        std::pair("--reset-attention-mask", options.run.data.reset_attention_mask),
        std::pair("--ddp-bucket-size", options.run.parallel.bucket_elements.has_value())}) {
    if (is_given) report(flag, "needs --hidden-size and the other model sizes");
  }
}

/// Checks the model sizes as mtl-train does.
void check_model(const TopoOptions& options, const ReportProblem& report) {
  const ArchitectureOptions& model = options.run.architecture;
  std::vector<std::string> missing;
  for (auto [flag, is_given] :
       {std::pair("--num-layers", model.num_layers.has_value()),
        std::pair("--hidden-size", model.hidden_size.has_value()),
        std::pair("--num-attention-heads", model.num_attention_heads.has_value()),
        std::pair("--max-position-embeddings", model.max_position_embeddings.has_value() || model.is_rotary()),
        std::pair("--seq-length", options.run.data.seq_length != 0),
        std::pair("--vocab-size", options.run.tokenizer.vocab_size.has_value())}) {
    if (!is_given) missing.emplace_back(flag);
  }
  if (!missing.empty())
    report(join(missing, ", "), cat(missing.size() == 1 ? "is" : "are", " needed for memory and FLOPs, which the ",
                                    "other model sizes request; add ", missing.size() == 1 ? "it" : "them"));
  if (!missing.empty() || !options.unsupported_reason().empty()) return;
  TrainOptions train = options.train_options();
  check_options(train, report);
  resolve_config(train, {}, *train.tokenizer.vocab_size, report);
}

}  // namespace

void check_topo(const TopoOptions& options, const ReportProblem& report_problem) {
  int problems = 0;
  const ReportProblem report = [&](const std::string& flag, const std::string& what) {
    ++problems;
    report_problem(flag, what);
  };
  check_idle_flags(options, report);
  if (options.run.parallel.world < 1) return;  // already refused; unlike other sizes, it has no default
  const int before = problems;
  check_grid(options, report);
  bool fits = problems == before;
  if (fits) check_expert_order(options, report);
  check_hosts(options, report);
  if (fits) fits = check_batch(options, report);
  if (!check_stages(options.run.parallel, options.run.architecture.num_layers, false, report)) return;
  check_schedule(options, fits, report);
  if (problems == before && options.wants_memory()) check_model(options, report);
}

}  // namespace mtl
