#include "layout/stages.h"

#include <numeric>

#include "base/count_of.h"
#include "base/error.h"
#include "base/str.h"

namespace mtl {

std::string LayerRange::text() const { return count == 1 ? cat(first) : cat(first, "-", first + count - 1); }

namespace {

/// Returns the end-stage flags that the user gave, such as "--num-layers-in-first-pipeline-stage 1 and
/// --num-layers-in-last-pipeline-stage 2".
std::string end_stage_flags(const Layout& layout) {
  std::vector<std::string> parts;
  for (const auto& [name, layers] :
       {std::pair("first", layout.split.first_stage_layers), std::pair("last", layout.split.last_stage_layers)}) {
    if (layers) parts.push_back(cat("--num-layers-in-", name, "-pipeline-stage ", *layers));
  }
  return join(parts, " and ");
}

/// Returns the flags that count the embedding or the output layer as a layer.
std::vector<std::string> account_flags(const Layout& layout) {
  std::vector<std::string> flags;
  if (layout.split.account_for_embedding) flags.emplace_back("--account-for-embedding-in-pipeline-split");
  if (layout.split.account_for_loss) flags.emplace_back("--account-for-loss-in-pipeline-split");
  return flags;
}

/// Checks layers that --pipeline-model-parallel-layout has distributed.
void check_layer_counts(const Layout& layout, std::int64_t num_layers, bool is_fixed) {
  const char* where = "--pipeline-model-parallel-layout";
  std::vector<std::string> others = account_flags(layout);
  if (const std::string ends = end_stage_flags(layout); !ends.empty()) others.push_back(ends);
  if (!others.empty())
    fail_at(Exit::usage, where, "cannot be combined with ", join(others, " and "), "; use only one of them");
  const std::vector<std::int64_t>& counts = layout.split.layer_counts;
  const Places places = layout.places();
  if (std::ssize(counts) != places.count())
    fail_at(Exit::usage, where, "has ", count_of(counts.size(), "part"), ", and --pipeline-model-parallel-size ",
            places.stages, " needs a multiple of ", places.stages,
            "; add or leave out a |, or change the number of stages");
  const std::int64_t sum = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  if (sum != num_layers)
    fail_at(Exit::usage, where, "has ", count_of(sum, "layer"), " (t), but the model has ", num_layers,
            is_fixed || sum == 0 ? "; change the text" : cat("; change the text, or use --num-layers ", sum));
  for (int stage = 0; stage < places.stages; ++stage) {
    if (stage == 0 || stage == places.loss_stage()) continue;  // has the embedding or the output layer
    std::int64_t layers = 0;
    for (int chunk = 0; chunk < places.chunks; ++chunk) layers += counts[places.position_of({stage, chunk})];
    if (layers == 0)
      fail_at(Exit::usage, where, "leaves stage ", stage,
              " (counted from 0) without layers; give it one, or use fewer stages");
  }
}

void check_split(const Layout& layout, std::int64_t num_layers) {
  if (num_layers < 1) fail_at(Exit::usage, cat("--num-layers ", num_layers), "must be at least 1");
  if (layout.stages() < 1 || layout.chunks < 1)
    fail(Exit::usage, "a pipeline needs at least 1 stage and 1 chunk per stage, not ", layout.stages(), " and ",
         layout.chunks);
  if (layout.chunks > 1 && layout.stages() == 1)
    fail_at(Exit::usage, "--pipeline-model-parallel-size 1", "has no other stage to interleave ", layout.chunks,
            " chunks with; use at least 2 stages, or ",
            layout.schedule == ScheduleKind::zero_bubble_v ? "another schedule" : "1 chunk");
  const std::string ends = end_stage_flags(layout);
  if (ends.empty()) return;
  if (const std::vector<std::string> counted = account_flags(layout); !counted.empty())
    fail_at(Exit::usage, ends, "cannot be combined with ", join(counted, " and "), "; use only one of the two kinds");
  if (layout.stages() == 1) {
    const bool are_two = layout.split.first_stage_layers && layout.split.last_stage_layers;
    fail_at(Exit::usage, ends, are_two ? "need" : "needs", " at least 2 pipeline stages; leave ",
            are_two ? "them" : "it", " out, or use --pipeline-model-parallel-size 2 or more");
  }
  for (const auto& [name, layers] :
       {std::pair("first", layout.split.first_stage_layers), std::pair("last", layout.split.last_stage_layers)}) {
    if (!layers) continue;
    const std::string where = cat("--num-layers-in-", name, "-pipeline-stage ", *layers);
    if (*layers < 1) fail_at(Exit::usage, where, "must be at least 1");
    if (*layers > num_layers) fail_at(Exit::usage, where, "is more than --num-layers ", num_layers, "; use fewer");
    if (*layers % layout.chunks != 0)
      fail_at(Exit::usage, where, "cannot be divided into ", layout.chunks, " chunks; choose a multiple of ",
              layout.chunks);
  }
}

/// Throws Error(usage), because the end stages leave `inner` layers for the `others` remaining stages. The caller has
/// found that `inner` is too small or not a multiple of others x chunks.
[[noreturn]] void refuse_ends(const Layout& layout, std::int64_t num_layers, std::int64_t inner, std::int64_t others,
                              bool is_fixed) {
  const std::string where = cat("--num-layers ", num_layers), flags = end_stage_flags(layout);
  const std::int64_t ends = num_layers - inner, chunks = layout.chunks, unit = others * chunks;
  const bool are_two = layout.split.first_stage_layers && layout.split.last_stage_layers;
  const char* verb = are_two ? " leave " : " leaves ";
  if (others == 0) {
    std::vector<std::string> remedies;
    if (num_layers >= 2 * chunks && num_layers % chunks == 0)
      remedies.push_back(cat("make them add up to ", num_layers));
    if (!is_fixed) remedies.push_back(cat("choose --num-layers ", ends));
    fail_at(Exit::usage, where, flags, " add up to ", ends, ", and there are no other stages; ",
            remedies.empty() ? "use fewer stages" : join(remedies, ", or "));
  }
  const std::string stages = others == 1 ? "the other stage" : cat("each of the other ", others, " stages");
  if (inner < unit)
    fail_at(Exit::usage, where, flags,
            inner < 0 ? cat(are_two ? " exceed" : " exceeds", " the number of layers")
                      : cat(verb, count_of(inner, "layer")),
            ", and ", stages, " needs at least ", chunks, "; ",
            is_fixed ? "use smaller end stages, or fewer stages" : cat("choose --num-layers ", ends + unit));
  const std::int64_t fewer = ends + inner / unit * unit;
  std::vector<std::string> remedies;
  if (!is_fixed) remedies.push_back(cat("--num-layers ", fewer, " or ", fewer + unit));
  if (num_layers % chunks == 0) remedies.push_back(cat("end stages that leave a multiple of ", unit));
  if (remedies.empty()) remedies.emplace_back("another number of chunks");
  fail_at(Exit::usage, where, flags, verb, inner, inner == 1 ? " layer" : " layers",
          ", which cannot be divided equally over the other ", others == 1 ? "stage" : cat(others, " stages"),
          chunks > 1 ? cat(" with ", chunks, " chunks") : "", "; choose ", join(remedies, ", or "));
}

/// Returns layers per stage if the first stage, the last stage or both have a given layer count. The other stages share
/// the remaining layers equally.
std::vector<std::int64_t> counts_with_given_ends(const Layout& layout, std::int64_t num_layers, bool is_fixed) {
  std::int64_t inner =
      num_layers - layout.split.first_stage_layers.value_or(0) - layout.split.last_stage_layers.value_or(0);
  std::int64_t others = layout.stages() - int(layout.split.first_stage_layers.has_value()) -
                        int(layout.split.last_stage_layers.has_value());
  const std::int64_t unit = others * layout.chunks;
  if (others == 0 ? inner != 0 : (inner % unit != 0 || inner < unit))
    refuse_ends(layout, num_layers, inner, others, is_fixed);
  std::vector<std::int64_t> counts(layout.stages(), others == 0 ? 0 : inner / others);
  if (layout.split.first_stage_layers) counts.front() = *layout.split.first_stage_layers;
  if (layout.split.last_stage_layers) counts.back() = *layout.split.last_stage_layers;
  return counts;
}

/// Throws Error(usage), because `items`, which are the layers and what --account-for-* adds, cannot be divided evenly
/// among the chunks of all stages.
[[noreturn]] void refuse_uneven(const Layout& layout, std::int64_t num_layers, std::int64_t items, bool is_fixed) {
  const std::int64_t stages = layout.stages(), chunks = layout.chunks, unit = stages * chunks;
  const std::int64_t added = items - num_layers, fewer = items / unit * unit - added;
  const std::vector<std::string> counted = account_flags(layout);
  std::vector<std::string> remedies;
  if (!is_fixed) remedies.push_back(cat("choose --num-layers ", fewer >= 1 ? cat(fewer, " or ") : "", fewer + unit));
  if (added > 0 && (chunks == 1 ? num_layers >= stages : num_layers % unit == 0))
    remedies.push_back(cat("leave out ", join(counted, " and ")));
  // The first stage takes what the others leave.
  if (added == 0 && num_layers % chunks == 0 && num_layers >= unit)
    remedies.push_back(
        cat("use --num-layers-in-first-pipeline-stage ", num_layers - (stages - 1) * (num_layers / unit) * chunks));
  if (remedies.empty()) remedies.emplace_back("use another number of stages");
  fail_at(Exit::usage, cat("--num-layers ", num_layers),
          added > 0 ? cat("and ", added, " for ", join(counted, " and "), " are ", items, ", which ") : "",
          "cannot be divided into ", stages, " pipeline stages", chunks > 1 ? cat(" of ", chunks, " chunks") : "", "; ",
          join(remedies, ", or "));
}

/// Returns layers per stage if neither end stage has a given layer count. Distributes layers as evenly as possible.
/// With --account-for-*, the embedding or the output layer counts as a layer.
std::vector<std::int64_t> even_counts(const Layout& layout, std::int64_t num_layers, bool is_fixed) {
  const std::int64_t items = num_layers + std::ssize(account_flags(layout)), stages = layout.stages();
  const bool may_be_uneven = layout.chunks == 1 && items == num_layers;
  if (may_be_uneven && items < stages)
    fail_at(Exit::usage, cat("--num-layers ", num_layers), "is fewer than the ", stages,
            " pipeline stages; choose --pipeline-model-parallel-size ", num_layers, " or less");
  if (!may_be_uneven && items % (stages * layout.chunks) != 0) refuse_uneven(layout, num_layers, items, is_fixed);
  std::vector<std::int64_t> counts(stages, items / stages);
  for (std::int64_t i = 0; i < items % stages; ++i) ++counts[1 + i];
  return counts;
}

}  // namespace

std::vector<std::int64_t> layer_counts(const Layout& layout, std::int64_t num_layers, bool is_fixed) {
  check_split(layout, num_layers);
  if (!layout.split.layer_counts.empty()) {
    check_layer_counts(layout, num_layers, is_fixed);
    return layout.split.layer_counts;
  }
  const bool given = layout.split.first_stage_layers || layout.split.last_stage_layers;
  const std::vector<std::int64_t> by_stage =
      given ? counts_with_given_ends(layout, num_layers, is_fixed) : even_counts(layout, num_layers, is_fixed);
  const Places places = layout.places();
  std::vector<std::int64_t> out;
  for (int position = 0; position < places.count(); ++position)
    out.push_back(by_stage[places.at(position).stage] / layout.chunks);
  if (layout.split.account_for_embedding) --out.front();
  if (layout.split.account_for_loss) --out.back();
  return out;
}

std::vector<std::vector<LayerRange>> split_layers(const Layout& layout, std::int64_t num_layers) {
  const std::vector<std::int64_t> counts = layer_counts(layout, num_layers);
  const Places places = layout.places();
  std::vector<std::vector<LayerRange>> out(places.stages);
  std::int64_t next = 0;
  for (int position = 0; position < places.count(); ++position) {
    out[places.at(position).stage].push_back({next, counts[position]});
    next += counts[position];
  }
  return out;
}

}  // namespace mtl
