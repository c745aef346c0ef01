#include "models/megatron_folder.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/files.h"
#include "base/printable.h"
#include "formats/folder_entries.h"
#include "models/deepspeed_folder.h"
#include "models/foreign_formats.h"
#include "models/torch_dist_reader.h"

namespace mtl {

namespace {

constexpr std::string_view kRankPrefix = "mp_rank_";

/// True if a name is that of a rank's folder, or at least begins like one. DeepSpeed's files begin in the same way.
bool is_like_rank(const std::string& name) { return starts_with(name, kRankPrefix) && !ends_with(name, ".pt"); }

/// Parses a name: "mp_rank_01_002" -> (1, 2). Returns empty for names of any other form.
std::optional<std::pair<int, int>> rank_in_name(const std::string& name) {
  if (const auto one = numbers_in(name, {kRankPrefix, ""})) return std::pair(one->front(), 0);
  if (const auto both = numbers_in(name, {kRankPrefix, "_", ""})) return std::pair(both->front(), both->back());
  return std::nullopt;
}

/// Throws if a rank's folder has the two files of the first distributed optimizer (Megatron-LM v3.0), which has one
/// folder more per data-parallel rank: mp_rank_00/model_rng.pt, mp_rank_00_000/optim.pt.
void refuse_first_distributed(const std::string& rank_folder) {
  for (const char* name : {"model_rng.pt", "optim.pt"}) {
    if (const std::string path = cat(rank_folder, "/", name); file_exists(path))
      fail_at(Exit::bad_data, path,
              "the file belongs to a checkpoint from the distributed optimizer of Megatron-LM v3.0, which mtl does not "
              "read; load the checkpoint with that Megatron-LM and save it without --use-distributed-optimizer");
  }
}

/// Returns the folder that the tracker names, whether or not it exists, or "" if the tracker is missing or does not
/// name a folder.
std::string tracked_folder(const std::string& path) {
  std::string text = tracker_text(path);
  if (text == kReleaseFolder) return text;
  const std::optional<std::int64_t> iteration = parse_int(text);
  return iteration && *iteration >= 0 ? folder_of(*iteration) : "";
}

}  // namespace

bool holds_megatron_ranks(const std::string& folder) {
  const std::vector<std::string> names = names_in_folder(folder);
  return std::ranges::any_of(names, is_like_rank);
}

bool holds_megatron_iteration(const std::string& folder) {
  return holds_megatron_ranks(folder) || has_mark(kTorchDistMarks, folder);
}

bool is_megatron_file(const std::string& path) {
  return ends_with(path, ".pt") && !is_directory(path) && !is_deepspeed_file(path) && !is_optimizer_file(path);
}

bool is_optimizer_file(std::string_view path) {
  return ends_with(path, "distrib_optim.pt") || ends_with(path, "/optim.pt");
}

// A release counts as iteration 0. If the one that the tracker names is incomplete, or is in a format that mtl does not
// read, this throws: an older one would repeat iterations without being asked to.
std::optional<std::string> current_megatron_checkpoint(const std::string& path, Console& console) {
  std::string newest;
  std::int64_t newest_iteration = -1;
  for (const std::string& name : names_in_folder(path)) {
    const std::optional<std::int64_t> iteration =
        name == kReleaseFolder ? std::optional<std::int64_t>(0) : iteration_in_name(name);
    if (!iteration || *iteration < newest_iteration || !holds_megatron_iteration(cat(path, "/", name))) continue;
    newest = name;
    newest_iteration = *iteration;
  }
  if (newest.empty()) return std::nullopt;
  const std::string tracked = tracked_folder(path);
  const std::string tracked_path = cat(path, "/", tracked);
  if (!tracked.empty() && holds_megatron_iteration(tracked_path)) return tracked_path;
  if (!tracked.empty() && file_exists(tracked_path)) {
    const std::string foreign = describe_foreign_model(tracked_path);
    fail_at(Exit::bad_data, tracked_path, "the folder ",
            foreign.empty() ? "contains neither mp_rank_* folders nor .metadata; copy the checkpoint again" : foreign,
            ", or use ", path, "/", newest, " to go back to that checkpoint");
  }
  const std::string tracker = cat(path, "/", kTrackerName);
  const char* problem = file_exists(tracker) ? " does not name a checkpoint" : " is missing";
  console.warn(
      cat(tracker, tracked.empty() ? problem : cat(" names ", tracked, ", which does not exist"), "; using ", newest));
  return cat(path, "/", newest);
}

MegatronRankFiles list_megatron_files(const std::string& checkpoint) {
  if (!is_directory(checkpoint)) return {.paths = {checkpoint}};
  if (const std::string file = cat(checkpoint, "/", kRankFile); file_exists(file)) return {.paths = {file}};
  MegatronRankFiles out;
  std::map<std::pair<int, int>, std::string> by_rank;  // (stage, tensor parallel rank)
  for (const std::string& name : names_in_folder(checkpoint)) {
    if (!is_like_rank(name)) continue;
    const std::string path = cat(checkpoint, "/", name, "/", kRankFile);
    refuse_first_distributed(cat(checkpoint, "/", name));
    const std::optional<std::pair<int, int>> rank = rank_in_name(name);
    if (!rank)
      fail_at(Exit::bad_data, checkpoint, printable_text(name),
              " is not mp_rank_TT or mp_rank_TT_PPP; mtl does not read expert-parallel checkpoints");
    if (!file_exists(path)) fail(Exit::bad_data, path, " is missing; copy all files of the checkpoint");
    const auto [known, is_new] = by_rank.emplace(std::pair(rank->second, rank->first), path);
    if (!is_new)
      fail_at(Exit::bad_data, checkpoint, parent_folder(known->second), " and ", name,
              " are for the same rank; remove the one that does not belong to this checkpoint");
    out.tensor_parallel = std::max(out.tensor_parallel, rank->first + 1);
    out.pipeline_parallel = std::max(out.pipeline_parallel, rank->second + 1);
  }
  for (int stage = 0; stage < out.pipeline_parallel; ++stage) {
    for (int rank = 0; rank < out.tensor_parallel; ++rank) {
      const auto found = by_rank.find({stage, rank});
      if (found == by_rank.end())
        fail_at(Exit::bad_data, checkpoint, "the file for tensor parallel rank ", rank, " on pipeline stage ", stage,
                " is missing; copy all mp_rank_* folders of the checkpoint (", by_rank.size(), " of ",
                out.tensor_parallel, " x ", out.pipeline_parallel, " are there)");
      out.paths.push_back(found->second);
    }
  }
  return out;
}

}  // namespace mtl
