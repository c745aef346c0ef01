#include "layout/group_kinds.h"

#include <algorithm>

namespace mtl {

namespace {

/// Collects group kinds in report order.
class KindCollector {
 public:
  explicit KindCollector(int node_size) : node_size_(node_size) {}

  void add(const char* name, std::vector<std::vector<int>> groups, const char* purpose, const char* traffic) {
    GroupKind kind{.name = name, .purpose = purpose, .traffic = traffic, .groups = std::move(groups)};
    for (const std::vector<int>& group : kind.groups) {
      const int node = group.front() / node_size_;
      kind.crossing +=
          int(std::any_of(group.begin(), group.end(), [&](int rank) { return rank / node_size_ != node; }));
    }
    if (kind.is_idle()) kind.traffic = "nothing: each rank is alone";
    kinds_.push_back(std::move(kind));
  }
  /// Adds groups, which are hidden if they equal those of an earlier kind.
  void add_combined(const char* name, const std::vector<std::vector<int>>& groups, const char* purpose,
                    const char* traffic) {
    bool repeats =
        std::any_of(kinds_.begin(), kinds_.end(), [&](const GroupKind& other) { return other.groups == groups; });
    add(name, groups, purpose, traffic);
    kinds_.back().repeats = repeats;
  }
  std::vector<GroupKind> take() { return std::move(kinds_); }

 private:
  int node_size_;
  std::vector<GroupKind> kinds_;
};

void collect_expert_kinds(KindCollector& kinds, const RankGrid& experts) {
  kinds.add("ep", experts.groups(Axis::expert), "expert parallel: share the experts",
            "tokens to their experts and back, each expert layer and micro-batch");
  kinds.add("expert-dp", experts.groups(Axis::data), "have the same experts", "experts' gradients, once a step");
  kinds.add_combined("expert-tp", experts.groups(Axis::tensor), "share every matrix of experts",
                     "activations, each expert layer and micro-batch");
  kinds.add_combined("tp-ep", experts.groups({Axis::tensor, Axis::expert}), "hold an expert layer once",
                     "tokens to their experts and back, where tensor parallel ranks share them");
  kinds.add_combined("tp-ep-pp", experts.groups({Axis::tensor, Axis::expert, Axis::pipeline}), "hold all experts once",
                     "a few numbers a step: gradient norm of the experts");
}

}  // namespace

std::vector<GroupKind> group_kinds(const Layout& layout, int node_size) {
  const RankGrid& grid = layout.grid;
  KindCollector kinds(node_size);
  kinds.add("tp", grid.groups(Axis::tensor), "tensor parallel: share every matrix",
            layout.sequence_parallel ? "activations, gathered and reduce-scattered, each layer and micro-batch"
                                     : "activations, all-reduced, each layer and micro-batch");
  kinds.add("cp", grid.groups(Axis::context), "context parallel: share every sequence",
            "keys and values, each layer and micro-batch");
  const bool is_vee = layout.places().arrangement == Arrangement::vee;
  const char* passed = "activations to the next stage, gradients back, once a micro-batch";
  if (layout.chunks > 1) passed = "activations to the next stage, gradients back, once a micro-batch and chunk";
  if (is_vee) passed = "activations and gradients, to the next stage and back, once a micro-batch";
  kinds.add("pp", grid.groups(Axis::pipeline),
            layout.chunks > 1 ? "pipeline: hold chunks of consecutive layers" : "pipeline: hold consecutive layers",
            passed);
  // Ranks that share a sequence also have the same weights, so gradients are summed over both axes at once.
  const char* gradients =
      layout.zero == 0   ? "gradients, once a step"
      : layout.zero == 3 ? "weights, gathered twice, and gradients, reduce-scattered, each micro-batch"
      : layout.zero == 2 ? "gradients, reduce-scattered, each micro-batch, and weights, gathered, once a step"
                         : "gradients, reduce-scattered, and weights, gathered, once a step";
  bool has_context = grid.size(Axis::context) > 1;
  kinds.add("dp", grid.groups(Axis::data), "data parallel: same weights, other samples",
            has_context ? "nothing of their own: gradients go over dp-cp" : gradients);
  if (has_context)
    kinds.add("dp-cp", grid.groups({Axis::data, Axis::context}), "have the same weights", gradients);
  else
    kinds.add_combined("dp-cp", grid.groups({Axis::data, Axis::context}), "have the same weights", gradients);
  if (layout.expert_grid) collect_expert_kinds(kinds, *layout.expert_grid);
  // The first stage of a V uses one table twice.
  kinds.add("embedding", is_vee ? grid.position_embedding_groups() : grid.embedding_groups(),
            "first and last stage: tied embedding", "the embedding's gradient, once a step");
  kinds.add_combined("position_embedding", grid.position_embedding_groups(), "first stage: position embedding",
                     "nothing");
  kinds.add("tp-pp", grid.groups({Axis::tensor, Axis::pipeline}), "model parallel: one whole model",
            "a few numbers a step: gradient norm");
  const char* scales = "nothing in fp32; Megatron-LM's fp8 scales";
  kinds.add_combined("tp-cp", grid.groups({Axis::tensor, Axis::context}), "one stage of one replica", scales);
  kinds.add_combined("tp-dp", grid.groups({Axis::tensor, Axis::data}),
                     has_context ? "one stage, one part of sequences" : "one stage of all replicas", scales);
  kinds.add_combined("tp-dp-cp", grid.groups({Axis::tensor, Axis::data, Axis::context}), "one stage of all replicas",
                     scales);
  return kinds.take();
}

std::vector<GroupKind> shown_kinds(const std::vector<GroupKind>& kinds) {
  std::vector<GroupKind> out;
  std::copy_if(kinds.begin(), kinds.end(), std::back_inserter(out),
               [](const GroupKind& kind) { return !kind.repeats && !kind.is_idle(); });
  return out;
}

std::vector<std::string> idle_kinds(const std::vector<GroupKind>& kinds) {
  std::vector<std::string> out;
  for (const GroupKind& kind : kinds) {
    if (!kind.repeats && kind.is_idle()) out.push_back(kind.name);
  }
  return out;
}

}  // namespace mtl
