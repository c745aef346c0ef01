#include "models/deepspeed_adam.h"

#include <algorithm>
#include <optional>

#include "base/printable.h"

namespace mtl {

namespace {

class AdamReader {
 public:
  explicit AdamReader(const DeepSpeedRank& rank) : rank_(rank) {}

  void read(PickleValue optimizer, std::size_t& first_of_stage) {
    const std::optional<PickleValue> flat = optimizer.find("fp32_groups_flat"), single = optimizer.find("fp32_groups");
    if (flat || single) optimizer = required_entry(rank_.file, optimizer, "optimizer_state_dict");
    if (!optimizer.is(PickleKind::dict) || !optimizer.find("state") || !optimizer.find("param_groups"))
      refuse_optimizer(rank_.file, "is not that of torch's Adam, and does not name its parameters; use ZeRO 1");
    const PickleValue state = required_entry(rank_.file, optimizer, "state"),
                      groups = required_entry(rank_.file, optimizer, "param_groups");
    const std::vector<std::string> order = stage_order(groups, flat.has_value(), first_of_stage);
    const std::vector<std::vector<std::string>> names = grouped_names(order, groups, flat ? flat : single);
    for (std::size_t g = 0; g < names.size(); ++g) {
      const PickleValue ids = required_entry(rank_.file, groups.at(g), "params");
      for (std::size_t i = 0; i < ids.size(); ++i) {
        if (!ids.at(i).is(PickleKind::integer))
          refuse_optimizer(rank_.file, "numbers its parameters by ", ids.at(i).describe());
        const PickleValue entry = numbered_entry(rank_.file, state, ids.at(i).as_int());
        const auto add = [&](ShardedParameters& to, PickleValue value) {
          flat ? add_flat(to, names[g], value) : add_plain(to, names[g][i], value);
        };
        if (flat) add(rank_.out.main, group_entry(rank_.file, *flat, g, "weights"));
        if (single)
          add(rank_.out.main, group_entry(rank_.file, group_entry(rank_.file, *single, g, "weights"), i, "weight"));
        add(rank_.out.exp_avg, required_entry(rank_.file, entry, "exp_avg"));
        add(rank_.out.exp_avg_sq, required_entry(rank_.file, entry, "exp_avg_sq"));
        rank_.steps = std::max(rank_.steps, steps_in(rank_.file, entry));
      }
      rank_.steps = std::max(rank_.steps, steps_in(rank_.file, groups.at(g)));
    }
    if ((flat || single) && rank_.steps > 0) --rank_.steps;  // both wrappers begin with a step without gradients
  }

 private:
  /// Returns the parameters of a pipeline stage in the order of torch's optimizer, or of the whole model: so many,
  /// from model.order[first] on, as the stage's groups have. A last stage with a tied output layer begins with
  /// its copy of the embedding, because PipelineModule registers tied modules before others. Moves `first` beyond the
  /// stage.
  std::vector<std::string> stage_order(PickleValue groups, bool is_flat, std::size_t& first) const {
    if (rank_.model.ranks == std::size_t(rank_.model.tensor_parallel)) return rank_.model.order;
    if (is_flat) refuse_optimizer(rank_.file, "does not state which parameters a pipeline stage has; use ZeRO 1");
    std::size_t count = 0;
    for (std::size_t g = 0; g < groups.size(); ++g) count += required_entry(rank_.file, groups.at(g), "params").size();
    const std::size_t left = rank_.model.order.size() - first;
    const bool has_copy = count > left && first > 0 && !rank_.model.parameters.contains(kOutputLayer);
    std::vector<std::string> order;
    for (const char* name : {kTokenEmbedding, kPositionEmbedding}) {
      if (has_copy && rank_.model.parameters.contains(name)) order.push_back(name);
    }
    count -= order.size();
    if (count > left)
      refuse_optimizer(rank_.file, "has ", count, " parameters, but there are only ", left,
                       " after those of earlier stages");
    const auto begin = rank_.model.order.begin() + first;
    order.insert(order.end(), begin, begin + count);
    first += count;
    return order;
  }

  /// Returns the names of the parameters in each group: matrices and vectors, or all in one group. `weights` are a
  /// wrapper's lists of fp32 weights. If a group is flattened, it has a single entry, and its size tells which it is.
  std::vector<std::vector<std::string>> grouped_names(const std::vector<std::string>& order, PickleValue groups,
                                                      std::optional<PickleValue> weights) const {
    std::vector<std::string> matrices, vectors;
    for (const std::string& name : order) (rank_.shard(name).shape.size() > 1 ? matrices : vectors).push_back(name);
    std::vector<std::vector<std::string>> names = {matrices, vectors};
    if (groups.size() == 1) names = {order};
    const auto fits = [&](std::size_t g, const std::vector<std::string>& members) {
      const TorchTensor* flat = weights ? rank_.file.tensor(group_entry(rank_.file, *weights, g, "weights")) : nullptr;
      const std::size_t entries = required_entry(rank_.file, groups.at(g), "params").size();
      if (flat == nullptr) return entries == members.size();
      std::int64_t count = 0;
      for (const std::string& name : members) count += rank_.shard(name).count();
      return entries == 1 && flat->count() == count;
    };
    if (groups.size() == 2 && fits(0, vectors) && !fits(0, matrices)) std::swap(names[0], names[1]);
    for (std::size_t g = 0; g < names.size(); ++g) {
      if (groups.size() != names.size() || !fits(g, names[g]))
        refuse_optimizer(rank_.file,
                         "has groups of parameters that are neither matrices and vectors nor all in one, and does "
                         "not name them");
    }
    return names;
  }

  /// Adds the parts of a flattened group.
  void add_flat(ShardedParameters& to, const std::vector<std::string>& names, PickleValue value) const {
    const TorchTensor& flat = flat_tensor(rank_.file, value, "a flattened group");
    const Partitions whole = {{&rank_.file, flat}};
    std::int64_t at = 0;
    for (const std::string& name : names) {
      const std::int64_t count = rank_.shard(name).count();
      if (count > flat.count() - at)
        refuse_optimizer(rank_.file, "has ", flat.count(), " elements in a group, too few");
      rank_.add(to, name, cut(whole, at, count));
      at += count;
    }
    if (at != flat.count()) refuse_optimizer(rank_.file, "has ", flat.count(), " elements in a group of ", at);
  }

  void add_plain(ShardedParameters& to, const std::string& name, PickleValue value) const {
    const TorchTensor* tensor = rank_.file.tensor(value);
    if (tensor == nullptr || tensor->dtype != StoredDType::f32 || !tensor->is_contiguous() ||
        tensor->shape != rank_.shard(name).shape)
      refuse_optimizer(rank_.file, "of '", printable_text(rank_.model.parameters.at(name).name),
                       "' is not an fp32 tensor with the parameter's shape");
    rank_.add(to, name, {{&rank_.file, *tensor}});
  }

  const DeepSpeedRank& rank_;
};

}  // namespace

void read_deepspeed_adam(const DeepSpeedRank& rank, PickleValue optimizer, std::size_t& first_of_stage) {
  AdamReader(rank).read(optimizer, first_of_stage);
}

}  // namespace mtl
