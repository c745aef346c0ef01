// Finds Megatron-LM's torch checkpoints by the names in a folder; reads only the tracker.
//
//   DIR/latest_checkpointed_iteration.txt                     an iteration, or "release"
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

/// True for mp_rank_TT and mp_rank_TT_PPP.
bool is_megatron_rank(const std::string& name);
/// True for a folder with an entry mp_rank_*.
bool holds_megatron_ranks(const std::string& folder);

struct MegatronRankFiles {
  int tensor_parallel = 1, pipeline_parallel = 1;
  std::vector<std::string> paths;  // by stage, then tensor parallel rank
};

/// Returns `path` if it is a file NAME.pt or the folder of one rank or iteration. In a folder of several iterations,
/// returns the one that the tracker names, or, with a warning, the newest. Empty for anything else, such as mtl's own
/// checkpoints.
std::optional<std::string> find_megatron_checkpoint(const std::string& path, Console& console);

/// The files of a checkpoint that find_megatron_checkpoint returned. Throws Error(bad_data) unless the folder has
/// exactly one for each tensor parallel rank of each stage.
MegatronRankFiles list_megatron_files(const std::string& checkpoint);

}  // namespace mtl
