#include "models/deepspeed_model.h"

#include <algorithm>
#include <set>

#include "base/count_of.h"
#include "base/find.h"
#include "formats/nested_tensors.h"
#include "formats/tensor_file.h"
#include "models/canonical.h"
#include "models/megatron_config.h"

namespace mtl {

namespace {

using enum MegatronSplit;

struct ModuleRow {
  std::string_view name, canonical;
  MegatronSplit split = none;
};

/// Modules of GPT-NeoX's blocks. In its other names, they are Megatron-LM's.
constexpr ModuleRow kNeoxBlock[] = {
    {"input_layernorm.scale", "norm1.weight"},
    {"post_attention_layernorm.scale", "norm2.weight"},
    {"attention.query_key_value.weight", "attention.qkv.weight", rows},
    {"attention.query_key_value.bias", "attention.qkv.bias", rows},
    {"attention.dense.weight", "attention.out.weight", columns},
    {"attention.dense.bias", "attention.out.bias"},
    {"mlp.linear1.weight", "mlp.up.weight", rows},
    {"mlp.linear1.bias", "mlp.up.bias", rows},
    {"mlp.linear2.weight", "mlp.down.weight", columns},
    {"mlp.linear2.bias", "mlp.down.bias"},
    {"mlp.w1.weight", "mlp.gate.weight", rows},
    {"mlp.w3.weight", "mlp.up.weight", rows},
    {"mlp.w2.weight", "mlp.down.weight", columns},
};

/// The other modules of a pipeline. A final norm of Megatron-DeepSpeed is a module of its own, without a name.
constexpr ModuleRow kPipelineModules[] = {
    {"word_embeddings.weight", "embedding.tokens.weight", rows},
    {"position_embeddings.weight", "embedding.positions.weight"},
    {"weight", "final_norm.weight"},
    {"bias", "final_norm.bias"},
    {"lm_head.weight", "output.weight", rows},
};
constexpr ModuleRow kNeoxModules[] = {
    {"norm.weight", "final_norm.weight"},
    {"norm.bias", "final_norm.bias"},
    {"norm.scale", "final_norm.weight"},
    {"final_linear.weight", "output.weight", rows},
};

/// Removes "N." from the front of the name. Empty if it does not start this way.
std::optional<std::int64_t> take_module_number(std::string_view& name) {
  const std::size_t dot = name.find('.');
  if (dot == 0 || dot > 5 || name.find_first_not_of("0123456789") != dot) return std::nullopt;
  const std::optional<std::int64_t> number = parse_int(std::string(name.substr(0, dot)));
  name.remove_prefix(dot + 1);
  return number;
}

DeepSpeedName named(const ModuleRow& row, bool is_neox) {
  return {.canonical = std::string(row.canonical), .is_neox = is_neox, .split = row.split};
}

std::optional<DeepSpeedName> in_block(std::string_view name) {
  if (const ModuleRow* row = find_or_null(kNeoxBlock, name, &ModuleRow::name)) return named(*row, true);
  const std::optional<MegatronName> megatron = parse_megatron_name(cat("layers.0.", name));
  if (!megatron) return std::nullopt;
  return DeepSpeedName{.canonical = megatron->canonical, .split = megatron->split};
}

}  // namespace

std::optional<DeepSpeedName> parse_deepspeed_name(std::string_view name) {
  take_prefix(name, "module.");
  std::optional<std::int64_t> number;
  if (take_prefix(name, "tied_modules.")) {
    name.remove_prefix(std::min(name.size(), name.find('.') + 1));
  } else {
    take_prefix(name, "sequential.");
    number = take_module_number(name);
    if (!number) {
      const std::optional<MegatronName> megatron = parse_megatron_name(name);
      if (!megatron) return std::nullopt;
      return DeepSpeedName{.canonical = megatron->canonical,
                           .is_in_block = megatron->layer.has_value(),
                           .block = megatron->layer,
                           .split = megatron->split};
    }
  }
  for (const bool is_neox : {false, true}) {
    const ModuleRow* row = is_neox ? find_or_null(kNeoxModules, name, &ModuleRow::name)
                                   : find_or_null(kPipelineModules, name, &ModuleRow::name);
    if (row != nullptr) return named(*row, is_neox);
  }
  std::optional<DeepSpeedName> out = number ? in_block(name) : std::nullopt;
  if (!out) return std::nullopt;
  out->is_in_block = out->is_module_number = true;
  out->block = number;
  return out;
}

namespace {

/// True for entries that are not parameters: frequencies of rotary positions, masks, _extra_state.
bool is_deepspeed_buffer(std::string_view name) {
  return is_megatron_buffer(name) || ends_with(name, "rotary_emb.inv_freq") || ends_with(name, "attention.bias") ||
         ends_with(name, "attention.masked_bias");
}

/// A parameter in a file, with its full name.
struct NamedTensor {
  std::string name;
  const TorchFile* file;
  const TorchTensor* tensor;
};

/// Appends the parameters in a dict to `out`.
void add_tensors(std::vector<NamedTensor>& out, const TorchFile& file, PickleValue dict, const std::string& prefix) {
  for (NestedTensor& found : nested_tensors(file, dict, prefix)) {
    if (!is_deepspeed_buffer(found.name)) out.push_back({std::move(found.name), &file, found.tensor});
  }
}

[[noreturn]] void refuse_name(const std::string& name, const std::string& path) {
  const char* why = "is not a GPT parameter that mtl supports; use a model without it";
  if (name.find("word_embeddings.norm.") != std::string::npos)
    why =
        "is the norm of the embeddings (--embed-layernorm, BLOOM), which mtl does not support; use a model without it";
  if (name.find("attention.rpe") != std::string::npos)
    why = "is a relative position bias, which mtl does not support; use a model without it";
  if (name.find("qk_layernorm") != std::string::npos)
    why = "is a norm of whole queries, which mtl does not support; use a model without it";
  if (starts_with(name, "model.") || starts_with(name, "transformer.h.") || starts_with(name, "gpt_neox."))
    why =
        "belongs to a transformers model; convert the checkpoint with the zero_to_fp32.py beside it, into the folder "
        "of the model's config.json, and use that folder";
  refuse_tensor(path, name, why);
}

DeepSpeedName parsed_name(const std::string& name, const std::string& path) {
  std::optional<DeepSpeedName> parsed = parse_deepspeed_name(name);
  if (!parsed) refuse_name(name, path);
  return std::move(*parsed);
}

DeepSpeedName parsed_name(const NamedTensor& entry) { return parsed_name(entry.name, entry.file->path()); }

/// Throws unless DeepSpeed could have written the tensor.
void check_stored(const NamedTensor& entry) {
  if (!entry.tensor->is_contiguous())
    refuse_tensor(entry.file->path(), entry.name,
                  "is not contiguous, which DeepSpeed does not write; call contiguous() on it before torch.save");
  if (!is_model_dtype(entry.tensor->dtype))
    refuse_tensor(entry.file->path(), entry.name, "is stored as ", name_of(entry.tensor->dtype),
                  ", but mtl reads only F16, BF16, F32 and F64; call float() on it before torch.save");
}

/// Adds the parameters that a tensor parallel rank stores.
void add_rank(DeepSpeedModel& model, int rank, const std::vector<NamedTensor>& entries) {
  for (const NamedTensor& entry : entries) {
    const DeepSpeedName parsed = parsed_name(entry);
    const std::optional<std::string> canonical = model.canonical_name(entry.name);
    if (!canonical)
      refuse_tensor(entry.file->path(), entry.name,
                    "is missing in the file of another rank; copy all files of the checkpoint again");
    model.is_neox = model.is_neox || parsed.is_neox;
    const std::string& name = *canonical;
    ShardedParameter* parameter = &model.parameters[name];
    if (name == kTokenEmbedding && std::ssize(parameter->shards) == rank + 1) {  // again, in a tied output layer
      if (!model.tied_copy) model.tied_copy.emplace();
      parameter = &*model.tied_copy;
    }
    if (name == kPositionEmbedding && std::ssize(parameter->shards) == rank + 1) continue;  // beside it
    add_shard(*parameter, rank, entry.name, parsed.split, *entry.file, *entry.tensor);
    if (rank == 0 && !model.tied_copy) model.order.push_back(name);
    check_stored(entry);
    if (parameter->shards.back().shape != parameter->shards.front().shape)
      refuse_tensor(entry.file->path(), entry.name,
                    "has another shape than on tensor parallel rank 0; use files of the same checkpoint");
  }
}

const TorchFile& open_file(DeepSpeedModel& model, const std::string& path) {
  model.files.push_back(std::make_unique<TorchFile>(path));
  return *model.files.back();
}

std::vector<NamedTensor> entries_of_rank(DeepSpeedModel& model, const DeepSpeedFiles& files, int rank) {
  std::vector<NamedTensor> out;
  for (const auto& [number, paths] : files.layers) {
    const TorchFile& file = open_file(model, paths[rank]);
    add_tensors(out, file, file.root(), cat(number));
  }
  if (!files.layers.empty()) return out;
  const TorchFile& file = *model.files[rank];
  const PickleValue module = *file.root().find("module");
  if (!module.is(PickleKind::dict))
    fail_at(Exit::bad_data, file.path(), "the entry 'module' is ", module.describe(),
            " instead of a dict; copy all files of the checkpoint");
  add_tensors(out, file, module, "");
  return out;
}

}  // namespace

void number_blocks(DeepSpeedModel& model, const std::vector<std::string>& names, const std::string& path) {
  std::set<std::int64_t> numbers;
  std::int64_t layers = 0;
  for (const std::string& name : names) {
    const DeepSpeedName parsed = parsed_name(name, path);
    if (!parsed.block) continue;
    if (parsed.is_module_number)
      numbers.insert(*parsed.block);
    else
      layers = std::max(layers, *parsed.block + 1);
  }
  for (std::int64_t number : numbers) {
    if (number != *numbers.begin() + std::ssize(model.blocks))
      fail_at(Exit::bad_data, path, "the weights of the pipeline's module ",
              *numbers.begin() + std::ssize(model.blocks), " are missing; copy all files of the checkpoint");
    model.blocks.emplace(number, std::ssize(model.blocks));
  }
  model.layers = layers + std::ssize(model.blocks);
}

std::vector<std::int64_t> shape_in(const TorchFile& file, PickleValue value) {
  try {
    return read_torch_sizes(value, "size");
  } catch (const Error&) {
    fail_at(Exit::bad_data, file.path(), "an entry of param_shapes is not a shape", kDamagedRemedy);
  }
}

std::optional<PickleValue> DeepSpeedModel::find(std::string_view key) const { return root().find_not_none(key); }

std::optional<std::string> DeepSpeedModel::canonical_name(std::string_view name) const {
  const std::optional<DeepSpeedName> parsed = parse_deepspeed_name(name);
  if (!parsed) return std::nullopt;
  if (!parsed->is_in_block) return parsed->canonical;
  std::int64_t layer = *parsed->block;
  if (parsed->is_module_number) {
    const std::int64_t* found = find_or_null(blocks, layer);
    if (found == nullptr) return std::nullopt;
    layer = *found;
  }
  return cat("layers.", layer, ".", parsed->canonical);
}

void check_no_copy(const DeepSpeedModel& model, const ShardedParameters& parameters) {
  RankMatrices matrices;
  for (const std::string& name : model.order) {
    const auto found = parameters.find(name);
    if (found == parameters.end()) continue;
    for (std::size_t rank = 0; rank < found->second.shards.size(); ++rank)
      add_matrix(matrices, name, found->second, rank);
  }
  matrices.check_no_copy(*model.files.front());
}

namespace {

/// Throws if there are no files of the last tensor parallel ranks that the arguments count.
void check_tensor_parallel(const DeepSpeedModel& model, const DeepSpeedFiles& files) {
  const std::int64_t stated = megatron_parallel_sizes(model.find("args")).first;
  if (stated <= model.tensor_parallel) return;
  fail_at(Exit::bad_data, parent_folder(model.files.front()->path()), "the checkpoint was written by ",
          count_of(stated, "tensor parallel rank"), ", but there are files of ", model.tensor_parallel,
          "; copy all files of the checkpoint, such as those with ", files.layers.empty() ? "mp_rank" : "model",
          format("_%02d in their names", model.tensor_parallel));
}

/// Throws if the files of layer_* lack blocks that the arguments count.
void check_blocks(const DeepSpeedModel& model, const DeepSpeedFiles& files) {
  const std::optional<PickleValue> stated = find_in(model.find("args"), "num_layers");
  if (model.blocks.empty() || !stated || !stated->is(PickleKind::integer) || stated->as_int() <= model.layers) return;
  // GPT-NeoX's blocks follow the embedding, which is module 0, and a module without weights. In other programs, the
  // first block's number is known from its file only.
  const bool is_neox = files.layers.begin()->first == 0;
  const std::int64_t begin = is_neox ? 2 : model.blocks.begin()->first;
  const std::int64_t end = is_neox ? begin + stated->as_int() : model.blocks.rbegin()->first;
  std::vector<std::string> missing;
  for (std::int64_t number = begin; number < end && missing.size() < 8; ++number) {
    if (!model.blocks.contains(number)) missing.push_back(format("layer_%02lld-*", static_cast<long long>(number)));
  }
  fail_at(Exit::bad_data, parent_folder(model.files.front()->path()), "args.num_layers is ", stated->as_int(),
          ", but there are files of ", count_of(model.layers, "layer"), "; copy all files of the checkpoint",
          missing.empty() ? "" : cat(", such as ", join(missing, ", ")));
}

}  // namespace

DeepSpeedModel read_deepspeed_model(const DeepSpeedFiles& files) {
  DeepSpeedModel model;
  model.tensor_parallel = files.tensor_parallel;
  model.ranks = files.ranks.size();
  for (const std::string& path : files.ranks) {
    // Of a pipeline, it is None, but a file of layers has none.
    if (!open_file(model, path).root().find("module"))
      fail_at(Exit::bad_data, path,
              "the file has no entry 'module', so it is not a DeepSpeed checkpoint; copy all files of the checkpoint");
  }
  check_same_checkpoint(model.files);
  if (files.universal.empty())
    check_tensor_parallel(model, files);
  else
    read_universal_weights(model, files);
  for (int rank = 0; files.universal.empty() && rank < model.tensor_parallel; ++rank) {
    const std::vector<NamedTensor> entries = entries_of_rank(model, files, rank);
    if (entries.empty())
      fail_at(Exit::bad_data, model.files.back()->path(), "the file has no tensors; copy all files of the checkpoint");
    if (rank == 0) {
      std::vector<std::string> names;
      for (const NamedTensor& entry : entries) {
        parsed_name(entry);
        names.push_back(entry.name);
      }
      number_blocks(model, names, entries.front().file->path());
    }
    add_rank(model, rank, entries);
  }
  model.check_ranks();
  // A block has several parameters. Reject an absurd number of layers before canonical_tensors() lists them all.
  if (model.layers > std::ssize(model.parameters))
    fail_at(Exit::bad_data, model.files.front()->path(), "the checkpoint has ",
            count_of(model.parameters.size(), "tensor"), ", too few for a model with ", count_of(model.layers, "layer"),
            "; copy all files of the checkpoint");
  if (!files.layers.empty()) check_blocks(model, files);
  check_no_copy(model, model.parameters);
  return model;
}

}  // namespace mtl
