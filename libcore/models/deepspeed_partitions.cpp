#include "models/deepspeed_partitions.h"

#include <algorithm>

#include "base/printable.h"
#include "formats/torch_archive.h"

namespace mtl {

namespace {

class PartitionReader {
 public:
  explicit PartitionReader(const DeepSpeedRank& rank) : rank_(rank) {}

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
        const TorchFile& file = *shards[d];
        const PickleValue weights = required_entry(file, states[d], "single_partition_of_fp32_groups");
        const TorchTensor& partition = flat_tensor(file, group_entry(file, weights, g, "partition"), "a partition");
        main.push_back({&file, partition});
        const PickleValue base = base_state(file, required_entry(file, states[d], "base_optimizer_state"), g);
        exp_avg.push_back(moment(file, base, "exp_avg", partition.count()));
        exp_avg_sq.push_back(moment(file, base, "exp_avg_sq", partition.count()));
        const PickleValue rank_padding =
            group_entry(file, required_entry(file, states[d], "group_paddings"), g, "padding");
        if (!rank_padding.is(PickleKind::integer) || rank_padding.as_int() < 0)
          refuse_optimizer(file, "has ", rank_padding.describe(), " as a padding");
        if (!states[d].find("zero_stage")) padding += rank_padding.as_int();
      }
      add_group(groups[g], main, exp_avg, exp_avg_sq, padding);
    }
  }

 private:
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
      rank_.steps = std::max(rank_.steps, steps_in(file, state));
      return state;
    }
    const PickleValue options = group_entry(file, required_entry(file, base, "param_groups"), group, "options");
    const PickleValue ids = required_entry(file, options, "params");
    if (!ids.is(PickleKind::list) || ids.size() != 1 || !ids.at(0).is(PickleKind::integer))
      refuse_optimizer(file, "has a group of other than one flat parameter");
    const PickleValue state = numbered_entry(file, required_entry(file, base, "state"), ids.at(0).as_int());
    rank_.steps = std::max({rank_.steps, steps_in(file, options), steps_in(file, state)});
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
    std::vector<FlatGroup> out;
    const std::optional<PickleValue> shapes = rank_.file.root().find("param_shapes");
    if (shapes && shapes->is(PickleKind::list)) {
      for (std::size_t g = 0; g < shapes->size(); ++g) {
        const PickleValue group = shapes->at(g);
        out.emplace_back();
        for (std::size_t i = 0; i < group.size(); ++i)
          out.back().emplace_back(group.key(i).as_text(), checked_count(shape_in(rank_.file, group.value(i))));
      }
      return out;
    }
    if (!states[0].find("param_slice_mappings"))
      refuse_optimizer(rank_.file,
                       "has neither param_shapes nor param_slice_mappings, which state the order of the flattened ",
                       "parameters");
    for (std::size_t d = 0; d < shards.size(); ++d) {
      const PickleValue mappings = required_entry(*shards[d], states[d], "param_slice_mappings");
      out.resize(std::max(out.size(), mappings.size()));
      for (std::size_t g = 0; g < out.size(); ++g)
        add_fragments(*shards[d], group_entry(*shards[d], mappings, g, "mapping"), out[g]);
    }
    return out;
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
      const std::optional<std::string> name = rank_.model.canonical_name(stored);
      const auto found = name ? rank_.model.parameters.find(*name) : rank_.model.parameters.end();
      if (found == rank_.model.parameters.end())
        refuse_optimizer(rank_.file, "lists '", printable_text(stored), "', which is not a parameter of the model");
      if (count != rank_.shard(*name).count())
        refuse_optimizer(rank_.file, "lists '", printable_text(stored), "' with another shape than the model");
      if (count > total - at) refuse_optimizer(rank_.file, "has ", total, " elements, fewer than its parameters");
      rank_.add(rank_.out.main, *name, cut(main, at, count));
      rank_.add(rank_.out.exp_avg, *name, cut(exp_avg, at, count));
      rank_.add(rank_.out.exp_avg_sq, *name, cut(exp_avg_sq, at, count));
      at += count;
    }
    if (total - at != padding)
      refuse_optimizer(rank_.file, "has ", total, " elements in its partitions, but ", at, " in its parameters and ",
                       padding, " of padding");
  }

  const DeepSpeedRank& rank_;
};

}  // namespace

void read_deepspeed_partitions(const DeepSpeedRank& rank, const std::vector<const TorchFile*>& shards) {
  PartitionReader(rank).read(shards);
}

}  // namespace mtl
