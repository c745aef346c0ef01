#include "models/foreign_model.h"

#include <algorithm>
#include <vector>

#include "base/files.h"
#include "base/open_file.h"
#include "base/printable.h"
#include "base/str.h"
#include "formats/folder_entries.h"

namespace mtl {

namespace {

bool is_pytorch_file(const std::string& name) {
  return ends_with(name, ".pt") || ends_with(name, ".pth") || ends_with(name, ".ckpt") ||
         (starts_with(name, "pytorch_model") && ends_with(name, ".bin"));
}

constexpr std::string_view kReadRemedy = "; use it only with --load";
constexpr std::string_view kDistributedRemedy =
    ", which mtl reads only with .metadata (--ckpt-format torch_dist); copy all of its files, or convert a zarr "
    "checkpoint with Megatron-LM's --ckpt-convert-format torch_dist";
constexpr const char* kPyTorchRemedy =
    "; move it to a folder as pytorch_model.bin, next to the config.json of its model, and use that folder";
constexpr std::string_view kGptRemedy =
    "; copy its weights into a GPT2LMHeadModel of transformers, with the matrices of the attention and the MLP "
    "transposed, save that with save_pretrained(), and use its folder";
constexpr std::string_view kOriginalRemedy = "; use the Hugging Face folder of the model from which it was made";

/// A program's files, by the name of one of them. An asterisk stands for any text.
struct ForeignRow {
  std::string_view name;
  std::string_view what;         // with a verb; the name follows in parentheses
  std::string_view remedy;       // begins with punctuation
  std::string_view beside = {};  // a name in the same folder; empty: any
  std::string_view magic = {};   // the file's first bytes; empty: any
};

/// Programs whose models mtl reads only in another form, and what converts them. The first row that fits counts.
constexpr ForeignRow kForeignRows[] = {
    {"model_optim_rng.pt", "is one rank's shard of a Megatron-LM checkpoint", kReadRemedy},
    {"zero_to_fp32.py", "is a DeepSpeed checkpoint of a transformers model",
     "; merge its weights by \"python zero_to_fp32.py . .\" in the folder of that script, next to the config.json of "
     "the model, and use that folder",
     "config.json"},
    {"*_model_states.pt", "is a DeepSpeed or GPT-NeoX checkpoint", kReadRemedy},
    {"*_optim_states.pt", "is a DeepSpeed or GPT-NeoX checkpoint", kReadRemedy},
    {"global_step*", "is a DeepSpeed checkpoint",
     "; merge its weights with DeepSpeed's zero_to_fp32.py, next to the config.json of the model, and use that folder",
     "config.json"},
    {"mp_rank_*", "is a Megatron-LM checkpoint", kReadRemedy},
    {"pytorch_model_fsdp_*", "is a sharded checkpoint of FSDP",
     "; merge its weights by \"accelerate merge-weights pytorch_model_fsdp_0 .\" in that folder, next to the "
     "config.json of the model, and use that folder"},
    {"pytorch_model_fsdp.bin", "is a checkpoint of FSDP",
     "; rename the file to pytorch_model.bin, next to the config.json of the model, and use that folder"},
    {".metadata", "is a distributed checkpoint of Megatron-LM or PyTorch", kReadRemedy},
    {"*.distcp", "is a distributed checkpoint of Megatron-LM or PyTorch",
     " without .metadata; copy all of its files (names that start with a dot are easily missed)"},
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

bool fits(std::string_view name, std::string_view pattern) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return name == pattern;
  if (!starts_with(name, pattern.substr(0, star))) return false;
  const std::string_view rest = pattern.substr(star + 1);
  for (std::size_t at = star; at <= name.size(); ++at) {
    if (fits(name.substr(at), rest)) return true;
  }
  return false;
}

bool begins_with(const std::string& path, std::string_view magic) {
  if (magic.empty()) return true;
  std::string head(magic.size(), '\0');
  std::error_code error;
  return fs::is_regular_file(path, error) && passes([&] {
           OpenFile(path).read(0, std::as_writable_bytes(std::span(head)));
           return head == magic;
         });
}

}  // namespace

ForeignModel find_foreign_program(const std::string& folder, const std::vector<std::string>& names) {
  for (const ForeignRow& row : kForeignRows) {
    for (const std::string& name : names) {
      if (fits(name, row.name) && (row.beside.empty() || file_exists(cat(folder, "/", row.beside))) &&
          begins_with(cat(folder, "/", name), row.magic))
        return {cat(row.what, " (", printable_text(name), ")"), std::string(row.remedy)};
    }
  }
  return {};
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

ForeignModel find_in_folder(const std::string& folder) {
  const std::vector<std::string> names = names_in_folder(folder);
  const ForeignModel program = find_foreign_program(folder, names);
  const bool has_config = std::ranges::find(names, "config.json") != names.end();
  return program.what.empty() && !has_config ? find_weights_alone(names) : program;
}

/// Recognizes a program by one of the folders in its output folder. A folder that cannot be read says nothing.
ForeignModel find_in_iteration(const std::string& path, const std::string& name) {
  const std::string folder = cat(path, "/", name);
  ForeignModel one;
  if (!passes([&] { return one = find_in_folder(folder), true; }) || one.what.empty()) return {};
  if (one.remedy == kReadRemedy) one.remedy = "; use " + folder;
  return {cat("contains checkpoints from another program: ", name, " ", one.what), one.remedy};
}

/// True for names that other programs give to the folder of one iteration: "checkpoint-20", "10".
bool ends_in_number(const std::string& name) { return !name.empty() && name.back() >= '0' && name.back() <= '9'; }

}  // namespace

bool is_deepspeed_file(std::string_view path) {
  return ends_with(path, "_model_states.pt") || ends_with(path, "_optim_states.pt");
}

bool is_iteration_name(const std::string& name) {
  return starts_with(name, "iter_") || name == "release" || starts_with(name, "global_step") ||
         starts_with(name, "step-") || name == "weights";
}

bool is_optimizer_file(std::string_view path) {
  return ends_with(path, "distrib_optim.pt") || ends_with(path, "/optim.pt");
}

ForeignModel find_foreign_model(const std::string& path, bool is_loaded) {
  if (!is_directory(path)) {
    const std::string name = fs::path(path).filename().string();
    if (is_deepspeed_file(name))
      return {"is one rank's file of a DeepSpeed or GPT-NeoX checkpoint",
              "; use the folder that contains the files of all ranks"};
    if (is_optimizer_file(path))
      return {"contains the state of Megatron-LM's distributed optimizer",
              "; use the checkpoint's folder, which has the weights"};
    const ForeignModel program = find_foreign_program(parent_folder(path), {name});
    if (!program.what.empty() || !is_pytorch_file(name)) return program;
    return {"is a PyTorch file", kPyTorchRemedy};
  }
  if (ForeignModel found = find_in_folder(path); !found.what.empty()) return found;
  const std::vector<std::string> names = names_in_folder(path);
  const bool has_any_tag = std::ranges::find(names, "latest") != names.end();  // DeepSpeed's tracker
  for (const std::string& name : names) {
    if (!is_iteration_name(name) && !has_any_tag && !(is_loaded && ends_in_number(name))) continue;
    if (ForeignModel one = find_in_iteration(path, name); !one.what.empty()) return one;
  }
  return {};
}

std::string describe_foreign_model(const std::string& path, bool is_loaded) {
  const ForeignModel found = find_foreign_model(path, is_loaded);
  return found.what + found.remedy;
}

}  // namespace mtl
