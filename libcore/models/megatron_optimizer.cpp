#include "models/megatron_optimizer.h"

#include <algorithm>

#include "base/count_of.h"
#include "base/files.h"
#include "formats/whole_number.h"
#include "models/megatron_distrib_optim.h"

namespace mtl {

namespace {

/// Returns a group's number of optimizer steps: an integer or, with PyTorch's own Adam, a real number. Empty if it is
/// missing or of another type, such as a tensor.
std::optional<std::int64_t> steps_in(PickleValue group) {
  const std::optional<PickleValue> step = group.find("step");
  return step ? whole_number(*step) : std::nullopt;
}

/// Adds the optimizer state in a rank's file to the model's optimizer state.
struct RankState : RankStates<MegatronModel> {
  const MegatronRank& rank;

  void read() {
    PickleValue optimizer = entry(file.root(), "optimizer");
    std::optional<PickleValue> main;
    if (const std::optional<PickleValue> inner = optimizer.find("optimizer")) {
      main = entry(optimizer, "fp32_from_fp16_params");
      optimizer = *inner;
    }
    const PickleValue states = entry(optimizer, "state"), groups = entry(optimizer, "param_groups");
    const std::vector<std::vector<std::string>> names = grouped_names(groups);
    for (std::size_t g = 0; g < names.size(); ++g) {
      const PickleValue ids = entry(groups.at(g), "params");
      for (std::size_t i = 0; i < names[g].size(); ++i) {
        const PickleValue state = entry(states, ids.at(i).as_int());
        add_tensor(out.exp_avg, names[g][i], entry(state, "exp_avg"));
        add_tensor(out.exp_avg_sq, names[g][i], entry(state, "exp_avg_sq"));
        if (main) add_tensor(out.main, names[g][i], main_of(*main, g, i, names[g].size()));
      }
      steps = steps_in(groups.at(g)).value_or(steps);
    }
  }

  /// Returns the parameter names in each group. Without weight decay, there is only one group.
  std::vector<std::vector<std::string>> grouped_names(PickleValue groups) const {
    std::vector<std::string> decayed, others;
    for (const std::string& name : rank.names()) (weight(name).shape.size() > 1 ? decayed : others).push_back(name);
    std::vector<std::vector<std::string>> names = {decayed, others};
    if (groups.size() == 1) names = {rank.names()};
    if (groups.size() != names.size())
      refuse("has ", groups.size(), " groups of parameters, but mtl reads only 1 or 2");
    const auto size_of_group = [&](std::size_t g) { return entry(groups.at(g), "params").size(); };
    if (names.size() == 2 && size_of_group(0) == others.size() && size_of_group(0) != decayed.size())
      std::swap(names[0], names[1]);
    for (std::size_t g = 0; g < names.size(); ++g) {
      if (size_of_group(g) != names[g].size())
        refuse("has ", count_of(size_of_group(g), "parameter"), " in group ", g, ", but the model has ",
               names[g].size());
    }
    return names;
  }

  PickleValue main_of(PickleValue main, std::size_t group, std::size_t index, std::size_t size) const {
    if (main.size() <= group || main.at(group).size() != size)
      refuse("has no weights of group ", group, " in fp32_from_fp16_params");
    return main.at(group).at(index);
  }

  void add_tensor(ShardedParameters& to, const std::string& name, PickleValue value) const {
    const TorchTensor* tensor = file.tensor(value);
    if (tensor == nullptr || tensor->shape != weight(name).shape || tensor->dtype != StoredDType::f32)
      refuse("of '", name, "' is not an fp32 tensor with the parameter's shape");
    add(to, name, {{&file, *tensor}});
  }
};

std::int64_t count_at(const std::optional<PickleValue>& value, const char* what) {
  return checked_progress(value ? value->as_int() : 0, what);
}

}  // namespace

TrainState megatron_train_state(PickleValue root, const std::optional<PickleValue>& args,
                                std::int64_t optimizer_steps) {
  TrainState state;
  if (!args || !root.find("iteration"))
    fail(Exit::bad_data, "the checkpoint has no args or no iteration to continue from");
  state.iteration = count_at(root.find("iteration"), "iteration");
  state.consumed_samples = count_at(args->find("consumed_train_samples"), "consumed_train_samples");
  state.consumed_valid_samples = count_at(args->find("consumed_valid_samples"), "consumed_valid_samples");
  set_optimizer_steps(state, optimizer_steps == 0 ? state.iteration : optimizer_steps);
  for (const char* name : {"opt_param_scheduler", "lr_scheduler"}) {
    const std::optional<PickleValue> scheduled = find_in(root.find(name), "num_steps");
    if (!scheduled || !scheduled->is(PickleKind::integer)) continue;
    state.extra.set("skipped_samples", std::max<std::int64_t>(0, state.consumed_samples - scheduled->as_int()));
  }
  return state;
}

namespace {

/// Reads every rank's states. Sets `steps` to the number of optimizer steps if a file states it.
ShardedStates read_states(const MegatronModel& model, std::int64_t& steps) {
  ShardedStates states;
  for (std::size_t rank = 0; rank < model.ranks.size(); ++rank)
    RankState{{model, *model.ranks[rank].file, rank % model.tensor_parallel, states, steps}, model.ranks[rank]}.read();
  return states;
}

/// Returns the number of optimizer steps in the first rank's groups of parameters, or 0 if it is missing.
std::int64_t distributed_steps(const MegatronModel& model) {
  const PickleValue groups = *model.root().find("optimizer")->find("optimizer")->find("param_groups");
  const bool has_groups = groups.is(PickleKind::list) && groups.size() > 0;
  return has_groups ? steps_in(groups.at(0)).value_or(0) : 0;
}

bool has_optimizer(const TorchFile& file) {
  const std::optional<PickleValue> optimizer = file.root().find("optimizer");
  return optimizer && optimizer->is(PickleKind::dict);
}

/// Returns the first rank's distrib_optim.pt, or "" if no rank has one.
std::string find_distributed_file(const MegatronModel& model) {
  for (const auto& file : model.files) {
    if (std::string path = distributed_file_of(*file); file_exists(path)) return path;
  }
  return "";
}

/// Returns a file with optimizer state, or "" if there is none.
std::string find_optimizer_file(const MegatronModel& model) {
  const auto found = std::ranges::find_if(model.files, [](const auto& file) { return has_optimizer(*file); });
  return found != model.files.end() ? (*found)->path() : find_distributed_file(model);
}

}  // namespace

ShardedTraining read_megatron_training(const MegatronModel& model) {
  ShardedTraining out;
  const TorchFile& first = *model.files.front();
  const std::string optimizer_file = find_optimizer_file(model);
  if (optimizer_file.empty()) return out;
  std::int64_t steps = 0;
  if (!has_optimizer(first)) {
    out.problem = cat(first.path(), " has no optimizer state, but ", optimizer_file,
                      " has, as if the checkpoint had been copied incompletely");
  } else if (!has_distributed_state(first)) {
    out.problem = data_problem([&] { out.optimizer = read_states(model, steps); });
    if (!out.problem.empty()) steps = 0;
  } else if (!find_distributed_file(model).empty()) {
    out.optimizer = read_distributed_optimizer(model);
    steps = distributed_steps(model);
  } else {
    out.problem = cat(distributed_file_of(first),
                      " is missing, where Megatron-LM's distributed optimizer (--use-distributed-optimizer) has Adam's "
                      "moments and the fp32 weights");
  }
  const std::string problem =
      data_problem([&] { out.state = megatron_train_state(model.root(), model.args(), steps); });
  if (out.problem.empty()) out.problem = problem;
  if (!out.problem.empty()) out.optimizer.reset();
  return out;
}

}  // namespace mtl
