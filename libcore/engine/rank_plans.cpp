#include "engine/rank_plans.h"

#include <algorithm>
#include <compare>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "engine/meta_model.h"
#include "layout/schedule.h"

namespace mtl {

namespace {

/// The inputs to plan_passes() that differ between ranks. Ranks with equal keys have equal plans; so may others.
struct PassKey {
  std::vector<ChunkKind> chunks = {};
  std::vector<int> in_flight = {};       // by chunk: micro-batches in flight
  bool is_first_tensor_rank = false;     // writes replicated parameters, and counts them in norms
  std::int64_t unpadded_vocab_rows = 0;  // in the token embedding; the last tensor-parallel ranks may have fewer
  int context_part = 0;                  // with a window, which masks more or fewer scores in other parts of a sequence
  auto operator<=>(const PassKey&) const = default;
};
/// The inputs to plan_update() that depend on the elements a rank owns.
struct OwnedKey {
  std::int64_t updated = 0;        // elements of parameters, without the gaps between them
  std::int64_t written = 0;        // those that it writes to checkpoints, and counts in the gradient norm
  std::int64_t largest_count = 0;  // the most such elements in one parameter
  bool copies_saves = false;       // copies what it writes to checkpoints before
  auto operator<=>(const OwnedKey&) const = default;
};

/// Returns how many micro-batches are in flight, by chunk of a stage with this schedule.
std::vector<int> chunks_in_flight(const Layout& layout, const std::vector<Action>& of_stage) {
  std::vector<int> out;
  for (int chunk = 0; chunk < layout.chunks; ++chunk) out.push_back(max_in_flight(of_stage, chunk));
  return out;
}

/// What ranks with the same PassKey share: their forward and backward plan, and their part of the model.
struct Passes {
  int rank;  // whose step it is
  MetaStep step;
  MemoryPlan plan;
  std::map<OwnedKey, std::size_t> plans = {};  // indices into plan_ranks()'s result
  bool has_update = false;                     // of `step`

  Passes(const GptConfig& config, const DropoutOptions& dropout, const RunShape& shape, const StepSchedule& schedule)
      : rank(shape.layout.rank), step(config, dropout, shape, schedule), plan(plan_passes(step, config, shape)) {}

  /// Returns the plan of shape.layout.rank, with the update of the first of the replicas that own the same elements,
  /// but for the copy of what this rank writes.
  MemoryPlan with_update(const GptConfig& config, RunShape shape) {
    MemoryPlan out = plan;
    const int planned = shape.layout.rank;
    shape.layout.rank = shape.layout.grid.group_of(planned, kReplicaAxes - shape.layout.owners()).front();
    if (shape.layout.rank == rank && !std::exchange(has_update, true)) {
      plan_update(out, step, shape);
    } else {
      MetaStep other(config, {}, shape, counting_schedule(shape.layout, 1));
      plan_update(out, other, shape);
    }
    if (shape.copies_saves && shape.layout.rank != planned) out.entry(Category::save_copy).bytes = 0;
    return out;
  }

  OwnedKey owned_by(int index) const {
    OwnedKey key;
    for (const Bucket& bucket : step.model.params.buckets()) {
      for (const Segment& segment : bucket.segments) {
        const std::int64_t count = bucket.owned_by(index, segment).count;
        key.updated += count;
        if (count == 0 || !step.model.params.writes(segment.param)) continue;  // most are 0 on many ranks
        key.written += count;
        key.largest_count = std::max(key.largest_count, count);
      }
    }
    return key;
  }
};

}  // namespace

std::vector<RankPlan> plan_ranks(const GptConfig& config, const DropoutOptions& dropout, RunShape shape) {
  const auto schedule = pipeline_schedule(shape.layout, static_cast<int>(shape.micro_batches));
  std::map<int, PassKey> stages;
  const auto key_of = [&](const Layout& layout) {
    const int stage = layout.stage();
    const auto [at, is_new] = stages.try_emplace(stage);
    if (is_new)
      at->second = {.chunks = stage_kind(config, layout), .in_flight = chunks_in_flight(layout, schedule[stage])};
    PassKey key = at->second;
    const std::int64_t tensor = layout.coordinate(Axis::tensor);
    const std::int64_t rows = shape.padded_vocab / layout.size(Axis::tensor);
    key.is_first_tensor_rank = tensor == 0;
    if (config.sliding_window > 0) key.context_part = layout.coordinate(Axis::context);
    key.unpadded_vocab_rows = std::clamp<std::int64_t>(config.vocab_size - tensor * rows, 0, rows);
    return key;
  };
  std::map<PassKey, std::unique_ptr<Passes>> kinds;
  std::vector<RankPlan> out;
  for (int rank = 0; rank < shape.layout.grid.world(); ++rank) {
    shape.layout.rank = rank;
    std::unique_ptr<Passes>& kind = kinds[key_of(shape.layout)];
    if (kind == nullptr)
      kind =
          std::make_unique<Passes>(config, dropout, shape, rank_schedule(shape.layout, schedule[shape.layout.stage()]));
    const AxisSet owners = kind->step.model.params.owners();
    OwnedKey owned = kind->owned_by(shape.layout.index_in(owners));
    owned.copies_saves = shape.copies_saves && shape.layout.index_in(kReplicaAxes - owners) == 0;
    auto [at, is_new] = kind->plans.emplace(owned, out.size());
    if (is_new) {
      const MemoryPlan plan = kind->with_update(config, shape);
      auto same = std::find_if(out.begin(), out.end(), [&](const RankPlan& other) { return other.plan == plan; });
      at->second = same - out.begin();
      if (same == out.end()) out.push_back({{}, plan});
    }
    out[at->second].ranks.push_back(rank);
  }
  return out;
}

namespace {

/// Adds `value` to those of which no other is at least as large in every member, by `is_within(a, b)`.
template <class Value, class IsWithin>
void add_largest(std::vector<Value>& largest, const Value& value, const IsWithin& is_within) {
  if (std::ranges::any_of(largest, [&](const Value& other) { return is_within(value, other); })) return;
  std::erase_if(largest, [&](const Value& other) { return is_within(other, value); });
  largest.push_back(value);
}

/// Returns stages of every kind: of those with equal chunks, the ones that keep the most micro-batches.
std::vector<int> largest_stages(const GptConfig& config, RunShape shape,
                                const std::vector<std::vector<Action>>& schedule) {
  using StageInFlight = std::pair<int, std::vector<int>>;
  std::map<std::vector<ChunkKind>, std::vector<StageInFlight>> kinds;
  for (int stage = 0; stage < shape.layout.stages(); ++stage) {
    shape.layout.rank = shape.layout.grid.rank_at({.pipeline = stage});
    const StageInFlight each{stage, chunks_in_flight(shape.layout, schedule[stage])};
    add_largest(kinds[stage_kind(config, shape.layout)], each, [](const StageInFlight& a, const StageInFlight& b) {
      return std::ranges::equal(a.second, b.second, std::less_equal());
    });
  }
  std::vector<int> out;
  for (const auto& [kind, stages] : kinds)
    for (const auto& [stage, in_flight] : stages) out.push_back(stage);
  return out;
}

/// Returns owners' indices, and what the scratch memory of the update depends on.
std::vector<std::pair<int, OwnedKey>> largest_owners(const Passes& passes, int owners) {
  std::vector<std::pair<int, OwnedKey>> out;
  for (int index = 0; index < owners; ++index)
    add_largest(out, std::pair(index, passes.owned_by(index)), [](const auto& a, const auto& b) {
      return a.second.written <= b.second.written && a.second.largest_count <= b.second.largest_count;
    });
  return out;
}

}  // namespace

std::vector<MemoryPlan> plan_largest_ranks(const GptConfig& config, const DropoutOptions& dropout, RunShape shape,
                                           const std::vector<std::vector<Action>>& schedule) {
  std::vector<MemoryPlan> out;
  const int parts = config.sliding_window > 0 ? shape.layout.size(Axis::context) : 1;
  for (int stage : largest_stages(config, shape, schedule)) {
    for (int part = 0; part < parts; ++part) {
      // The first tensor-parallel rank has the most rows of the vocabulary, and writes replicated parameters.
      shape.layout.rank = shape.layout.grid.rank_at({.context = part, .pipeline = stage});
      Passes passes(config, dropout, shape, rank_schedule(shape.layout, schedule[stage]));
      const AxisSet owners = passes.step.model.params.owners();
      const std::vector<int> group = shape.layout.grid.group_of(shape.layout.rank, owners);
      for (const auto& [index, owned] : largest_owners(passes, shape.layout.size(owners))) {
        shape.layout.rank = group[index];
        out.push_back(passes.with_update(config, shape));
      }
    }
  }
  return out;
}

const RankPlan& largest_plan(const std::vector<RankPlan>& plans) {
  return *std::max_element(plans.begin(), plans.end(), [](const RankPlan& a, const RankPlan& b) {
    return a.plan.total_bytes(a.plan.scarce_space()) < b.plan.total_bytes(b.plan.scarce_space());
  });
}

std::vector<MemoryPart> memory_parts(const MemoryPlan& plan, const std::vector<Space>& spaces) {
  std::size_t total = 0;
  for (Space space : spaces) total += plan.total_bytes(space);
  auto bytes = [&](auto... categories) {
    std::size_t sum = 0;
    for (Space space : spaces) sum += (plan.bytes(categories, space) + ...);
    return sum;
  };
  const bool copies_saves = !plan.all(Category::save_copy).empty();
  std::vector<MemoryPart> parts = {
      {"parameters", "weights", bytes(Category::parameters)},
      {"gradients", "grads", bytes(Category::gradients)},
      {"optimizer", "moments", bytes(Category::optimizer)},
      {"main_weights", "main weights", bytes(Category::main_weights)},
      {"activations", "activations",
       bytes(Category::slots, Category::offloaded, Category::offload_ring, Category::messages)},
      {"scratch", "scratch", bytes(Category::scratch)},
      {"batches", "batches", bytes(Category::batches, Category::step)},
      {"staging", "staging", bytes(Category::staging)},
      {"save_copy", "save copy", bytes(Category::save_copy)},
      {"snapshot", "snapshot", bytes(Category::snapshot)},
      {"total", "total", total}};
  std::erase_if(parts, [&](const MemoryPart& part) {
    const std::string_view name = part.name;
    // Of the ranks that copy what they save, some have nothing to save; their tables have the same columns.
    if (name == "save_copy") return part.bytes == 0 && !(copies_saves && std::ranges::count(spaces, Space::host) > 0);
    return part.bytes == 0 && (name == "main_weights" || name == "snapshot" || spaces == std::vector{Space::file});
  });
  return parts;
}

}  // namespace mtl
