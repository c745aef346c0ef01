// Finds Megatron-LM's torch checkpoints by the names of files and folders. Opens no file except the tracker.
//
//   DIR/latest_checkpointed_iteration.txt                     the tracker: an iteration, or "release"
//   DIR/iter_0000030/mp_rank_TT[_PPP]/model_optim_rng.pt      TT tensor parallel rank, PPP pipeline stage
//   DIR/release/mp_rank_TT[_PPP]/model_optim_rng.pt
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/console.h"

namespace mtl {

inline constexpr std::string_view kRankFile = "model_optim_rng.pt", kReleaseFolder = "release";

/// True for names of the form mp_rank_TT or mp_rank_TT_PPP.
bool is_megatron_rank(const std::string& name);
/// True if the folder has an entry whose name begins with mp_rank_.
bool holds_megatron_ranks(const std::string& folder);

struct MegatronRankFiles {
  int tensor_parallel = 1, pipeline_parallel = 1;
  std::vector<std::string> paths;  // in order of stages and, within a stage, of tensor parallel ranks
};

/// Returns `path` itself if `path` is a file NAME.pt, the folder of one rank, or the folder of one iteration. If `path`
/// is a folder of several iterations, returns the folder of the iteration that the tracker names. If the tracker or
/// that folder is missing, warns and returns the folder of the newest iteration. Returns empty for everything else,
/// such as mtl's own checkpoints.
std::optional<std::string> find_megatron_checkpoint(const std::string& path, Console& console);

/// Returns the files of a checkpoint that find_megatron_checkpoint() returned. Throws Error(bad_data) unless the folder
/// has exactly one file for each tensor parallel rank of each stage.
MegatronRankFiles list_megatron_files(const std::string& checkpoint);

}  // namespace mtl
