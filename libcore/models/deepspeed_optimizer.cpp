#include "models/deepspeed_optimizer.h"

#include <algorithm>

#include "base/printable.h"
#include "models/deepspeed_state.h"

namespace mtl {

namespace {

std::int64_t count_or_zero(const std::optional<PickleValue>& value, const char* what) {
  return checked_progress(value && value->is(PickleKind::integer) ? value->as_int() : 0, what);
}

/// Reads the training state. Iterations whose gradients overflowed count as skipped.
TrainState train_state_of(const DeepSpeedModel& model, std::int64_t optimizer_steps) {
  TrainState state;
  std::optional<PickleValue> iteration = model.find("iteration");
  if (!iteration) iteration = model.find("global_steps");
  if (!iteration) fail(Exit::bad_data, "the checkpoint has no iteration to continue from");
  state.iteration = count_or_zero(iteration, "iteration");
  const std::optional<PickleValue> args = model.find("args");
  const std::optional<PickleValue> consumed = find_in(args, "consumed_train_samples");
  state.consumed_samples = count_or_zero(consumed ? consumed : model.find("global_samples"), "number of samples");
  state.consumed_valid_samples = count_or_zero(find_in(args, "consumed_valid_samples"), "number of validation samples");
  if (optimizer_steps == 0)
    optimizer_steps = state.iteration - count_or_zero(model.find("skipped_steps"), "number of skipped steps");
  set_optimizer_steps(state, optimizer_steps);
  return state;
}

/// Returns the lowest number of a pipeline's modules that a rank's file lists, or empty if it lists none.
std::optional<std::int64_t> first_module(const TorchFile& file) {
  std::optional<std::int64_t> first;
  const auto add = [&](PickleValue name) {
    if (!name.is(PickleKind::text)) return;
    const std::string text(name.as_text());
    const std::optional<std::int64_t> number = parse_int(text.substr(0, text.find('.')));
    if (number) first = std::min(*number, first.value_or(*number));
  };
  const std::optional<PickleValue> shapes = file.root().find("param_shapes"),
                                   buffers = file.root().find("buffer_names");
  for (std::size_t g = 0; shapes && shapes->is(PickleKind::list) && g < shapes->size(); ++g) {
    for (std::size_t i = 0; shapes->at(g).is(PickleKind::dict) && i < shapes->at(g).size(); ++i)
      add(shapes->at(g).key(i));
  }
  for (std::size_t i = 0; buffers && buffers->is(PickleKind::list) && i < buffers->size(); ++i) add(buffers->at(i));
  return first;
}

/// Throws if a stage's files list modules that do not follow those of the stage before it.
void check_stages(const DeepSpeedModel& model) {
  for (std::size_t rank = model.tensor_parallel; rank < model.ranks; ++rank) {
    const TorchFile &file = *model.files[rank], &before = *model.files[rank - model.tensor_parallel];
    const std::optional<std::int64_t> module = first_module(file), module_before = first_module(before);
    if (module && module_before && *module <= *module_before)
      refuse_optimizer(file, "begins with the pipeline's module ", *module, ", but with ", *module_before, " in ",
                       before.path(), ", which is of an earlier stage by its name; copy the checkpoint again");
  }
}

/// Reads every model-parallel rank's optimizer state.
ShardedStates read_optimizer(DeepSpeedModel& model, const DeepSpeedFiles& files, std::int64_t& steps) {
  ShardedStates out;
  check_stages(model);
  std::size_t first_of_stage = 0;  // index into model.order
  for (std::size_t rank = 0; rank < model.ranks; ++rank) {
    const DeepSpeedRank state{.model = model,
                              .file = *model.files[rank],
                              .tensor_rank = rank % model.tensor_parallel,
                              .out = out,
                              .steps = steps};
    const auto found = files.shards.find(static_cast<int>(rank));
    if (found == files.shards.end()) {
      const TorchFile& file = *model.files[rank];
      const std::optional<PickleValue> optimizer = file.root().find_not_none("optimizer");
      if (!files.shards.empty() || !optimizer)
        refuse_optimizer(file, "of model-parallel rank ", rank, " is missing; copy all files *_optim_states.pt");
      std::size_t next_stage = first_of_stage;
      read_deepspeed_adam(state, *optimizer, next_stage);
      if ((rank + 1) % model.tensor_parallel == 0) first_of_stage = next_stage;
      continue;
    }
    std::vector<const TorchFile*> shards;
    for (const auto& [number, path] : found->second) {
      if (number != std::ssize(shards))
        refuse_optimizer(*model.files[rank], "of data-parallel rank ", shards.size(), " is missing; copy all files ",
                         "*_optim_states.pt");
      model.files.push_back(std::make_unique<TorchFile>(path));
      shards.push_back(model.files.back().get());
    }
    read_deepspeed_partitions(state, shards);
  }
  for (ShardedParameters* states : {&out.main, &out.exp_avg, &out.exp_avg_sq}) {
    for (const auto& [name, parameter] : model.parameters) {
      const auto found = states->find(name);
      if (states == &out.main && out.main.empty()) break;
      if (found == states->end() || std::ssize(found->second.shards) != model.tensor_parallel)
        refuse_optimizer(*model.files.front(), "has no entry for '", printable_text(parameter.name), "'");
    }
  }
  if (files.shards.empty()) check_no_copy(model, out.exp_avg);
  return out;
}

}  // namespace

ShardedTraining read_deepspeed_training(DeepSpeedModel& model, const DeepSpeedFiles& files) {
  ShardedTraining out;
  const bool is_universal = !files.universal.empty();
  if (files.shards.empty() && !is_universal && !model.find("optimizer")) return out;
  std::int64_t steps = 0;
  out.problem = data_problem([&] {
    if (is_universal)
      out.optimizer = {.main = {},
                       .exp_avg = read_universal_state(model, files, "exp_avg"),
                       .exp_avg_sq = read_universal_state(model, files, "exp_avg_sq"),
                       .files = {}};
    else
      out.optimizer = read_optimizer(model, files, steps);
  });
  if (!out.problem.empty()) steps = 0;
  const std::string problem = data_problem([&] { out.state = train_state_of(model, steps); });
  if (out.problem.empty()) out.problem = problem;
  if (!problem.empty()) out.optimizer.reset();
  return out;
}

}  // namespace mtl
