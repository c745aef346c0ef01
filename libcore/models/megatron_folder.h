// Finds Megatron-LM's checkpoints by file and folder names. Does not open any files except the tracker.
//
//   DIR/latest_checkpointed_iteration.txt                     the tracker: an iteration, or "release"
//   DIR/iter_0000030/mp_rank_TT[_PPP]/model_optim_rng.pt      TT tensor parallel rank, PPP pipeline stage
//   DIR/iter_0000030/{metadata.json,.metadata,...}            in torch_dist format (torch_dist_reader.h)
//   DIR/release/mp_rank_TT[_PPP]/model_optim_rng.pt
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/console.h"
#include "models/format_marks.h"

namespace mtl {

inline constexpr std::string_view kRankFile = "model_optim_rng.pt", kReleaseFolder = "release";
inline constexpr FormatMark kMegatronMarks[] = {
    {kRankFile, "is one rank's shard of a Megatron-LM checkpoint", kReadRemedy},
    {.name = "mp_rank_*", .what = "is a Megatron-LM checkpoint", .remedy = kReadRemedy, .not_ending = ".pt"}};

/// True if the folder has an entry whose name starts with mp_rank_.
bool holds_megatron_ranks(const std::string& folder);

/// True if the folder of one iteration is a checkpoint in torch or torch_dist format (torch_dist_reader.h).
bool holds_megatron_iteration(const std::string& folder);

struct MegatronRankFiles {
  int tensor_parallel = 1, pipeline_parallel = 1;
  std::vector<std::string> paths;  // by stage and, within a stage, by tensor parallel rank
};

/// True for a file NAME.pt that may be one rank's.
bool is_megatron_file(const std::string& path);
/// True for the path or name of a file in which Megatron-LM's distributed optimizer saves its state.
bool is_optimizer_file(std::string_view path);

/// If `path` is a folder with multiple iterations, returns the iteration's folder that the tracker names. If the
/// tracker or that folder is missing, warns and returns the newest iteration's folder. Returns empty for everything
/// else, such as mtl's own checkpoints.
std::optional<std::string> current_megatron_checkpoint(const std::string& path, Console& console);

/// Returns the files of a checkpoint of the format megatron. Throws Error(bad_data) unless the folder
/// has exactly one file for each stage and tensor parallel rank.
MegatronRankFiles list_megatron_files(const std::string& checkpoint);

}  // namespace mtl
