#include "layout/group_kinds.h"

#include <algorithm>

namespace mtl {

std::vector<GroupKind> group_kinds(const Layout& layout, int node_size) {
  std::vector<GroupKind> out;
  const auto crosses = [&](const std::vector<int>& group) {
    return std::ranges::any_of(group, [&](int rank) { return rank / node_size != group.front() / node_size; });
  };
  const auto add = [&](const char* name, const std::vector<std::vector<int>>& groups, const char* purpose,
                       const char* traffic) {
    out.push_back({.name = name,
                   .purpose = purpose,
                   .traffic = traffic,
                   .groups = groups,
                   .crossing = static_cast<int>(std::ranges::count_if(groups, crosses))});
    if (out.back().is_idle()) out.back().traffic = "nothing: each rank is alone";
  };
  // Hides groups that equal those of an earlier kind.
  const auto add_combined = [&](const char* name, const std::vector<std::vector<int>>& groups, const char* purpose,
                                const char* traffic) {
    const bool repeats = std::ranges::find(out, groups, &GroupKind::groups) != out.end();
    add(name, groups, purpose, traffic);
    out.back().repeats = repeats;
  };

  const RankGrid& grid = layout.grid;
  add("tp", grid.groups(Axis::tensor), "tensor parallel: share every matrix",
      layout.sequence_parallel ? "activations, gathered and reduce-scattered, each layer and micro-batch"
                               : "activations, all-reduced, each layer and micro-batch");
  add("cp", grid.groups(Axis::context), "context parallel: share every sequence",
      "keys and values, each layer and micro-batch");
  const bool is_vee = layout.places().arrangement == Arrangement::vee;
  const char* passed = "activations to the next stage, gradients back, once a micro-batch";
  if (layout.chunks > 1) passed = "activations to the next stage, gradients back, once a micro-batch and chunk";
  if (is_vee) passed = "activations and gradients, to the next stage and back, once a micro-batch";
  add("pp", grid.groups(Axis::pipeline),
      layout.chunks > 1 ? "pipeline: hold chunks of consecutive layers" : "pipeline: hold consecutive layers", passed);
  // Ranks that share a sequence also have the same weights, so gradients are summed over both axes at once.
  const char* gradients =
      layout.zero == 0   ? "gradients, once a step"
      : layout.zero == 3 ? "weights, gathered twice, and gradients, reduce-scattered, each micro-batch"
      : layout.zero == 2 ? "gradients, reduce-scattered, each micro-batch, and weights, gathered, once a step"
                         : "gradients, reduce-scattered, and weights, gathered, once a step";
  bool has_context = grid.size(Axis::context) > 1;
  add("dp", grid.groups(Axis::data), "data parallel: same weights, other samples",
      has_context ? "nothing of their own: gradients go over dp-cp" : gradients);
  add_combined("dp-cp", grid.groups(kReplicaAxes), "have the same weights", gradients);
  if (has_context) out.back().repeats = false;
  if (layout.expert_grid) {
    const RankGrid& experts = *layout.expert_grid;
    add("ep", experts.groups(Axis::expert), "expert parallel: share the experts",
        "tokens to their experts and back, each expert layer and micro-batch");
    add("expert-dp", experts.groups(Axis::data), "have the same experts", "experts' gradients, once a step");
    add_combined("expert-tp", experts.groups(Axis::tensor), "share every matrix of experts",
                 "activations, each expert layer and micro-batch");
    add_combined("tp-ep", experts.groups({Axis::tensor, Axis::expert}), "hold an expert layer once",
                 "tokens to their experts and back, where tensor parallel ranks share them");
    add_combined("tp-ep-pp", experts.groups({Axis::tensor, Axis::expert, Axis::pipeline}), "hold all experts once",
                 "a few numbers a step: gradient norm of the experts");
  }
  // The first stage of a V uses one table twice.
  add("embedding", is_vee ? grid.position_embedding_groups() : grid.embedding_groups(),
      "first and last stage: tied embedding", "the embedding's gradient, once a step");
  add_combined("position_embedding", grid.position_embedding_groups(), "first stage: position embedding", "nothing");
  add("tp-pp", grid.groups({Axis::tensor, Axis::pipeline}), "model parallel: one whole model",
      "a few numbers a step: gradient norm");
  const char* scales = "nothing in fp32; Megatron-LM's fp8 scales";
  add_combined("tp-cp", grid.groups({Axis::tensor, Axis::context}), "one stage of one replica", scales);
  add_combined("tp-dp", grid.groups({Axis::tensor, Axis::data}),
               has_context ? "one stage, one part of sequences" : "one stage of all replicas", scales);
  add_combined("tp-dp-cp", grid.groups({Axis::tensor, Axis::data, Axis::context}), "one stage of all replicas", scales);
  return out;
}

std::vector<GroupKind> shown_kinds(std::vector<GroupKind> kinds) {
  std::erase_if(kinds, [](const GroupKind& kind) { return kind.repeats || kind.is_idle(); });
  return kinds;
}

std::vector<std::string> idle_kinds(const std::vector<GroupKind>& kinds) {
  std::vector<std::string> out;
  for (const GroupKind& kind : kinds) {
    if (!kind.repeats && kind.is_idle()) out.push_back(kind.name);
  }
  return out;
}

}  // namespace mtl
