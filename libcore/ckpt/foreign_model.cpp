#include "ckpt/foreign_model.h"

#include <vector>

#include "base/files.h"
#include "base/str.h"
#include "ckpt/model_folder.h"

namespace mtl {

namespace {

constexpr const char* kMegatronRemedy = "; use it with --load, and choose another folder for --save";
constexpr const char* kDistributedRemedy =
    "; mtl does not read it: convert it with Megatron-LM's --ckpt-convert-format torch, or export it to a "
    "Hugging Face folder (Megatron Bridge), and load that";
constexpr const char* kPyTorchRemedy =
    "; move it to a folder as pytorch_model.bin, next to the config.json of its model, and use that folder";

bool is_pytorch_file(const std::string& name) {
  return ends_with(name, ".pt") || ends_with(name, ".pth") || ends_with(name, ".ckpt") ||
         (starts_with(name, "pytorch_model") && ends_with(name, ".bin"));
}

/// Describes one checkpoint, or one model's weights, based on the file names in its folder. Returns "" if it does not
/// recognize them.
std::string describe_names(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (name == "model_optim_rng.pt")
      return cat("is one rank's shard of a Megatron-LM checkpoint (", name, ")", kMegatronRemedy);
    if (starts_with(name, "mp_rank_")) return cat("is a Megatron-LM checkpoint (", name, ")", kMegatronRemedy);
    if (name == ".metadata" || ends_with(name, ".distcp"))
      return cat("is a distributed Megatron-LM or PyTorch checkpoint (torch_dist: ", name, ")", kDistributedRemedy);
    if (name == ".zmetadata" || name == ".zarray")
      return cat("is a distributed Megatron-LM checkpoint (zarr: ", name, ")", kDistributedRemedy);
    if (starts_with(name, "pytorch_model") && (is_pytorch_file(name) || ends_with(name, ".bin.index.json")))
      return cat("has PyTorch weights (", name, "), but no config.json; add the config.json of the model");
  }
  return "";
}

}  // namespace

std::string describe_foreign_model(const std::string& path) {
  if (!is_directory(path)) {
    const std::string name = fs::path(path).filename().string();
    return is_pytorch_file(name) ? cat("is a PyTorch file", kPyTorchRemedy) : "";
  }
  const std::vector<std::string> names = names_in_folder(path);
  std::string description = describe_names(names);
  if (!description.empty()) return description;
  for (const std::string& name : names) {
    if (!starts_with(name, "iter_") && name != "release") continue;
    const std::string one = describe_names(names_in_folder(cat(path, "/", name)));
    if (!one.empty()) return cat("contains checkpoints from another program: ", name, " ", one);
  }
  return "";
}

}  // namespace mtl
