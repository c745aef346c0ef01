#include "ckpt/foreign_model.h"

#include <algorithm>
#include <vector>

#include "base/files.h"
#include "base/str.h"
#include "ckpt/model_folder.h"

namespace mtl {

namespace {

constexpr const char* kReadRemedy = "; use it with --load, and choose another folder for --save";
constexpr const char* kDistributedRemedy =
    ", which mtl reads only with .metadata (--ckpt-format torch_dist); copy all of its files, or convert a zarr "
    "checkpoint with Megatron-LM's --ckpt-convert-format torch_dist";
constexpr const char* kPyTorchRemedy =
    "; move it to a folder as pytorch_model.bin, next to the config.json of its model, and use that folder";

bool is_pytorch_file(const std::string& name) {
  return ends_with(name, ".pt") || ends_with(name, ".pth") || ends_with(name, ".ckpt") ||
         (starts_with(name, "pytorch_model") && ends_with(name, ".bin"));
}

/// Recognizes one checkpoint, or one model's weights, by the file names in its folder.
ForeignModel find_by_names(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (name == "model_optim_rng.pt")
      return {cat("is one rank's shard of a Megatron-LM checkpoint (", name, ")"), kReadRemedy};
    if (is_deepspeed_file(name)) return {cat("is a DeepSpeed or GPT-NeoX checkpoint (", name, ")"), kReadRemedy};
    if (starts_with(name, "mp_rank_")) return {cat("is a Megatron-LM checkpoint (", name, ")"), kReadRemedy};
    if (name == ".metadata" || ends_with(name, ".distcp"))
      return {cat("is a distributed checkpoint of Megatron-LM or PyTorch (", name, ")"), kReadRemedy};
    if (name == "common.pt" || name == "metadata.json")
      return {cat("is a distributed Megatron-LM checkpoint (", name, ")"), kDistributedRemedy};
    if (starts_with(name, "adapter_model.") || name == "adapter_config.json")
      return {cat("is an adapter of PEFT (", name, ")"),
              "; merge it into its model with merge_and_unload(), save that model, and use its folder"};
    if (name == ".zmetadata" || name == ".zarray")
      return {cat("is a distributed Megatron-LM checkpoint (zarr: ", name, ")"), kDistributedRemedy};
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

ForeignModel find_foreign_model(const std::string& path) {
  if (!is_directory(path)) {
    const std::string name = fs::path(path).filename().string();
    if (is_deepspeed_file(name))
      return {"is one rank's file of a DeepSpeed or GPT-NeoX checkpoint",
              "; use the folder that contains the files of all ranks"};
    if (is_optimizer_file(path))
      return {"contains the state of Megatron-LM's distributed optimizer",
              "; use the checkpoint's folder, which has the weights"};
    return is_pytorch_file(name) ? ForeignModel{"is a PyTorch file", kPyTorchRemedy} : ForeignModel{};
  }
  const std::vector<std::string> names = names_in_folder(path);
  if (ForeignModel found = find_by_names(names); !found.what.empty()) return found;
  const bool has_any_tag = std::ranges::find(names, "latest") != names.end();  // DeepSpeed's tracker
  for (const std::string& name : names) {
    if (!is_iteration_name(name) && !has_any_tag) continue;
    const ForeignModel one = find_by_names(names_in_folder(cat(path, "/", name)));
    if (!one.what.empty()) return {cat("contains checkpoints from another program: ", name, " ", one.what), one.remedy};
  }
  return {};
}

std::string describe_foreign_model(const std::string& path) {
  const ForeignModel found = find_foreign_model(path);
  return found.what + found.remedy;
}

}  // namespace mtl
