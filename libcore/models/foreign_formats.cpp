#include "models/foreign_formats.h"

#include <algorithm>

#include "base/files.h"
#include "base/json.h"
#include "base/printable.h"
#include "formats/folder_entries.h"
#include "models/companion_files.h"
#include "models/dcp_llama.h"
#include "models/deepspeed_checkpoint.h"
#include "models/deepspeed_folder.h"
#include "models/hf_config.h"
#include "models/hf_folder.h"
#include "models/hf_weights.h"
#include "models/megatron_checkpoint.h"
#include "models/megatron_folder.h"
#include "models/torch_dist_reader.h"
#include "models/torch_dist_writer.h"

namespace mtl {

namespace {

bool is_pytorch_file(const std::string& name) {
  return ends_with(name, ".pt") || ends_with(name, ".pth") || ends_with(name, ".ckpt") ||
         (starts_with(name, "pytorch_model") && ends_with(name, ".bin"));
}

constexpr std::string_view kDistributedRemedy =
    ", which mtl reads only with .metadata (--ckpt-format torch_dist); copy all of its files, or convert a zarr "
    "checkpoint with Megatron-LM's --ckpt-convert-format torch_dist";
constexpr const char* kPyTorchRemedy =
    "; move it to a folder as pytorch_model.bin, next to the config.json of its model, and use that folder";
constexpr std::string_view kGptRemedy =
    "; copy its weights into a GPT2LMHeadModel of transformers, with the matrices of the attention and the MLP "
    "transposed, save that with save_pretrained(), and use its folder";
constexpr std::string_view kOriginalRemedy = "; use the Hugging Face folder of the model from which it was made";

/// Programs whose models mtl reads only in another form, and what converts them. The first one that fits counts.
constexpr FormatMark kOtherPrograms[] = {
    {"zero_to_fp32.py", "is a DeepSpeed checkpoint of a transformers model",
     "; merge its weights by \"python zero_to_fp32.py . .\" in the folder of that script, next to the config.json of "
     "the model, and use that folder",
     "config.json"},
    {"global_step*", "is a DeepSpeed checkpoint",
     "; merge its weights with DeepSpeed's zero_to_fp32.py, next to the config.json of the model, and use that folder",
     "config.json"},
    {"pytorch_model_fsdp_*", "is a sharded checkpoint of FSDP",
     "; merge its weights by \"accelerate merge-weights pytorch_model_fsdp_0 .\" in that folder, next to the "
     "config.json of the model, and use that folder"},
    {"pytorch_model_fsdp.bin", "is a checkpoint of FSDP",
     "; rename the file to pytorch_model.bin, next to the config.json of the model, and use that folder"},
    {"checkpoint_metadata.json", "is a checkpoint of nanotron",
     "; convert it with nanotron's examples/llama/convert_nanotron_to_hf.py", "model"},
    {"common.pt", "is a distributed Megatron-LM checkpoint", kDistributedRemedy},
    {"adapter_model.*", "is an adapter of PEFT",
     "; merge it into its model with merge_and_unload(), save that model, and use its folder"},
    {"adapter_config.json", "is an adapter of PEFT",
     "; merge it into its model with merge_and_unload(), save that model, and use its folder"},
    {".zmetadata", "is a distributed Megatron-LM checkpoint in zarr format", kDistributedRemedy},
    {".zarray", "is a distributed Megatron-LM checkpoint in zarr format", kDistributedRemedy},
    {"ckpt.pt", "is a checkpoint of nanoGPT", kGptRemedy},
    {"lit_model.pth*", "is a checkpoint of LitGPT",
     "; convert it with \"litgpt convert_from_litgpt\", and put the model.pth that it writes under the name "
     "pytorch_model.bin next to the config.json of the model"},
    {"consolidated*.pth", "has Meta's format of Llama",
     "; convert it with transformers' models/llama/convert_llama_weights_to_hf.py"},
    {"consolidated*.safetensors", "has Mistral's own format",
     "; convert it with transformers' models/mistral/convert_mistral_weights_to_hf.py"},
    {"*.bin", "is a checkpoint of llm.c", "; convert it with llm.c's dev/eval/export_hf.py", {}, "\xc6\xd7\x34\x01"},
    {"*.gguf", "has llama.cpp's format", kOriginalRemedy},
    {"*.nemo", "is an archive of NeMo",
     "; convert it with NeMo's scripts/checkpoint_converters/convert_*_nemo_to_hf.py"},
    {"model_weights.ckpt", "is an unpacked archive of NeMo",
     "; convert it with NeMo's scripts/checkpoint_converters/convert_*_nemo_to_hf.py"},
    {"hf_model_*.pt", "is a checkpoint of torchtune with transformers' names",
     "; join the files with torch.load() into one dict, save it as pytorch_model.bin next to the config.json of the "
     "model, and use that folder"},
    {"meta_model_*.pt", "is a checkpoint of torchtune with Meta's names",
     "; save it with torchtune's FullModelHFCheckpointer, or convert it with transformers' "
     "models/llama/convert_llama_weights_to_hf.py"},
    {"*-rank*.pt", "is a checkpoint of Composer (LLM Foundry)",
     "; convert it with LLM Foundry's scripts/inference/convert_composer_to_hf.py"},
    {"weights.*npz", "is a model of MLX",
     "; use the Hugging Face folder from which it was made, or fuse it with mlx_lm.fuse"},
    {"adapters.safetensors", "is an adapter of MLX", "; merge it into its model with mlx_lm.fuse --de-quantize"},
    {"_CHECKPOINT_METADATA", "is a checkpoint of Orbax (JAX, MaxText)",
     "; convert it with MaxText's checkpoint_conversion/to_huggingface.py"},
    {"_METADATA", "is a checkpoint of Orbax (JAX, MaxText)",
     "; convert it with MaxText's checkpoint_conversion/to_huggingface.py"},
    {"manifest.ocdbt", "is a checkpoint of Orbax (JAX, MaxText)",
     "; convert it with MaxText's checkpoint_conversion/to_huggingface.py"},
    {"flax_model*.msgpack", "has the weights of Flax",
     "; save them for PyTorch with transformers 4: from_pretrained(FOLDER, from_flax=True) and save_pretrained()"},
    {"tf_model*.h5", "has the weights of TensorFlow",
     "; save them for PyTorch with transformers 4: from_pretrained(FOLDER, from_tf=True) and save_pretrained()"},
    {"*.ckpt*.index", "is a checkpoint of TensorFlow",
     "; convert GPT-2's with transformers' models/gpt2/convert_gpt2_original_tf_checkpoint_to_pytorch.py"},
    {"*.onnx", "is an exported model for inference (ONNX)", kOriginalRemedy},
    {"*.pdparams", "is a model of PaddlePaddle", "; save it for PyTorch with PaddleNLP, as a Hugging Face folder"},
    {"metadata.json", "is a distributed Megatron-LM checkpoint", kDistributedRemedy, {}, "{\"sharded_backend\""},
};

bool holds_hf(const std::string& path) { return file_exists(path + "/config.json"); }

/// Returns the newest checkpoint in the output folder of transformers' Trainer. In a run's folder, such a folder is an
/// export.
std::optional<std::string> current_trainer_checkpoint(const std::string& path, Console&) {
  const auto is_iteration = [](const std::string& name) { return iteration_in_name(name).has_value(); };
  if (std::ranges::any_of(names_in_folder(path), is_iteration)) return std::nullopt;
  return newest_numbered(path, "checkpoint-", holds_hf);
}

bool is_known_model(const std::string& folder) {
  return passes([&] { return find_hf_family_of(Json::read(folder + "/config.json")) != nullptr; });
}

void write_hf(const ModelSource& source, const std::string& folder, const ModelWriteOptions& options) {
  write_hf_folder(source, folder,
                  {.dtype = options.dtype,
                   .max_shard_bytes = options.max_shard_bytes,
                   .end_of_text_id = find_end_of_text_id(source.folder()),
                   .on_conversion = options.on_conversion});
}

template <auto kWrite>
void write_as_megatron(const ModelSource& source, const std::string& folder, const ModelWriteOptions& options) {
  MegatronWriteOptions write = options.megatron;
  write.dtype = options.dtype;
  write.on_conversion = options.on_conversion;
  kWrite(source, folder, write);
}

constexpr std::string_view kNumbered[] = {"iter_*", kReleaseFolder}, kSteps[] = {"step-*"}, kTags[] = {"global_step*"};
constexpr std::string_view kMegatronParts[] = {"mp_rank_#/model_optim_rng.pt", "mp_rank_#_#/model_optim_rng.pt"};
constexpr std::string_view kDcpParts[] = {".metadata", "__#_#.distcp"};
constexpr std::string_view kDistParts[] = {".metadata", "__#_#.distcp", kDistMetadataName, kDistCommonName};
constexpr std::string_view kHfParts[] = {"config.json", "model.safetensors", "model.safetensors.index.json",
                                         "model-#-of-#.safetensors"};
constexpr FormatMark kHfMarks[] = {{"config.json"}};

constexpr ModelFormat kForeignFormats[] = {
    {.name = "megatron",
     .kind = "Megatron-LM checkpoint",
     .content = "a Megatron-LM checkpoint",
     .program = "Megatron-LM",
     .recognized = "mp_rank_*/model_optim_rng.pt",
     .versions = "every release that wrote --ckpt-format torch",
     .reads = "weights, Adam's moments, training state",
     .writes = "--to megatron",
     .proof = "models/megatron_test.cpp",
     .marks = kMegatronMarks,
     .parts = kMegatronParts,
     .iterations = kNumbered,
     .holds_file = is_megatron_file,
     .current = current_megatron_checkpoint,
     .open = open_megatron,
     .write = write_as_megatron<write_megatron>},
    {.name = "torch_dist",
     .kind = "distributed Megatron-LM checkpoint",
     .content = "a distributed checkpoint",
     .program = "Megatron-LM",
     .recognized = "metadata.json and .metadata",
     .versions = "megatron-core 0.10 to 0.19; Megatron-LM d98e8a64",
     .reads = "weights, Adam's moments, training state",
     .writes = "--to megatron --ckpt-format torch_dist",
     .lacks_config = true,
     .basis = "dcp",
     .proof = "models/dcp_golden_test.cpp",
     .marks = kTorchDistMarks,
     .parts = kDistParts,
     .iterations = kNumbered,
     .current = current_megatron_checkpoint,
     .open = open_torch_dist,
     .write = write_as_megatron<write_torch_dist>},
    {.name = "dcp",
     .kind = "PyTorch distributed checkpoint",
     .content = "a distributed checkpoint",
     .program = "torchtitan",
     .recognized = ".metadata",
     .versions = "torchtitan's checkpoints of Llama models",
     .reads = "weights, Adam's moments, step",
     .lacks_config = true,
     .proof = "models/dcp_golden_test.cpp",
     .marks = kDcpMarks,
     .parts = kDcpParts,
     .iterations = kSteps,
     .current = current_dcp_step,
     .open = open_dcp_llama},
    {.name = "neox",
     .kind = "GPT-NeoX checkpoint",
     .content = "a GPT-NeoX checkpoint",
     .program = "GPT-NeoX",
     .recognized = "layer_00-*-model_states.pt",
     .versions = "GPT-NeoX 1.0 and later, with ZeRO 0 to 2; universal",
     .reads = "weights, Adam's moments, training state",
     .basis = "deepspeed",
     .proof = "models/deepspeed_test.cpp",
     .marks = kNeoxMarks,
     .iterations = kTags,
     .current = current_deepspeed_checkpoint,
     .open = open_deepspeed},
    {.name = "deepspeed",
     .kind = "DeepSpeed checkpoint",
     .content = "a DeepSpeed checkpoint",
     .program = "Megatron-DeepSpeed",
     .recognized = "mp_rank_*_model_states.pt",
     .versions = "Megatron-DeepSpeed of BigScience and Microsoft, with ZeRO 0 to 2; universal",
     .reads = "weights, Adam's moments, training state",
     .proof = "models/deepspeed_test.cpp",
     .marks = kDeepSpeedMarks,
     .iterations = kTags,
     .current = current_deepspeed_checkpoint,
     .open = open_deepspeed},
    {.name = "hf",
     .kind = "Hugging Face folder",
     .content = "a Hugging Face model",
     .recognized = "config.json",
     .versions = "transformers 4 and 5",
     .reads = "weights",
     .writes = "--to hf",
     .proof = "cli/transformers_long.sh",
     .marks = kHfMarks,
     .parts = kHfParts,
     .is_model = is_known_model,
     .current = current_trainer_checkpoint,
     .open = [](const std::string& path, const ModelSupplement&, Console&) { return open_hf_folder(path); },
     .write = write_hf,
     .find_weights = find_hf_weights},
};

FoundMark find_program_mark(const std::string& folder, const std::vector<std::string>& names, ModelFormats formats) {
  for (const ModelFormat& format : formats) {
    const FoundMark found = find_mark(format.marks, folder, names);
    if (found && !found.mark->what.empty()) return found;
  }
  return find_mark(kOtherPrograms, folder, names);
}

}  // namespace

ModelFormats foreign_formats() { return kForeignFormats; }

ForeignModel find_foreign_program(const std::string& folder, const std::vector<std::string>& names,
                                  ModelFormats formats) {
  const FoundMark found = find_program_mark(folder, names, formats);
  if (!found) return {};
  return {cat(found.mark->what, " (", printable_text(found.name), ")"), std::string(found.mark->remedy)};
}

namespace {

/// Recognizes weights whose config.json is missing.
ForeignModel find_weights_alone(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const bool is_pytorch =
        starts_with(name, "pytorch_model") && (is_pytorch_file(name) || ends_with(name, ".bin.index.json"));
    const bool is_safetensors =
        starts_with(name, "model") && (ends_with(name, ".safetensors") || ends_with(name, ".safetensors.index.json"));
    if (is_pytorch || is_safetensors)
      return {
          cat("has ", is_pytorch ? "PyTorch weights" : "the weights of a model", " (", name, "), but no config.json"),
          "; add the config.json of the model"};
  }
  return {};
}

ForeignModel find_in_folder(const std::string& folder, ModelFormats formats) {
  const std::vector<std::string> names = names_in_folder(folder);
  const ForeignModel program = find_foreign_program(folder, names, formats);
  const bool has_config = std::ranges::find(names, "config.json") != names.end();
  return program.what.empty() && !has_config ? find_weights_alone(names) : program;
}

/// Recognizes a program by one of the folders in its output folder. A folder that cannot be read says nothing.
ForeignModel find_in_iteration(const std::string& path, const std::string& name, ModelFormats formats) {
  const std::string folder = cat(path, "/", name);
  ForeignModel one;
  if (!passes([&] { return one = find_in_folder(folder, formats), true; }) || one.what.empty()) return {};
  if (one.remedy == kReadRemedy) one.remedy = "; use " + folder;
  return {cat("contains checkpoints from another program: ", name, " ", one.what), one.remedy};
}

/// True for names that other programs give to the folder of one iteration: "checkpoint-20", "10".
bool ends_in_number(const std::string& name) { return !name.empty() && name.back() >= '0' && name.back() <= '9'; }

}  // namespace

bool is_iteration_name(const std::string& name, ModelFormats formats) {
  if (name == "weights") return true;  // NeMo's
  return std::ranges::any_of(formats, [&](const ModelFormat& format) {
    return std::ranges::any_of(format.iterations, [&](std::string_view pattern) { return matches(name, pattern); });
  });
}

ForeignModel find_foreign_model(const std::string& path, bool is_loaded, ModelFormats formats) {
  if (!is_directory(path)) {
    const std::string name = fs::path(path).filename().string();
    if (is_deepspeed_file(name))
      return {"is one rank's file of a DeepSpeed or GPT-NeoX checkpoint",
              "; use the folder that contains the files of all ranks"};
    if (is_optimizer_file(path))
      return {"contains the state of Megatron-LM's distributed optimizer",
              "; use the checkpoint's folder, which has the weights"};
    const ForeignModel program = find_foreign_program(parent_folder(path), {name}, formats);
    if (!program.what.empty() || !is_pytorch_file(name)) return program;
    return {"is a PyTorch file", kPyTorchRemedy};
  }
  if (ForeignModel found = find_in_folder(path, formats); !found.what.empty()) return found;
  const std::vector<std::string> names = names_in_folder(path);
  const bool has_any_tag = std::ranges::find(names, "latest") != names.end();  // DeepSpeed's tracker
  for (const std::string& name : names) {
    if (!is_iteration_name(name, formats) && !has_any_tag && !(is_loaded && ends_in_number(name))) continue;
    if (ForeignModel one = find_in_iteration(path, name, formats); !one.what.empty()) return one;
  }
  return {};
}

std::string describe_foreign_model(const std::string& path, bool is_loaded, ModelFormats formats) {
  const ForeignModel found = find_foreign_model(path, is_loaded, formats);
  return found.what + found.remedy;
}

}  // namespace mtl
