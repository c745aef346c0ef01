#include "ckpt/deepspeed_optimizer.h"

#include <algorithm>
#include <cmath>

#include "base/count_of.h"
#include "base/printable.h"
#include "ckpt/deepspeed_universal.h"
#include "ckpt/torch_archive.h"

namespace mtl {

namespace {

template <class... Parts>
[[noreturn]] void refuse_shards(const TorchFile& file, const Parts&... parts) {
  fail_at(Exit::bad_data, file.path(), "the optimizer state ", parts...);
}

PickleValue required(const TorchFile& file, PickleValue dict, std::string_view key) {
  const std::optional<PickleValue> value = dict.find(key);
  if (!value) refuse_shards(file, "has no '", key, "'");
  return *value;
}

PickleValue at_index(const TorchFile& file, PickleValue list, std::size_t index, std::string_view what) {
  if (!list.is(PickleKind::list) || list.size() <= index) refuse_shards(file, "has no ", what, " of group ", index);
  return list.at(index);
}

/// Returns a dict's entry under an integer key.
PickleValue at_number(const TorchFile& file, PickleValue dict, std::int64_t number) {
  for (std::size_t i = 0; dict.is(PickleKind::dict) && i < dict.size(); ++i) {
    if (dict.key(i).is(PickleKind::integer) && dict.key(i).as_int() == number) return dict.value(i);
  }
  refuse_shards(file, "has no entry for parameter ", number);
}

/// Returns a flat fp32 tensor.
const TorchTensor& flat_tensor(const TorchFile& file, PickleValue value, std::string_view what) {
  const TorchTensor* tensor = file.tensor(value);
  if (tensor == nullptr || tensor->dtype != StoredDType::f32 || tensor->shape.size() != 1 || !tensor->is_contiguous())
    refuse_shards(file, "has ", value.describe(), " as ", what, ", instead of a flat fp32 tensor");
  return *tensor;
}

/// Reads a number of steps: an integer, a float or a tensor with one element. 0 if it is missing.
std::int64_t steps_in(const TorchFile& file, PickleValue dict) {
  const std::optional<PickleValue> step = dict.find("step");
  if (!step) return 0;
  if (step->is(PickleKind::integer)) return step->as_int();
  double value = 0;
  if (const TorchTensor* tensor = file.tensor(*step); tensor != nullptr && tensor->count() == 1) {
    if (tensor->dtype == StoredDType::i64) {
      std::int64_t integer = 0;
      read_elements(*tensor, 0, std::as_writable_bytes(std::span(&integer, 1)));
      return integer;
    }
    if (!is_model_dtype(tensor->dtype)) return 0;
    std::vector<std::byte> stored(bits_of(tensor->dtype) / 8);
    read_elements(*tensor, 0, stored);
    float single = 0;
    to_float(tensor->dtype, stored, std::span(&single, 1));
    value = single;
  } else if (step->is(PickleKind::real)) {
    value = step->as_number();
  }
  return value >= 0 && value < 9e15 ? static_cast<std::int64_t>(value) : 0;
}

std::int64_t count_of_shape(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (std::int64_t size : shape) count *= size;
  return count;
}

/// Partitions of a flattened group, in order.
using Partitions = std::vector<FlatSegment>;

/// Returns the segments with the elements [begin, begin + count) of a flattened group.
std::vector<FlatSegment> cut(const Partitions& partitions, std::int64_t begin, std::int64_t count) {
  std::vector<FlatSegment> out;
  std::int64_t at = 0;
  for (const FlatSegment& partition : partitions) {
    const std::int64_t first = std::max(begin, at), last = std::min(begin + count, at + partition.count);
    if (first < last) {
      FlatSegment segment = partition;
      segment.data = partition.data.subspan((first - at) * sizeof(float));
      segment.count = last - first;
      out.push_back(segment);
    }
    at += partition.count;
  }
  return out;
}

void add_state(ShardedParameters& to, const ShardedParameter& parameter, const std::string& name, int tensor_rank,
               FlatShard shard) {
  ShardedParameter& state = to[name];
  if (state.shards.empty()) state.split = parameter.split, state.name = parameter.name;
  if (std::ssize(state.shards) != tensor_rank) return;  // the token embedding's copy in a tied output layer
  state.shards.push_back(std::move(shard));
}

/// Adds the optimizer state of a model-parallel rank to `out`.
class RankPartitions {
 public:
  RankPartitions(const DeepSpeedModel& model, int rank, DeepSpeedOptimizer& out, std::int64_t& steps)
      : model_(model),
        file_(*model.files[rank]),
        tensor_rank_(rank % model.tensor_parallel),
        out_(out),
        steps_(steps) {}

  /// Reads ZeRO's partitions, from the files of the data-parallel ranks.
  void read_partitions(const std::vector<const TorchFile*>& shards) {
    std::vector<PickleValue> states;
    for (const TorchFile* shard : shards) {
      states.push_back(required(*shard, shard->root(), "optimizer_state_dict"));
      check_partition(*shard, states.back(), shards.size());
    }
    const std::vector<FlatGroup> groups = flat_groups(shards, states);
    for (std::size_t g = 0; g < groups.size(); ++g) {
      Partitions main, exp_avg, exp_avg_sq;
      std::int64_t padding = 0;
      for (std::size_t d = 0; d < shards.size(); ++d) {
        const TorchFile& file = *shards[d];
        const PickleValue weights = required(file, states[d], "single_partition_of_fp32_groups");
        const TorchTensor& partition = flat_tensor(file, at_index(file, weights, g, "partition"), "a partition");
        main.push_back({&file, partition.record, partition.data, partition.count()});
        const PickleValue base = base_state(file, required(file, states[d], "base_optimizer_state"), g);
        exp_avg.push_back(moment(file, base, "exp_avg", partition.count()));
        exp_avg_sq.push_back(moment(file, base, "exp_avg_sq", partition.count()));
        const PickleValue rank_padding = at_index(file, required(file, states[d], "group_paddings"), g, "padding");
        if (!rank_padding.is(PickleKind::integer) || rank_padding.as_int() < 0)
          refuse_shards(file, "has ", rank_padding.describe(), " as a padding");
        if (!states[d].find("zero_stage")) padding += rank_padding.as_int();
      }
      add_group(groups[g], main, exp_avg, exp_avg_sq, padding);
    }
  }

  /// Reads the state of torch's optimizer, which numbers the parameters group by group, or of a wrapper for 16-bit
  /// models around it, which also has the fp32 weights: by group flattened (FP16_Optimizer) or one by one
  /// (FP16_UnfusedOptimizer).
  ///
  /// In a pipeline, model_.order[first_of_stage] is the stage's first parameter; then sets it to the next stage's.
  void read_plain(PickleValue optimizer, std::size_t& first_of_stage) {
    const std::optional<PickleValue> flat = optimizer.find("fp32_groups_flat"), single = optimizer.find("fp32_groups");
    if (flat || single) optimizer = required(file_, optimizer, "optimizer_state_dict");
    if (!optimizer.is(PickleKind::dict) || !optimizer.find("state") || !optimizer.find("param_groups"))
      refuse_shards(file_, "is not that of torch's Adam, and does not name its parameters; use ZeRO 1");
    const PickleValue state = required(file_, optimizer, "state"), groups = required(file_, optimizer, "param_groups");
    const std::vector<std::string> order = stage_order(groups, flat.has_value(), first_of_stage);
    const std::vector<std::vector<std::string>> names = grouped_names(order, groups, flat ? flat : single);
    for (std::size_t g = 0; g < names.size(); ++g) {
      const PickleValue ids = required(file_, groups.at(g), "params");
      for (std::size_t i = 0; i < ids.size(); ++i) {
        if (!ids.at(i).is(PickleKind::integer))
          refuse_shards(file_, "numbers its parameters by ", ids.at(i).describe());
        const PickleValue entry = at_number(file_, state, ids.at(i).as_int());
        const auto add = [&](ShardedParameters& to, PickleValue value) {
          flat ? add_flat(to, names[g], value) : add_plain(to, names[g][i], value);
        };
        if (flat) add(out_.main, at_index(file_, *flat, g, "weights"));
        if (single) add(out_.main, at_index(file_, at_index(file_, *single, g, "weights"), i, "weight"));
        add(out_.exp_avg, required(file_, entry, "exp_avg"));
        add(out_.exp_avg_sq, required(file_, entry, "exp_avg_sq"));
        steps_ = std::max(steps_, steps_in(file_, entry));
      }
      steps_ = std::max(steps_, steps_in(file_, groups.at(g)));
    }
    if ((flat || single) && steps_ > 0) --steps_;  // both wrappers begin with a step without gradients
  }

 private:
  static void check_partition(const TorchFile& file, PickleValue state, std::size_t count) {
    const PickleValue stated = required(file, state, "partition_count");
    const PickleValue first = stated.is(PickleKind::list) && stated.size() > 0 ? stated.at(0) : stated;
    if (!first.is(PickleKind::integer) || first.as_int() != std::int64_t(count))
      refuse_shards(file, "has ", first.is(PickleKind::integer) ? cat(first.as_int()) : first.describe(),
                    " partitions, but there are files of ", count, "; copy all files of the checkpoint");
    const std::optional<PickleValue> alignment = state.find("param_alignment_paddings");
    for (std::size_t g = 0; alignment && g < alignment->size(); ++g) {
      const PickleValue group = at_index(file, *alignment, g, "padding");
      for (std::size_t i = 0; i < group.size(); ++i) {
        const PickleValue padding = at_index(file, group, i, "padding");
        if (!padding.is(PickleKind::integer) || padding.as_int() != 0)
          refuse_shards(file, "has padding between parameters (param_alignment_paddings), which mtl does not read");
      }
    }
  }

  /// Returns the base optimizer's state of a group.
  PickleValue base_state(const TorchFile& file, PickleValue base, std::size_t group) {
    if (base.is(PickleKind::list)) {  // elastic_checkpoint
      const PickleValue state = at_index(file, base, group, "state");
      steps_ = std::max(steps_, steps_in(file, state));
      return state;
    }
    const PickleValue options = at_index(file, required(file, base, "param_groups"), group, "options");
    const PickleValue ids = required(file, options, "params");
    if (!ids.is(PickleKind::list) || ids.size() != 1 || !ids.at(0).is(PickleKind::integer))
      refuse_shards(file, "has a group of other than one flat parameter");
    const PickleValue state = at_number(file, required(file, base, "state"), ids.at(0).as_int());
    steps_ = std::max({steps_, steps_in(file, options), steps_in(file, state)});
    return state;
  }

  static FlatSegment moment(const TorchFile& file, PickleValue state, const char* name, std::int64_t count) {
    const TorchTensor& tensor = flat_tensor(file, required(file, state, name), name);
    if (tensor.count() < count)
      refuse_shards(file, "has ", tensor.count(), " elements in ", name, " for a partition of ", count);
    return {&file, tensor.record, tensor.data, count};
  }

  /// A flattened group's parameters in order: names in the files, and numbers of elements.
  using FlatGroup = std::vector<std::pair<std::string, std::int64_t>>;

  /// Returns the parameters in each group, which param_shapes states or, without ZeRO, BF16_Optimizer's mappings.
  std::vector<FlatGroup> flat_groups(const std::vector<const TorchFile*>& shards,
                                     const std::vector<PickleValue>& states) const {
    std::vector<FlatGroup> out;
    const std::optional<PickleValue> shapes = file_.root().find("param_shapes");
    if (shapes && shapes->is(PickleKind::list)) {
      for (std::size_t g = 0; g < shapes->size(); ++g) {
        const PickleValue group = shapes->at(g);
        out.emplace_back();
        for (std::size_t i = 0; i < group.size(); ++i)
          out.back().emplace_back(group.key(i).as_text(), checked_count(shape_in(file_, group.value(i))));
      }
      return out;
    }
    if (!states[0].find("param_slice_mappings"))
      refuse_shards(file_, "has neither param_shapes nor param_slice_mappings, which state the order of the flattened ",
                    "parameters");
    for (std::size_t d = 0; d < shards.size(); ++d) {
      const PickleValue mappings = required(*shards[d], states[d], "param_slice_mappings");
      out.resize(std::max(out.size(), mappings.size()));
      for (std::size_t g = 0; g < out.size(); ++g)
        add_fragments(*shards[d], at_index(*shards[d], mappings, g, "mapping"), out[g]);
    }
    return out;
  }

  /// Adds the fragments of parameters in one partition: {name: fragment_address(numel, start)}.
  static void add_fragments(const TorchFile& file, PickleValue mapping, FlatGroup& group) {
    std::int64_t at = 0;
    for (std::size_t i = 0; i < mapping.size(); ++i) {
      const std::string name(mapping.key(i).as_text());
      const PickleValue count = required(file, mapping.value(i), "numel");
      const PickleValue start = required(file, mapping.value(i), "start");
      if (!start.is(PickleKind::integer) || start.as_int() != at || !count.is(PickleKind::integer) ||
          count.as_int() < 0 || __builtin_add_overflow(at, count.as_int(), &at))
        refuse_shards(file, "has a fragment of '", printable_text(name), "' that does not follow the one before it");
      if (group.empty() || group.back().first != name) group.emplace_back(name, 0);
      if (__builtin_add_overflow(group.back().second, count.as_int(), &group.back().second))
        refuse_shards(file, "has too many elements of '", printable_text(name), "'");
    }
  }

  void add_group(const FlatGroup& group, const Partitions& main, const Partitions& exp_avg,
                 const Partitions& exp_avg_sq, std::int64_t padding) {
    std::int64_t total = 0, at = 0;
    for (const FlatSegment& partition : main) total += partition.count;
    for (const auto& [stored, count] : group) {
      const std::optional<std::string> name = model_.canonical_name(stored);
      const auto found = name ? model_.parameters.find(*name) : model_.parameters.end();
      if (found == model_.parameters.end())
        refuse_shards(file_, "lists '", printable_text(stored), "', which is not a parameter of the model");
      const std::vector<std::int64_t>& shape = found->second.shards[tensor_rank_].shape;
      if (count != count_of_shape(shape))
        refuse_shards(file_, "lists '", printable_text(stored), "' with another shape than the model");
      if (count > total - at) refuse_shards(file_, "has ", total, " elements, fewer than its parameters");
      add_state(out_.main, found->second, *name, tensor_rank_, {shape, StoredDType::f32, cut(main, at, count)});
      add_state(out_.exp_avg, found->second, *name, tensor_rank_, {shape, StoredDType::f32, cut(exp_avg, at, count)});
      add_state(out_.exp_avg_sq, found->second, *name, tensor_rank_,
                {shape, StoredDType::f32, cut(exp_avg_sq, at, count)});
      at += count;
    }
    if (total - at != padding)
      refuse_shards(file_, "has ", total, " elements in its partitions, but ", at, " in its parameters and ", padding,
                    " of padding");
  }

  /// Returns the parameters of a pipeline stage in the order of torch's optimizer, or of the whole model: so many,
  /// from model_.order[first] on, as the stage's groups have. A last stage with a tied output layer begins with its
  /// copy of the embedding, because PipelineModule registers tied modules before others. Moves `first` beyond the
  /// stage.
  std::vector<std::string> stage_order(PickleValue groups, bool is_flat, std::size_t& first) const {
    if (model_.ranks == std::size_t(model_.tensor_parallel)) return model_.order;
    if (is_flat) refuse_shards(file_, "does not state which parameters a pipeline stage has; use ZeRO 1");
    std::size_t count = 0;
    for (std::size_t g = 0; g < groups.size(); ++g) count += required(file_, groups.at(g), "params").size();
    const std::size_t left = model_.order.size() - first;
    const bool has_copy = count > left && first > 0 && !model_.parameters.contains(kOutputLayer);
    std::vector<std::string> order;
    for (const char* name : {kTokenEmbedding, kPositionEmbedding}) {
      if (has_copy && model_.parameters.contains(name)) order.push_back(name);
    }
    count -= order.size();
    if (count > left)
      refuse_shards(file_, "has ", count, " parameters, but there are only ", left, " after those of earlier stages");
    const auto begin = model_.order.begin() + first;
    order.insert(order.end(), begin, begin + count);
    first += count;
    return order;
  }

  /// Returns the names of the parameters in each group: matrices and vectors, or all in one group. `weights` are a
  /// wrapper's lists of fp32 weights. If a group is flattened, it has a single entry, and its size tells which it is.
  std::vector<std::vector<std::string>> grouped_names(const std::vector<std::string>& order, PickleValue groups,
                                                      std::optional<PickleValue> weights) const {
    std::vector<std::string> matrices, vectors;
    for (const std::string& name : order) (shape_of(name).size() > 1 ? matrices : vectors).push_back(name);
    std::vector<std::vector<std::string>> names = {matrices, vectors};
    if (groups.size() == 1) names = {order};
    const auto fits = [&](std::size_t g, const std::vector<std::string>& members) {
      const TorchTensor* flat = weights ? file_.tensor(at_index(file_, *weights, g, "weights")) : nullptr;
      const std::size_t entries = required(file_, groups.at(g), "params").size();
      if (flat == nullptr) return entries == members.size();
      std::int64_t count = 0;
      for (const std::string& name : members) count += count_of_shape(shape_of(name));
      return entries == 1 && flat->count() == count;
    };
    if (groups.size() == 2 && fits(0, vectors) && !fits(0, matrices)) std::swap(names[0], names[1]);
    for (std::size_t g = 0; g < names.size(); ++g) {
      if (groups.size() != names.size() || !fits(g, names[g]))
        refuse_shards(file_,
                      "has groups of parameters that are neither matrices and vectors nor all in one, and does "
                      "not name them");
    }
    return names;
  }

  const std::vector<std::int64_t>& shape_of(const std::string& name) const {
    return model_.parameters.at(name).shards[tensor_rank_].shape;
  }

  /// Adds the parts of a flattened group.
  void add_flat(ShardedParameters& to, const std::vector<std::string>& names, PickleValue value) const {
    const TorchTensor& flat = flat_tensor(file_, value, "a flattened group");
    const Partitions whole = {{&file_, flat.record, flat.data, flat.count()}};
    std::int64_t at = 0;
    for (const std::string& name : names) {
      const std::int64_t count = count_of_shape(shape_of(name));
      if (count > flat.count() - at) refuse_shards(file_, "has ", flat.count(), " elements in a group, too few");
      add_state(to, model_.parameters.at(name), name, tensor_rank_,
                {shape_of(name), StoredDType::f32, cut(whole, at, count)});
      at += count;
    }
    if (at != flat.count()) refuse_shards(file_, "has ", flat.count(), " elements in a group of ", at);
  }

  void add_plain(ShardedParameters& to, const std::string& name, PickleValue value) const {
    const ShardedParameter& parameter = model_.parameters.at(name);
    const TorchTensor* tensor = file_.tensor(value);
    if (tensor == nullptr || tensor->dtype != StoredDType::f32 || !tensor->is_contiguous() ||
        tensor->shape != parameter.shards[tensor_rank_].shape)
      refuse_shards(file_, "of '", printable_text(parameter.name),
                    "' is not an fp32 tensor with the parameter's shape");
    add_state(to, parameter, name, tensor_rank_,
              {tensor->shape, StoredDType::f32, {{&file_, tensor->record, tensor->data, tensor->count()}}});
  }

  const DeepSpeedModel& model_;
  const TorchFile& file_;
  int tensor_rank_;
  DeepSpeedOptimizer& out_;
  std::int64_t& steps_;
};

std::int64_t count_or_zero(const std::optional<PickleValue>& value, const char* what) {
  const std::int64_t count = value && value->is(PickleKind::integer) ? value->as_int() : 0;
  constexpr std::int64_t kMost = std::int64_t{1} << 53;
  if (count < 0 || count > kMost)
    fail(Exit::bad_data, "the checkpoint's ", what, " is ", count, ", but must be from 0 to ", kMost);
  return count;
}

/// Reads the training state. Iterations whose gradients overflowed count as skipped.
TrainState train_state_of(const DeepSpeedModel& model, std::int64_t optimizer_steps) {
  TrainState state;
  std::optional<PickleValue> iteration = model.find("iteration");
  if (!iteration) iteration = model.find("global_steps");
  if (!iteration) fail(Exit::bad_data, "the checkpoint has no iteration to continue from");
  state.iteration = count_or_zero(iteration, "iteration");
  const std::optional<PickleValue> args = model.find("args");
  const std::optional<PickleValue> consumed = args ? args->find("consumed_train_samples") : std::nullopt;
  state.consumed_samples = count_or_zero(consumed ? consumed : model.find("global_samples"), "number of samples");
  state.consumed_valid_samples =
      count_or_zero(args ? args->find("consumed_valid_samples") : std::nullopt, "number of validation samples");
  state.optimizer_steps = optimizer_steps != 0
                              ? optimizer_steps
                              : state.iteration - count_or_zero(model.find("skipped_steps"), "number of skipped steps");
  if (state.optimizer_steps < 0 || state.optimizer_steps > state.iteration)
    fail(Exit::bad_data, "the optimizer has taken ", state.optimizer_steps, " steps in ", state.iteration,
         " iterations");
  state.skipped_iterations = state.iteration - state.optimizer_steps;
  return state;
}

/// Reads every model-parallel rank's optimizer state.
DeepSpeedOptimizer read_optimizer(DeepSpeedModel& model, const DeepSpeedFiles& files, std::int64_t& steps) {
  DeepSpeedOptimizer out;
  std::size_t first_of_stage = 0;  // index into model.order
  for (std::size_t rank = 0; rank < model.ranks; ++rank) {
    RankPartitions state(model, static_cast<int>(rank), out, steps);
    const auto found = files.shards.find(static_cast<int>(rank));
    if (found == files.shards.end()) {
      const TorchFile& file = *model.files[rank];
      const std::optional<PickleValue> optimizer = file.root().find("optimizer");
      if (!files.shards.empty() || !optimizer || optimizer->is(PickleKind::none))
        refuse_shards(file, "of model-parallel rank ", rank, " is missing; copy all files *_optim_states.pt");
      std::size_t next_stage = first_of_stage;
      state.read_plain(*optimizer, next_stage);
      if ((rank + 1) % model.tensor_parallel == 0) first_of_stage = next_stage;
      continue;
    }
    std::vector<const TorchFile*> shards;
    for (const auto& [number, path] : found->second) {
      if (number != std::ssize(shards))
        refuse_shards(*model.files[rank], "of data-parallel rank ", shards.size(), " is missing; copy all files ",
                      "*_optim_states.pt");
      model.files.push_back(std::make_unique<TorchFile>(path));
      shards.push_back(model.files.back().get());
    }
    state.read_partitions(shards);
  }
  for (ShardedParameters* states : {&out.main, &out.exp_avg, &out.exp_avg_sq}) {
    for (const auto& [name, parameter] : model.parameters) {
      const auto found = states->find(name);
      if (states == &out.main && out.main.empty()) break;
      if (found == states->end() || std::ssize(found->second.shards) != model.tensor_parallel)
        refuse_shards(*model.files.front(), "has no entry for '", printable_text(parameter.name), "'");
    }
  }
  return out;
}

}  // namespace

DeepSpeedTraining read_deepspeed_training(DeepSpeedModel& model, const DeepSpeedFiles& files) {
  DeepSpeedTraining out;
  const bool is_universal = !files.universal.empty();
  if (files.shards.empty() && !is_universal && !model.find("optimizer")) return out;
  std::int64_t steps = 0;
  try {
    if (is_universal)
      out.optimizer = {.main = {},
                       .exp_avg = read_universal_state(model, files, "exp_avg"),
                       .exp_avg_sq = read_universal_state(model, files, "exp_avg_sq")};
    else
      out.optimizer = read_optimizer(model, files, steps);
  } catch (const Error& error) {
    if (error.code() != Exit::bad_data) throw;
    out.problem = error.what();
    steps = 0;
  }
  try {
    out.state = train_state_of(model, steps);
  } catch (const Error& error) {
    if (out.problem.empty()) out.problem = error.what();
    out.optimizer.reset();
  }
  return out;
}

}  // namespace mtl
