#include "ckpt/model_formats.h"

#include <algorithm>
#include <iterator>

#include "base/files.h"
#include "base/printable.h"
#include "ckpt/checkpoint_folder.h"
#include "ckpt/manifest.h"
#include "ckpt/model_folder.h"
#include "formats/dcp_folder.h"
#include "models/dcp_llama.h"
#include "models/deepspeed_checkpoint.h"
#include "models/deepspeed_folder.h"
#include "models/foreign_model.h"
#include "models/hf_folder.h"
#include "models/hf_weights.h"
#include "models/megatron_checkpoint.h"
#include "models/megatron_folder.h"
#include "models/torch_dist_reader.h"

namespace mtl {

namespace {

bool holds_hf(const std::string& path) { return file_exists(path + "/config.json"); }

/// Returns the newest checkpoint in the output folder of transformers' Trainer. In a run's folder, such a folder is an
/// export.
std::optional<std::string> current_trainer_checkpoint(const std::string& path, Console&) {
  if (is_directory(path) && !list_iterations(path).empty()) return std::nullopt;
  return newest_numbered(path, "checkpoint-", holds_hf);
}

constexpr ModelFormat kModelFormats[] = {
    {.name = "mtl",
     .kind = "checkpoint",
     .recognized = "manifest.json",
     .versions = "0.1.0 and later",
     .reads = "weights, Adam's moments, training state",
     .writes = "--to mtl",
     .proof = "cli/ages_test.sh",
     .holds = [](const std::string& path) { return file_exists(cat(path, "/", kManifestName)); },
     .current = nullptr,
     .open = [](const std::string& path, const ModelSupplement&, Console&) { return open_checkpoint(path); }},
    {.name = "megatron",
     .kind = "Megatron-LM checkpoint",
     .recognized = "mp_rank_*/model_optim_rng.pt",
     .versions = "every release that wrote --ckpt-format torch",
     .reads = "weights, Adam's moments, training state",
     .writes = "--to megatron",
     .proof = "models/megatron_test.cpp",
     .holds = holds_megatron,
     .current = current_megatron_checkpoint,
     .open = open_megatron},
    {.name = "torch_dist",
     .kind = "distributed Megatron-LM checkpoint",
     .recognized = "metadata.json and .metadata",
     .versions = "megatron-core 0.10 to 0.19; Megatron-LM d98e8a64",
     .reads = "weights, Adam's moments, training state",
     .writes = "--to megatron --ckpt-format torch_dist",
     .lacks_config = true,
     .basis = "dcp",
     .proof = "models/dcp_golden_test.cpp",
     .holds = holds_torch_dist,
     .current = current_megatron_checkpoint,
     .open = open_torch_dist},
    {.name = "dcp",
     .kind = "PyTorch distributed checkpoint",
     .recognized = ".metadata",
     .versions = "torchtitan's checkpoints of Llama models",
     .reads = "weights, Adam's moments, step",
     .writes = "",
     .lacks_config = true,
     .proof = "models/dcp_golden_test.cpp",
     .holds = holds_dcp,
     .current = current_dcp_step,
     .open = open_dcp_llama},
    {.name = "neox",
     .kind = "GPT-NeoX checkpoint",
     .recognized = "layer_00-*-model_states.pt",
     .versions = "GPT-NeoX 1.0 and later, with ZeRO 0 to 2; universal",
     .reads = "weights, Adam's moments, training state",
     .writes = "",
     .basis = "deepspeed",
     .proof = "models/deepspeed_test.cpp",
     .holds = holds_neox,
     .current = current_deepspeed_checkpoint,
     .open = open_deepspeed},
    {.name = "deepspeed",
     .kind = "DeepSpeed checkpoint",
     .recognized = "mp_rank_*_model_states.pt",
     .versions = "Megatron-DeepSpeed of BigScience and Microsoft, with ZeRO 0 to 2; universal",
     .reads = "weights, Adam's moments, training state",
     .writes = "",
     .proof = "models/deepspeed_test.cpp",
     .holds = holds_deepspeed,
     .current = current_deepspeed_checkpoint,
     .open = open_deepspeed},
    {.name = "hf",
     .kind = "Hugging Face folder",
     .recognized = "config.json",
     .versions = "transformers 4 and 5",
     .reads = "weights",
     .writes = "--to hf",
     .proof = "cli/transformers_long.sh",
     .holds = holds_hf,
     .current = current_trainer_checkpoint,
     .open = [](const std::string& path, const ModelSupplement&, Console&) { return open_hf_folder(path); },
     .find_weights = find_hf_weights},
};

}  // namespace

std::span<const ModelFormat> model_formats() { return kModelFormats; }

const ModelFormat* find_model_format(const std::string& path) {
  const auto found = std::ranges::find_if(kModelFormats, [&](const ModelFormat& format) { return format.holds(path); });
  return found == std::end(kModelFormats) ? nullptr : found;
}

std::optional<std::string> find_model_in(const std::string& path, Console& console) {
  if (find_model_format(path) != nullptr) return path;
  if (is_directory(path)) refuse_two_programs(path);
  for (const ModelFormat& format : kModelFormats) {
    if (format.current == nullptr) continue;
    if (std::optional<std::string> found = format.current(path, console)) return found;
  }
  return std::nullopt;
}

void warn_of_other_model(const std::string& folder, const std::string& model, Console& console) {
  if (!is_directory(folder)) return;
  const ModelFormat& chosen = *find_model_format(model);
  if (chosen.find_weights != nullptr && chosen.find_weights(model).empty()) return;  // opening it says what is there
  const std::string marks = model == folder ? std::string(chosen.recognized) : fs::path(model).filename().string();
  const auto warn = [&](const ModelFormat& other, std::string_view other_marks) {
    console.warn(cat(folder, " contains more than one model: mtl reads the ", chosen.kind, " (", marks,
                     ") and ignores the ", other.kind, " (", other_marks,
                     "); move one of them to a folder of its own"));
  };
  for (const ModelFormat& other : kModelFormats) {
    if (&other == &chosen || other.name == chosen.basis) continue;
    const std::string found = other.find_weights != nullptr ? other.find_weights(folder)
                              : other.holds(folder)         ? std::string(other.recognized)
                                                            : "";
    if (!found.empty()) return warn(other, found);
  }
  for (const std::string& name : names_in_folder(folder)) {
    const ModelFormat* other = is_iteration_name(name) ? find_model_format(cat(folder, "/", name)) : nullptr;
    const bool is_same = other == nullptr || other == &chosen || (other->current && other->current == chosen.current);
    if (!is_same) return warn(*other, printable_text(name));
  }
}

}  // namespace mtl
