// Finds checkpoints of DeepSpeed, as Megatron-DeepSpeed and GPT-NeoX save them, by file and folder names. Does not open
// any files except the tracker.
//
//   DIR/latest                                                         the tracker: the name of a checkpoint's folder
//   DIR/global_step1000/mp_rank_RR_model_states.pt                     weights, arguments, shapes of the optimizer's
//   DIR/global_step1000/layer_LL-model_TT-model_states.pt              weights, of a pipeline's module LL
//   DIR/global_step1000/[bf16_]zero_pp_rank_D_mp_rank_RR_optim_states.pt   data-parallel rank D's optimizer state
//   DIR/global_step1000/configs/*.yml                                  GPT-NeoX's configuration
//   DIR/global_step1000_universal/zero/NAME/*.pt                       a universal checkpoint, deepspeed_universal.cpp
//
// RR is the model-parallel rank: STAGE * (tensor parallel ranks) + TT with pipeline modules, otherwise TT.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/console.h"
#include "models/format_marks.h"

namespace mtl {

inline constexpr std::string_view kDeepSpeedWhat = "is a DeepSpeed or GPT-NeoX checkpoint";
inline constexpr FormatMark kDeepSpeedMarks[] = {{"*_model_states.pt", kDeepSpeedWhat, kReadRemedy},
                                                 {"*_optim_states.pt", kDeepSpeedWhat, kReadRemedy}};
/// Beside DeepSpeed's files, GPT-NeoX's: configs, or a pipeline whose embedding is module 0.
inline constexpr FormatMark kNeoxMarks[] = {
    {"*_model_states.pt", kDeepSpeedWhat, kReadRemedy, "layer_00-*model_states.pt"},
    {"*_optim_states.pt", kDeepSpeedWhat, kReadRemedy, "layer_00-*model_states.pt"},
    {"*_model_states.pt", kDeepSpeedWhat, kReadRemedy, "configs"},
    {"*_optim_states.pt", kDeepSpeedWhat, kReadRemedy, "configs"}};

struct DeepSpeedFiles {
  std::vector<std::string> ranks;                    // *_model_states.pt, by model-parallel rank
  std::map<int, std::vector<std::string>> layers;    // layer_*, by the module's number and tensor parallel rank
  std::map<int, std::map<int, std::string>> shards;  // *_optim_states.pt, by model- and data-parallel rank, if any
  std::map<std::string, std::string> universal;      // folders of a universal checkpoint's parameters, by name
  std::vector<std::string> configs;                  // configs/*.yml, *.yaml and *.json
  int tensor_parallel = 1;
};

/// True for the path or name of a file with DeepSpeed's naming: ..._model_states.pt, ..._optim_states.pt.
bool is_deepspeed_file(std::string_view path);

/// If `path` is a folder with multiple of these checkpoints, returns the one that its file `latest` names, or else
/// `latest_universal`. If the files are missing or name other folders, warns and returns the newest global_stepN.
/// Returns empty for other folders.
std::optional<std::string> current_deepspeed_checkpoint(const std::string& path, Console& console);

/// Returns the files of a checkpoint. Throws Error(bad_data) if files are missing, if it belongs to a mixture of
/// experts, or if ZeRO-3 partitioned its weights, with the tool that merges them into a universal checkpoint.
DeepSpeedFiles list_deepspeed_files(const std::string& checkpoint);

}  // namespace mtl
