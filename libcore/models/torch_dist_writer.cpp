#include "models/torch_dist_writer.h"

#include "base/files.h"
#include "formats/dcp_writer.h"
#include "formats/folder_entries.h"
#include "formats/torch_writer.h"
#include "layout/stages.h"
#include "models/companion_files.h"
#include "models/megatron_args.h"
#include "models/megatron_folder.h"
#include "models/megatron_names.h"
#include "models/megatron_tensor.h"
#include "nn/model_params.h"
#include "optim/schedule_record.h"

namespace mtl {

namespace {

constexpr const char* kFormatJson =
    R"({"sharded_backend": "torch_dist", "sharded_backend_version": 1, "common_backend": "torch", )"
    R"("common_backend_version": 1})";
constexpr const char* kShardingType = "fully_reshardable";

/// A parameter of all layers, or one outside of layers.
struct StackedParam {
  std::string key;
  bool is_stacked = false;
  std::vector<MegatronTensor> parts;  // by layer; otherwise one
};

/// Returns the model's parameters by megatron-core's names. The names are the same for the local implementation and for
/// Transformer Engine: those of the latter.
std::vector<StackedParam> stacked_params(const GptConfig& config, const MegatronWriteOptions& options) {
  std::vector<StackedParam> out;
  std::map<std::string, std::size_t> index;
  for (ParamSpec& spec : model_params(config)) {
    if (spec.padded_rows > 0)
      spec.padded_rows =
          padded_vocab_size(config.vocab_size, options.make_vocab_size_divisible_by, options.tensor_parallel);
    std::string key = megatron_core_name(spec.name, true);
    const std::string layers = "decoder.layers.";
    const bool is_stacked = key.starts_with(layers);
    if (is_stacked) key.erase(layers.size(), key.find('.', layers.size()) + 1 - layers.size());
    const auto [found, is_new] = index.emplace(key, out.size());
    if (is_new) out.push_back({.key = key, .is_stacked = is_stacked, .parts = {}});
    out[found->second].parts.push_back(cut_for_rank(spec, spec.name, 0, 1));
  }
  return out;
}

/// Writes one kind of tensor for all parameters.
class StackWriter {
 public:
  StackWriter(const ModelSource& source, DcpWriter& writer) : source_(source), writer_(writer) {}

  /// Writes the source's tensors of kind `kind` ("param", "exp_avg") for a parameter as `key`. Returns its number.
  std::size_t write(const StackedParam& param, const std::string& kind, std::string key, StoredDType dtype,
                    const ConversionHook& on_conversion) {
    const std::vector<std::int64_t>& shape = param.parts.front().shape;
    std::vector<std::int64_t> whole = shape, offset(shape.size()), size = shape;
    if (param.is_stacked) {
      whole.insert(whole.begin(), std::ssize(param.parts));
      offset.insert(offset.begin(), 0);
      size.insert(size.begin(), 1);
    }
    const std::size_t number = writer_.add_tensor(std::move(key), dtype, whole);
    TensorBlocks blocks(source_, on_conversion);
    for (std::size_t layer = 0; layer < param.parts.size(); ++layer) {
      MegatronTensor part = param.parts[layer];
      part.source = cat(kind, part.source.substr(part.source.find('.')));
      if (param.is_stacked) offset[0] = static_cast<std::int64_t>(layer);
      read_megatron_elements(blocks, part, dtype, elements_);
      writer_.write_box(number, offset, size, elements_);
    }
    return number;
  }

 private:
  const ModelSource& source_;
  DcpWriter& writer_;
  std::vector<std::byte> elements_;  // of a layer
};

/// Writes empty extra states of the linear layers, and of Transformer Engine's attention. megatron-core requires them.
void write_extra_states(DcpWriter& writer, std::int64_t layers) {
  for (const char* module : {"self_attention.linear_qkv", "self_attention.linear_proj", "self_attention.core_attention",
                             "mlp.linear_fc1", "mlp.linear_fc2"}) {
    for (std::int64_t layer = 0; layer < layers; ++layer)
      writer.add_empty_object(cat("decoder.layers.", module, "._extra_state/shard_", layer, "_", layers));
  }
}

/// Writes all tensors. Without an optimizer state, only the weights.
void write_tensors(const ModelSource& source, const std::string& folder, const MegatronWriteOptions& options) {
  DcpWriter writer(folder);
  StackWriter stacks(source, writer);
  for (const StackedParam& param : stacked_params(source.config(), options)) {
    const StoredDType stored = source.find_tensor(param.parts.front().source)->dtype;
    const StoredDType dtype = options.dtype.value_or(stored);
    const std::size_t weight = stacks.write(param, "param", param.key, dtype, options.on_conversion);
    if (!source.has_optimizer()) continue;
    const std::string prefix = "optimizer.state.";
    if (dtype == StoredDType::f32) {
      writer.add_alias(cat(prefix, "param.", param.key), weight);
    } else {
      stacks.write(param, "param", cat(prefix, "param.", param.key), StoredDType::f32, {});
    }
    for (const char* kind : {"exp_avg", "exp_avg_sq"})
      stacks.write(param, kind, cat(prefix, kind, ".", param.key), StoredDType::f32, {});
  }
  write_extra_states(writer, source.config().num_layers);
  writer.finish();
}

/// Returns the settings that mtl-train stored in a checkpoint under settings.NAME, or null.
const Json* recorded(const TrainState& state, const char* name) {
  const Json* settings = state.extra.is_object() ? state.extra.find("settings") : nullptr;
  return settings == nullptr ? nullptr : settings->find(name);
}

double setting_or(const Json* settings, const char* flag, double otherwise) {
  const Json* value = settings == nullptr ? nullptr : settings->find(flag);
  return value == nullptr ? otherwise : value->as_number();
}

/// Number of samples that the schedule has counted.
std::int64_t scheduled_samples(const TrainState& state) {
  return state.consumed_samples - (state.extra.is_object() ? state.extra.int_or("skipped_samples", 0) : 0);
}

/// Appends the two groups of parameters: with weight decay, and without. Megatron-LM sets the learning rate and the
/// weight decay in every step, from its flags; they are 0 here if the source does not state its schedule.
void write_groups(PickleWriter& pickle, const TrainState& state) {
  double rate = 0, decay = 0;
  if (const Json* record = recorded(state, "schedule")) {
    const LrScheduleOptions schedule = schedule_from_record(*record);
    rate = learning_rate(schedule, scheduled_samples(state));
    decay = weight_decay(schedule, scheduled_samples(state));
  }
  const Json* settings = recorded(state, "other");
  const auto betas = [&] {
    pickle.tuple(setting_or(settings, "--adam-beta1", 0.9), setting_or(settings, "--adam-beta2", 0.999));
  };
  pickle.begin_list();
  for (const double is_decayed : {1.0, 0.0}) {
    pickle.begin_dict();
    pickle.values("wd_mult", is_decayed, "lr_mult", 1.0);
    for (const char* name : {"is_expert_parallel", "is_decoupled_lr"}) pickle.values(name, false);
    for (const char* name : {"default_config", "bias_correction", "decoupled_weight_decay"}) pickle.values(name, true);
    pickle.values("lr", rate, "weight_decay", decay * is_decayed, "betas", betas);
    pickle.values("eps", setting_or(settings, "--adam-eps", 1e-8), "step", state.optimizer_steps);
    pickle.end_dict();
  }
  pickle.end_list();
}

/// Appends the distributed optimizer's state without its tensors.
void write_optimizer(PickleWriter& pickle, const TrainState& state) {
  const auto inner = [&] { pickle.dict("param_groups", [&] { write_groups(pickle, state); }); };
  pickle.dict("optimizer", inner, "param_state_sharding_type", kShardingType);
}

/// Appends the schedule's position. Its settings are None: Megatron-LM takes them from its flags, with
/// --override-opt_param-scheduler, and refuses to compare them without it.
void write_schedule(PickleWriter& pickle, const TrainState& state) {
  pickle.begin_dict();
  for (const char* name : {"max_lr", "min_lr", "lr_warmup_steps", "lr_decay_steps", "lr_decay_style"})
    pickle.values(name, nullptr);
  pickle.values("num_steps", scheduled_samples(state));
  pickle.end_dict();
}

void write_common(const ModelSource& source, const std::string& path, const MegatronWriteOptions& options,
                  const MegatronProgress& progress) {
  const StoredDType stored = source.find_tensor("param.embedding.tokens.weight")->dtype;
  AtomicFile file(path);
  TorchWriter writer(file.out(), "common");
  PickleWriter& pickle = writer.pickle();
  pickle.begin_dict();
  pickle.text("args");
  write_megatron_args(writer, source, options, options.dtype.value_or(stored), progress);
  pickle.values("checkpoint_version", 3.0, "iteration", progress.iteration);
  if (progress.has_optimizer) {
    pickle.values("optimizer", [&] { write_optimizer(pickle, *source.state()); });
    pickle.values("opt_param_scheduler", [&] { write_schedule(pickle, *source.state()); });
  }
  pickle.text("content_metadata");
  pickle.begin_dict();
  if (progress.has_optimizer) pickle.values("distrib_optim_sharding_type", kShardingType);
  pickle.values("chained_optim_avoid_prefix", true, "singleton_local_shards", false);
  pickle.end_dict();
  pickle.end_dict();
  writer.finish();
  file.commit();
}

}  // namespace

bool states_adam_settings(const ModelSource& source) {
  const std::optional<TrainState> state = source.state();
  return state && recorded(*state, "other") != nullptr;
}

void write_torch_dist(const ModelSource& source, const std::string& folder, MegatronWriteOptions options) {
  options.pipeline_parallel = 1;
  options.virtual_stages = options.layers_per_virtual_stage = std::nullopt;
  const std::vector<std::string> problems = megatron_problems(source.config(), options);
  if (!problems.empty()) fail(Exit::usage, "--to megatron: ", join(problems, "; "));
  MegatronProgress progress{.ckpt_format = "torch_dist"};
  if (source.has_optimizer()) {
    if (const std::string other = source.other_rules(single_rule<AdamW>()); !other.empty())
      fail(Exit::usage, other,
           "; torch_dist checkpoints are written for adam only: use --ckpt-format torch, which has "
           "weights only");
    const TrainState state = source.state().value();
    progress.has_optimizer = true;
    progress.iteration = state.iteration;
    progress.consumed_samples = state.consumed_samples;
    progress.consumed_valid_samples = state.consumed_valid_samples;
  }
  const std::string name = progress.has_optimizer ? folder_of(progress.iteration) : std::string(kReleaseFolder);
  const std::string checkpoint = cat(folder, "/", name);
  make_directories(checkpoint);
  write_tensors(source, checkpoint, options);
  write_common(source, checkpoint + "/common.pt", options, progress);
  write_file_atomic(checkpoint + "/metadata.json", kFormatJson);
  copy_companion_files(source.folder(), checkpoint);
  write_file_atomic(cat(folder, "/", kTrackerName),
                    progress.has_optimizer ? std::to_string(progress.iteration) : std::string(kReleaseFolder));
}

}  // namespace mtl
