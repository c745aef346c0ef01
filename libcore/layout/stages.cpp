#include "layout/stages.h"

#include "base/error.h"
#include "base/str.h"

namespace mtl {

namespace {

/// Returns the end-stage flags that the user gave, such as "--num-layers-in-first-pipeline-stage 1 and
/// --num-layers-in-last-pipeline-stage 2".
std::string end_stage_flags(const Layout& layout) {
  std::vector<std::string> parts;
  for (const auto& [name, layers] :
       {std::pair("first", layout.first_stage_layers), std::pair("last", layout.last_stage_layers)}) {
    if (layers) parts.push_back(cat("--num-layers-in-", name, "-pipeline-stage ", *layers));
  }
  return join(parts, " and ");
}

void check_split(const Layout& layout, std::int64_t num_layers) {
  if (num_layers < 1) fail_at(Exit::usage, cat("--num-layers ", num_layers), "a model has at least 1 layer");
  if (layout.stages() < 1 || layout.chunks < 1)
    fail(Exit::usage, layout.stages(), " pipeline stages of ", layout.chunks, " chunks; use at least 1 of each");
  if (layout.chunks > 1 && layout.stages() == 1)
    fail_at(Exit::usage, "--pipeline-model-parallel-size 1", "has no other stage to interleave ", layout.chunks,
            " chunks with; use at least 2 stages, or 1 chunk");
  if (!layout.first_stage_layers && !layout.last_stage_layers) return;
  if (layout.account_for_embedding || layout.account_for_loss) {
    fail_at(
        Exit::usage, "--num-layers-in-first-pipeline-stage and --num-layers-in-last-pipeline-stage",
        "conflict with --account-for-embedding-in-pipeline-split and --account-for-loss-in-pipeline-split; use only "
        "the first two flags or only the last two");
  }
  if (layout.stages() == 1) {
    fail_at(Exit::usage, end_stage_flags(layout), "needs at least 2 pipeline stages; leave it out, or use ",
            "--pipeline-model-parallel-size 2 or more");
  }
  for (const auto& [name, layers] :
       {std::pair("first", layout.first_stage_layers), std::pair("last", layout.last_stage_layers)}) {
    if (layers && *layers < 1)
      fail_at(Exit::usage, cat("--num-layers-in-", name, "-pipeline-stage ", *layers), "must be at least 1");
    if (layers && *layers > num_layers)
      fail_at(Exit::usage, cat("--num-layers-in-", name, "-pipeline-stage ", *layers), "is more than --num-layers ",
              num_layers, "; use fewer");
  }
}

/// Throws Error(usage), because the end stages leave `inner` layers for the `others` remaining stages. The caller has
/// found that `inner` is too small or not a multiple of `others`.
[[noreturn]] void refuse_ends(const Layout& layout, std::int64_t num_layers, std::int64_t inner, std::int64_t others) {
  const std::string where = cat("--num-layers ", num_layers), flags = end_stage_flags(layout);
  std::int64_t ends = num_layers - inner;
  const bool are_two = layout.first_stage_layers && layout.last_stage_layers;
  const char* verb = are_two ? " leave " : " leaves ";
  if (others == 0) {
    fail_at(Exit::usage, where, flags, " make ", ends, " layers, and no other stages are left; make them add up to ",
            num_layers, ", use only one of them, or choose --num-layers ", ends);
  }
  std::string stages = others == 1 ? "the other stage" : cat("each of the other ", others, " stages");
  if (inner < others)
    fail_at(Exit::usage, where, flags,
            inner < 0 ? cat(are_two ? " exceed" : " exceeds", " the number of layers") : cat(verb, inner), ", and ",
            stages, " needs at least 1; use fewer, or choose at least --num-layers ", ends + others);
  std::int64_t fewer = ends + inner / others * others;
  fail_at(Exit::usage, where, flags, verb, inner, inner == 1 ? " layer" : " layers",
          ", which cannot be divided among the other ", others, " stages; choose --num-layers ", fewer, " or ",
          fewer + others, ", or end stages that leave a multiple of ", others);
}

/// Returns layers per stage if the first stage, the last stage or both have a given layer count. The other stages share
/// the remaining layers equally.
std::vector<std::int64_t> counts_with_given_ends(const Layout& layout, std::int64_t num_layers) {
  std::int64_t inner = num_layers - layout.first_stage_layers.value_or(0) - layout.last_stage_layers.value_or(0);
  std::int64_t others =
      layout.stages() - int(layout.first_stage_layers.has_value()) - int(layout.last_stage_layers.has_value());
  if (others == 0 ? inner != 0 : (inner % others != 0 || inner < others))
    refuse_ends(layout, num_layers, inner, others);
  std::vector<std::int64_t> counts(layout.stages(), others == 0 ? 0 : inner / others);
  if (layout.first_stage_layers) counts.front() = *layout.first_stage_layers;
  if (layout.last_stage_layers) counts.back() = *layout.last_stage_layers;
  return counts;
}

/// Returns layers per stage if neither end stage has a given layer count. Distributes layers as evenly as possible.
/// With --account-for-*, the embedding or the output layer counts as a layer.
std::vector<std::int64_t> even_counts(const Layout& layout, std::int64_t num_layers) {
  std::int64_t items = num_layers + int(layout.account_for_embedding) + int(layout.account_for_loss);
  std::int64_t surplus = items % layout.stages();
  bool counted_extra = items != num_layers;
  if (items < layout.stages())
    fail_at(Exit::usage, cat("--num-layers ", num_layers), "is fewer than the ", layout.stages(),
            " pipeline stages; choose --pipeline-model-parallel-size ", num_layers, " or less");
  bool may_be_uneven = layout.chunks == 1 && !counted_extra;
  if (surplus != 0 && !may_be_uneven) {
    fail_at(Exit::usage, cat("--num-layers ", num_layers, counted_extra ? " plus embedding or output layer" : ""),
            "is not divisible by ", layout.stages(), " pipeline stages; choose a multiple of ",
            std::int64_t{layout.stages()} * layout.chunks, ", or set the end stages with ",
            "--num-layers-in-first-pipeline-stage and --num-layers-in-last-pipeline-stage");
  }
  std::vector<std::int64_t> counts(layout.stages(), items / layout.stages());
  for (std::int64_t i = 0; i < surplus; ++i) ++counts[1 + i];
  return counts;
}

}  // namespace

std::vector<std::vector<LayerRange>> split_layers(const Layout& layout, std::int64_t num_layers) {
  check_split(layout, num_layers);
  bool given = layout.first_stage_layers || layout.last_stage_layers;
  std::vector<std::int64_t> counts =
      given ? counts_with_given_ends(layout, num_layers) : even_counts(layout, num_layers);
  for (std::size_t stage = 0; stage < counts.size(); ++stage) {
    if (counts[stage] % layout.chunks != 0) {
      fail_at(Exit::usage, cat("--num-layers ", num_layers), "gives pipeline stage ", stage, " ", counts[stage],
              counts[stage] == 1 ? " layer" : " layers", ", which cannot be divided into ", layout.chunks,
              " chunks; choose a multiple of ", std::int64_t{layout.stages()} * layout.chunks);
    }
  }
  std::vector<std::vector<LayerRange>> out(counts.size());
  std::int64_t next = 0;
  for (int chunk = 0; chunk < layout.chunks; ++chunk) {
    for (int stage = 0; stage < layout.stages(); ++stage) {
      std::int64_t count = counts[stage] / layout.chunks;
      if (layout.account_for_embedding && stage == 0 && chunk == 0) --count;
      if (layout.account_for_loss && stage == layout.stages() - 1 && chunk == layout.chunks - 1) --count;
      out[stage].push_back({next, count});
      next += count;
    }
  }
  // A chunk without layers would hold just an embedding or an output layer. Like Megatron-LM, we allow this with
  // --account-for-*.
  for (const std::vector<LayerRange>& chunks : out) {
    for (const LayerRange& range : chunks) {
      if (range.count < 0 || (range.count == 0 && !layout.account_for_embedding && !layout.account_for_loss))
        fail_at(Exit::usage, cat("--num-layers ", num_layers), "is too few for ", layout.stages(),
                " pipeline stages of ", layout.chunks, " chunks; use fewer stages or chunks");
    }
  }
  return out;
}

}  // namespace mtl
