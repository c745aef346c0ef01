#include "models/deepspeed_state.h"

#include <algorithm>

#include "base/printable.h"
#include "formats/torch_archive.h"
#include "formats/whole_number.h"
#include "models/canonical.h"

namespace mtl {

namespace {

/// Returns the entry of a group in a list; `what` names it.
PickleValue group_entry(const TorchFile& file, PickleValue list, std::size_t group, std::string_view what) {
  if (!list.is(PickleKind::list) || list.size() <= group) refuse_optimizer(file, "has no ", what, " of group ", group);
  return list.at(group);
}

/// Returns a flat fp32 tensor; `what` names it.
const TorchTensor& flat_tensor(const TorchFile& file, PickleValue value, std::string_view what) {
  const TorchTensor* tensor = file.tensor(value);
  if (tensor == nullptr || tensor->dtype != StoredDType::f32 || tensor->shape.size() != 1 || !tensor->is_contiguous())
    refuse_optimizer(file, "has ", value.describe(), " as ", what, ", instead of a flat fp32 tensor");
  return *tensor;
}

/// Partitions of a flattened group, in order.
using Partitions = std::vector<ShardSegment>;

/// Returns the segments with the elements [begin, begin + count) of a flattened group.
std::vector<ShardSegment> cut(const Partitions& partitions, std::int64_t begin, std::int64_t count) {
  std::vector<ShardSegment> out;
  std::int64_t at = 0;
  for (const ShardSegment& partition : partitions) {
    const std::int64_t end = at + partition.elements.count();
    const std::int64_t first = std::max(begin, at), last = std::min(begin + count, end);
    if (first < last) out.push_back(flat_segment(*partition.file, partition.elements, first - at, last - first));
    at = end;
  }
  return out;
}

// Reads partitioned optimizer states of DeepSpeed, those of ZeRO 1 and 2 and of BF16_Optimizer.
//
// ZeRO 1 and 2 flatten the parameters of a group, in the order of the model file's entry param_shapes, and cut the
// result into one partition for each data-parallel rank. A rank's file has
//
//   optimizer_state_dict = {single_partition_of_fp32_groups: [a partition of each group], group_paddings, zero_stage,
//                           base_optimizer_state: {state: {id: {exp_avg, exp_avg_sq, step}}, param_groups},
//                           partition_count, param_alignment_paddings}
//
// Without ZeRO, BF16_Optimizer writes the same files, but no param_shapes. The parameters and their order are then in
// param_slice_mappings: [{NAME: fragment_address(numel, start)} of each group], in the rank's partition.
//
// With elastic_checkpoint, base_optimizer_state is a list of states, one for each group. The partitions of the moments
// may be longer than those of the weights by padding. bf16's optimizer (BF16_Optimizer) has no zero_stage, and its
// partitions of the weights contain the padding too.
struct PartitionReader : DeepSpeedRank {
  void read(const std::vector<const TorchFile*>& shards) {
    std::vector<PickleValue> states;
    for (const TorchFile* shard : shards) {
      states.push_back(required_entry(*shard, shard->root(), "optimizer_state_dict"));
      check_partition(*shard, states.back(), shards);
    }
    const std::vector<FlatGroup> groups = flat_groups(shards, states);
    for (std::size_t g = 0; g < groups.size(); ++g) {
      Partitions main, exp_avg, exp_avg_sq;
      std::int64_t padding = 0;
      for (std::size_t d = 0; d < shards.size(); ++d) {
        const TorchFile& shard = *shards[d];
        const PickleValue weights = required_entry(shard, states[d], "single_partition_of_fp32_groups");
        const TorchTensor& partition = flat_tensor(shard, group_entry(shard, weights, g, "partition"), "a partition");
        main.push_back({&shard, partition});
        const PickleValue base = base_state(shard, required_entry(shard, states[d], "base_optimizer_state"), g);
        exp_avg.push_back(moment(shard, base, "exp_avg", partition.count()));
        exp_avg_sq.push_back(moment(shard, base, "exp_avg_sq", partition.count()));
        const PickleValue rank_padding =
            group_entry(shard, required_entry(shard, states[d], "group_paddings"), g, "padding");
        if (!rank_padding.is(PickleKind::integer) || rank_padding.as_int() < 0)
          refuse_optimizer(shard, "has ", rank_padding.describe(), " as a padding");
        if (!states[d].find("zero_stage")) padding += rank_padding.as_int();
      }
      add_group(groups[g], main, exp_avg, exp_avg_sq, padding);
    }
  }

  static void check_partition(const TorchFile& file, PickleValue state, const std::vector<const TorchFile*>& shards) {
    const PickleValue stated = required_entry(file, state, "partition_count");
    const PickleValue first = stated.is(PickleKind::list) && stated.size() > 0 ? stated.at(0) : stated;
    const std::int64_t count = first.is(PickleKind::integer) ? first.as_int() : -1;
    if (count < 1) refuse_optimizer(file, "has ", first.describe(), " as partition_count");
    if (count > std::ssize(shards))
      refuse_optimizer(file, "has ", count, " partitions, but there are files of ", shards.size(),
                       "; copy all files of the checkpoint");
    if (count < std::ssize(shards))
      fail_at(Exit::bad_data, shards[count]->path(), "the file is of data-parallel rank ", count, ", but ", file.path(),
              " states ", count, " partitions; remove the file if it is of another run");
    const std::optional<PickleValue> alignment = state.find("param_alignment_paddings");
    for (std::size_t g = 0; alignment && g < alignment->size(); ++g) {
      const PickleValue group = group_entry(file, *alignment, g, "padding");
      for (std::size_t i = 0; i < group.size(); ++i) {
        const PickleValue padding = group_entry(file, group, i, "padding");
        if (!padding.is(PickleKind::integer) || padding.as_int() != 0)
          refuse_optimizer(file, "has padding between parameters (param_alignment_paddings), which mtl does not read");
      }
    }
  }

  /// Returns the base optimizer's state of a group.
  PickleValue base_state(const TorchFile& file, PickleValue base, std::size_t group) {
    if (base.is(PickleKind::list)) {  // elastic_checkpoint
      const PickleValue state = group_entry(file, base, group, "state");
      steps = std::max(steps, steps_in(file, state, "step"));
      return state;
    }
    const PickleValue options = group_entry(file, required_entry(file, base, "param_groups"), group, "options");
    const PickleValue ids = required_entry(file, options, "params");
    if (!ids.is(PickleKind::list) || ids.size() != 1 || !ids.at(0).is(PickleKind::integer))
      refuse_optimizer(file, "has a group of other than one flat parameter");
    const PickleValue state = required_entry(file, required_entry(file, base, "state"), ids.at(0).as_int());
    steps = std::max({steps, steps_in(file, options, "step"), steps_in(file, state, "step")});
    return state;
  }

  static ShardSegment moment(const TorchFile& file, PickleValue state, const char* name, std::int64_t count) {
    const TorchTensor& tensor = flat_tensor(file, required_entry(file, state, name), name);
    if (tensor.count() < count)
      refuse_optimizer(file, "has ", tensor.count(), " elements in ", name, " for a partition of ", count);
    return flat_segment(file, tensor, 0, count);
  }

  /// A flattened group's parameters in order: names in the files, and numbers of elements.
  using FlatGroup = std::vector<std::pair<std::string, std::int64_t>>;

  /// Returns the parameters in each group, which param_shapes states or, without ZeRO, BF16_Optimizer's mappings.
  std::vector<FlatGroup> flat_groups(const std::vector<const TorchFile*>& shards,
                                     const std::vector<PickleValue>& states) const {
    std::vector<FlatGroup> groups;
    const std::optional<PickleValue> shapes = file.root().find("param_shapes");
    if (shapes && shapes->is(PickleKind::list)) {
      for (std::size_t g = 0; g < shapes->size(); ++g) {
        const PickleValue group = shapes->at(g);
        groups.emplace_back();
        for (std::size_t i = 0; i < group.size(); ++i)
          groups.back().emplace_back(group.key(i).as_text(), checked_count(shape_in(file, group.value(i))));
      }
      return groups;
    }
    if (!states[0].find("param_slice_mappings"))
      refuse("has neither param_shapes nor param_slice_mappings, which state the order of the flattened ",
             "parameters");
    for (std::size_t d = 0; d < shards.size(); ++d) {
      const PickleValue mappings = required_entry(*shards[d], states[d], "param_slice_mappings");
      groups.resize(std::max(groups.size(), mappings.size()));
      for (std::size_t g = 0; g < groups.size(); ++g)
        add_fragments(*shards[d], group_entry(*shards[d], mappings, g, "mapping"), groups[g]);
    }
    return groups;
  }

  /// Adds the fragments of parameters in one partition: {name: fragment_address(numel, start)}.
  static void add_fragments(const TorchFile& file, PickleValue mapping, FlatGroup& group) {
    std::int64_t at = 0;
    for (std::size_t i = 0; i < mapping.size(); ++i) {
      const std::string name(mapping.key(i).as_text());
      const PickleValue count = required_entry(file, mapping.value(i), "numel");
      const PickleValue start = required_entry(file, mapping.value(i), "start");
      if (!start.is(PickleKind::integer) || start.as_int() != at || !count.is(PickleKind::integer) ||
          count.as_int() < 0 || __builtin_add_overflow(at, count.as_int(), &at))
        refuse_optimizer(file, "has a fragment of '", printable_text(name), "' that does not follow the one before it");
      if (group.empty() || group.back().first != name) group.emplace_back(name, 0);
      if (__builtin_add_overflow(group.back().second, count.as_int(), &group.back().second))
        refuse_optimizer(file, "has too many elements of '", printable_text(name), "'");
    }
  }

  void add_group(const FlatGroup& group, const Partitions& main, const Partitions& exp_avg,
                 const Partitions& exp_avg_sq, std::int64_t padding) {
    std::int64_t total = 0, at = 0;
    for (const ShardSegment& partition : main) total += partition.elements.count();
    for (const auto& [stored, count] : group) {
      const std::optional<std::string> name = model.canonical_name(stored);
      const auto found = name ? model.parameters.find(*name) : model.parameters.end();
      if (found == model.parameters.end())
        refuse("lists '", printable_text(stored), "', which is not a parameter of the model");
      if (count != weight(*name).count())
        refuse("lists '", printable_text(stored), "' with another shape than the model");
      if (count > total - at) refuse("has ", total, " elements, fewer than its parameters");
      add(out.main, *name, cut(main, at, count));
      add(out.exp_avg, *name, cut(exp_avg, at, count));
      add(out.exp_avg_sq, *name, cut(exp_avg_sq, at, count));
      at += count;
    }
    if (total - at != padding)
      refuse("has ", total, " elements in its partitions, but ", at, " in its parameters and ", padding, " of padding");
  }
};

// Reads optimizer states of DeepSpeed without partitions, which are in the model's files: torch's own and, for 16-bit
// models, also the fp32 weights:
//
//   optimizer = {state: {id: {exp_avg, exp_avg_sq, step}}, param_groups: [{params: [id, ...]}]}
//   optimizer = {optimizer_state_dict: as above, fp32_groups: [[a tensor of each parameter]]}   FP16_UnfusedOptimizer
//   optimizer = {optimizer_state_dict: as above, fp32_groups_flat: [a tensor of each group]}    FP16_Optimizer
//
// FP16_Optimizer flattens each group, so that its moments are flat, too. Nothing there names the parameters, so mtl
// reads it only if every group contains parameters of one kind, matrices or vectors, or if there is a single group with
// all of them. A pipeline stage's groups contain consecutive parameters in the order of the modules, and those of a
// last stage with a tied output layer first its copy of the embedding.
struct AdamReader : DeepSpeedRank {
  void read(PickleValue optimizer, std::size_t& first_of_stage) {
    const std::optional<PickleValue> flat = optimizer.find("fp32_groups_flat"), single = optimizer.find("fp32_groups");
    if (flat || single) optimizer = entry(optimizer, "optimizer_state_dict");
    if (!optimizer.is(PickleKind::dict) || !optimizer.find("state") || !optimizer.find("param_groups"))
      refuse("is not that of torch's Adam, and does not name its parameters; use ZeRO 1");
    const PickleValue state = entry(optimizer, "state"), groups = entry(optimizer, "param_groups");
    const std::vector<std::string> order = stage_order(groups, flat.has_value(), first_of_stage);
    const std::vector<std::vector<std::string>> names = grouped_names(order, groups, flat ? flat : single);
    for (std::size_t g = 0; g < names.size(); ++g) {
      const PickleValue ids = entry(groups.at(g), "params");
      for (std::size_t i = 0; i < ids.size(); ++i) {
        if (!ids.at(i).is(PickleKind::integer)) refuse("numbers its parameters by ", ids.at(i).describe());
        const PickleValue moments = entry(state, ids.at(i).as_int());
        const auto add_value = [&](ShardedParameters& to, PickleValue value) {
          flat ? add_flat(to, names[g], value) : add_plain(to, names[g][i], value);
        };
        if (flat) add_value(out.main, group_entry(file, *flat, g, "weights"));
        if (single) add_value(out.main, group_entry(file, group_entry(file, *single, g, "weights"), i, "weight"));
        add_value(out.exp_avg, entry(moments, "exp_avg"));
        add_value(out.exp_avg_sq, entry(moments, "exp_avg_sq"));
        steps = std::max(steps, steps_in(file, moments, "step"));
      }
      steps = std::max(steps, steps_in(file, groups.at(g), "step"));
    }
    if ((flat || single) && steps > 0) --steps;  // both wrappers begin with a step without gradients
  }

  /// Returns the parameters of a pipeline stage in the order of torch's optimizer, or of the whole model: so many,
  /// from model.order[first] on, as the stage's groups have. A last stage with a tied output layer begins with
  /// its copy of the embedding, because PipelineModule registers tied modules before others. Moves `first` beyond the
  /// stage.
  std::vector<std::string> stage_order(PickleValue groups, bool is_flat, std::size_t& first) const {
    if (model.ranks == std::size_t(model.tensor_parallel)) return model.order;
    if (is_flat) refuse("does not state which parameters a pipeline stage has; use ZeRO 1");
    std::size_t count = 0;
    for (std::size_t g = 0; g < groups.size(); ++g) count += entry(groups.at(g), "params").size();
    const std::size_t left = model.order.size() - first;
    const bool has_copy = count > left && first > 0 && !model.parameters.contains(kOutputLayer);
    std::vector<std::string> order;
    for (const char* name : {kTokenEmbedding, kPositionEmbedding}) {
      if (has_copy && model.parameters.contains(name)) order.push_back(name);
    }
    count -= order.size();
    if (count > left) refuse("has ", count, " parameters, but there are only ", left, " after those of earlier stages");
    const auto begin = model.order.begin() + first;
    order.insert(order.end(), begin, begin + count);
    first += count;
    return order;
  }

  /// Returns the names of the parameters in each group: matrices and vectors, or all in one group. `weights` are a
  /// wrapper's lists of fp32 weights. If a group is flattened, it has a single entry, and its size tells which it is.
  std::vector<std::vector<std::string>> grouped_names(const std::vector<std::string>& order, PickleValue groups,
                                                      std::optional<PickleValue> weights) const {
    std::vector<std::string> matrices, vectors;
    for (const std::string& name : order) (weight(name).shape.size() > 1 ? matrices : vectors).push_back(name);
    std::vector<std::vector<std::string>> names = {matrices, vectors};
    if (groups.size() == 1) names = {order};
    const auto fits = [&](std::size_t g, const std::vector<std::string>& members) {
      const TorchTensor* flat = weights ? file.tensor(group_entry(file, *weights, g, "weights")) : nullptr;
      const std::size_t entries = entry(groups.at(g), "params").size();
      if (flat == nullptr) return entries == members.size();
      std::int64_t count = 0;
      for (const std::string& name : members) count += weight(name).count();
      return entries == 1 && flat->count() == count;
    };
    if (groups.size() == 2 && fits(0, vectors) && !fits(0, matrices)) std::swap(names[0], names[1]);
    for (std::size_t g = 0; g < names.size(); ++g) {
      if (groups.size() != names.size() || !fits(g, names[g]))
        refuse(
            "has groups of parameters that are neither matrices and vectors nor all in one, and does "
            "not name them");
    }
    return names;
  }

  /// Adds the parts of a flattened group.
  void add_flat(ShardedParameters& to, const std::vector<std::string>& names, PickleValue value) const {
    const TorchTensor& flat = flat_tensor(file, value, "a flattened group");
    const Partitions whole = {{&file, flat}};
    std::int64_t at = 0;
    for (const std::string& name : names) {
      const std::int64_t count = weight(name).count();
      if (count > flat.count() - at) refuse("has ", flat.count(), " elements in a group, too few");
      add(to, name, cut(whole, at, count));
      at += count;
    }
    if (at != flat.count()) refuse("has ", flat.count(), " elements in a group of ", at);
  }

  void add_plain(ShardedParameters& to, const std::string& name, PickleValue value) const {
    const TorchTensor* tensor = file.tensor(value);
    if (tensor == nullptr || tensor->dtype != StoredDType::f32 || !tensor->is_contiguous() ||
        tensor->shape != weight(name).shape)
      refuse("of '", printable_text(model.parameters.at(name).name),
             "' is not an fp32 tensor with the parameter's shape");
    add(to, name, {{&file, *tensor}});
  }
};

}  // namespace

void read_deepspeed_partitions(const DeepSpeedRank& rank, const std::vector<const TorchFile*>& shards) {
  PartitionReader{rank}.read(shards);
}

void read_deepspeed_adam(const DeepSpeedRank& rank, PickleValue optimizer, std::size_t& first_of_stage) {
  AdamReader{rank}.read(optimizer, first_of_stage);
}

}  // namespace mtl
