#include "layout/stages.h"

#include "base/error.h"
#include "base/str.h"

namespace mtl {

namespace {

void check_options(const SplitOptions& options) {
  if (options.num_layers < 1) fail(Exit::usage, "--num-layers ", options.num_layers, ": a model has at least 1 layer");
  if (options.stages < 1 || options.chunks < 1)
    fail(Exit::usage, options.stages, " pipeline stages of ", options.chunks, " chunks: give at least 1 of each");
  if (options.chunks > 1 && options.stages == 1)
    fail(Exit::usage, options.chunks, " chunks on one pipeline stage: interleaving needs at least 2 stages");
  if (!options.first_stage_layers && !options.last_stage_layers) return;
  if (options.account_for_embedding || options.account_for_loss) {
    fail(Exit::usage,
         "--num-layers-in-first-pipeline-stage and --num-layers-in-last-pipeline-stage say what "
         "--account-for-embedding-in-pipeline-split and --account-for-loss-in-pipeline-split compute: give one or the "
         "other");
  }
  if (options.stages == 1)
    fail(Exit::usage, "--num-layers-in-first/last-pipeline-stage needs at least 2 pipeline stages; leave it out");
  for (const auto& [name, layers] :
       {std::pair("first", options.first_stage_layers), std::pair("last", options.last_stage_layers)}) {
    if (layers && *layers < 1)
      fail(Exit::usage, "--num-layers-in-", name, "-pipeline-stage ", *layers, ": give at least 1");
    if (layers && *layers > options.num_layers)
      fail(Exit::usage, "--num-layers-in-", name, "-pipeline-stage ", *layers, ": more than --num-layers ",
           options.num_layers, "; give fewer");
  }
}

/// "--num-layers-in-first-pipeline-stage 1 and --num-layers-in-last-pipeline-stage 2", of what was given.
std::string given_ends(const SplitOptions& options) {
  std::vector<std::string> parts;
  for (const auto& [name, layers] :
       {std::pair("first", options.first_stage_layers), std::pair("last", options.last_stage_layers)}) {
    if (layers) parts.push_back(cat("--num-layers-in-", name, "-pipeline-stage ", *layers));
  }
  return join(parts, " and ");
}

/// The given ends leave `rest` layers for `others` stages.
[[noreturn]] void refuse_ends(const SplitOptions& options, std::int64_t rest, std::int64_t others) {
  std::string what = cat("--num-layers ", options.num_layers, ": ", given_ends(options));
  std::int64_t ends = options.num_layers - rest;
  const char* leave = options.first_stage_layers && options.last_stage_layers ? " leave " : " leaves ";
  if (others == 0) {
    fail(Exit::usage, what, " make ", ends, " layers, and there are no stages between; make them add up to ",
         options.num_layers, ", give one of them alone, or choose --num-layers ", ends);
  }
  std::string stages = others == 1 ? "the other stage" : cat("each of the other ", others, " stages");
  if (rest < others)
    fail(Exit::usage, what, rest < 0 ? " are more layers than there are" : cat(leave, rest), ", and ", stages,
         " needs at least 1; give fewer, or choose at least --num-layers ", ends + others);
  std::int64_t fewer = ends + rest / others * others;
  fail(Exit::usage, what, leave, rest, rest == 1 ? " layer" : " layers", ", which do not divide by the other ", others,
       " stages; choose --num-layers ", fewer, " or ", fewer + others, ", or what leaves a multiple of ", others);
}

/// Layers of each stage when the first, the last or both are given: the others share the rest evenly.
std::vector<std::int64_t> counts_with_given_ends(const SplitOptions& options) {
  std::int64_t rest =
      options.num_layers - options.first_stage_layers.value_or(0) - options.last_stage_layers.value_or(0);
  std::int64_t others =
      options.stages - int(options.first_stage_layers.has_value()) - int(options.last_stage_layers.has_value());
  if (others == 0 ? rest != 0 : (rest % others != 0 || rest < others)) refuse_ends(options, rest, others);
  std::vector<std::int64_t> counts(static_cast<std::size_t>(options.stages), others == 0 ? 0 : rest / others);
  if (options.first_stage_layers) counts.front() = *options.first_stage_layers;
  if (options.last_stage_layers) counts.back() = *options.last_stage_layers;
  return counts;
}

/// Layers of each stage, where the embedding and the output layer may count as one; they are still in the counts.
std::vector<std::int64_t> even_counts(const SplitOptions& options) {
  std::int64_t items = options.num_layers + int(options.account_for_embedding) + int(options.account_for_loss);
  std::int64_t surplus = items % options.stages;
  bool counted_extra = items != options.num_layers;
  if (items < options.stages)
    fail(Exit::usage, "--num-layers ", options.num_layers, ": fewer than the ", options.stages,
         " pipeline stages; --pipeline-model-parallel-size is at most ", options.num_layers);
  bool may_be_uneven = options.allow_uneven && options.chunks == 1 && !counted_extra;
  if (surplus != 0 && !may_be_uneven) {
    fail(Exit::usage, "--num-layers ", options.num_layers, counted_extra ? " and what counts as a layer" : "",
         ": does not divide by ", options.stages, " pipeline stages; choose a multiple, or say with ",
         "--num-layers-in-first-pipeline-stage and --num-layers-in-last-pipeline-stage what the ends hold");
  }
  std::vector<std::int64_t> counts(static_cast<std::size_t>(options.stages), items / options.stages);
  for (std::int64_t i = 0; i < surplus; ++i) ++counts[static_cast<std::size_t>(1 + i)];
  return counts;
}

}  // namespace

std::vector<std::vector<LayerRange>> split_layers(const SplitOptions& options) {
  check_options(options);
  bool given = options.first_stage_layers || options.last_stage_layers;
  std::vector<std::int64_t> counts = given ? counts_with_given_ends(options) : even_counts(options);
  for (std::size_t stage = 0; stage < counts.size(); ++stage) {
    if (counts[stage] % options.chunks != 0) {
      fail(Exit::usage, "--num-layers ", options.num_layers, ": ", counts[stage], " layers of pipeline stage ", stage,
           " do not divide into ", options.chunks, " chunks; --num-layers must be a multiple of ",
           std::int64_t{options.stages} * options.chunks);
    }
  }
  std::vector<std::vector<LayerRange>> out(counts.size());
  std::int64_t next = 0;
  for (int chunk = 0; chunk < options.chunks; ++chunk) {
    for (int stage = 0; stage < options.stages; ++stage) {
      std::int64_t count = counts[static_cast<std::size_t>(stage)] / options.chunks;
      if (options.account_for_embedding && stage == 0 && chunk == 0) --count;
      if (options.account_for_loss && stage == options.stages - 1 && chunk == options.chunks - 1) --count;
      out[static_cast<std::size_t>(stage)].push_back({next, count});
      next += count;
    }
  }
  // Without layers a chunk would be an embedding or an output layer alone; Megatron allows that when it was asked for.
  for (const std::vector<LayerRange>& chunks : out) {
    for (const LayerRange& range : chunks) {
      if (range.count < 0 || (range.count == 0 && !options.account_for_embedding && !options.account_for_loss))
        fail(Exit::usage, "--num-layers ", options.num_layers, ": too few for ", options.stages, " pipeline stages of ",
             options.chunks, " chunks; use fewer");
    }
  }
  return out;
}

}  // namespace mtl
