#include "ckpt/model_folder.h"

#include <algorithm>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "base/output_lock.h"
#include "ckpt/checkpoint_folder.h"
#include "ckpt/manifest.h"
#include "formats/dcp_folder.h"
#include "models/companion_files.h"
#include "models/hf_config.h"
#include "models/megatron_folder.h"
#include "models/torch_dist_reader.h"

namespace mtl {

namespace {

bool has_file(const std::vector<FolderEntry>& entries, const std::string& name) {
  return std::ranges::any_of(entries, [&](const FolderEntry& e) { return e.is_file && e.name == name; });
}

bool is_hf_file(const std::string& name) {
  return name == "config.json" || name == "model.safetensors" || name == "model.safetensors.index.json" ||
         matches(name, "model-#-of-#.safetensors") || is_companion_file(name);
}

bool is_checkpoint_file(const std::string& name) {
  return name == kManifestName || matches(name, "shard_#.safetensors") || is_companion_file(name);
}

std::string not_part(const std::string& name) { return cat("contains '", name, "', which is not part of a model"); }

/// Returns "contains 'notes.txt', which is not part of a model" for the first entry for which `is_part` is false, or
/// "".
template <class IsPart>
std::string foreign_entry(const std::vector<FolderEntry>& entries, const IsPart& is_part) {
  auto found = std::ranges::find_if_not(entries, is_part);
  return found == entries.end() ? "" : not_part(found->name);
}

/// Appends the name of the inner folder with the problem. Returns "" if there is no problem.
std::string within(const std::string& problem, const std::string& name) {
  return problem.empty() ? "" : cat(problem, " (in ", name, ")");
}

bool describes_known_model(const std::string& path) {
  return passes([&] { return find_hf_family_of(Json::read(path)) != nullptr; });
}

FolderContents examine_hf(const std::string& path, const std::vector<FolderEntry>& entries) {
  FolderContents out;
  const bool is_known = describes_known_model(path + "/config.json");
  out.kind = is_known ? "a Hugging Face model" : "a config.json, by which programs recognize a Hugging Face model";
  out.problem = foreign_entry(entries, [](const FolderEntry& e) { return e.is_file && is_hf_file(e.name); });
  if (out.problem.empty() && !is_known) out.problem = "contains a config.json for a different kind of model";
  return out;
}

std::string foreign_in_checkpoint(const std::string& path) {
  return foreign_entry(list_entries(path),
                       [](const FolderEntry& e) { return e.is_file && is_checkpoint_file(e.name); });
}

/// Returns the problem with the first entry that is not part of a Megatron-LM checkpoint, or "". A checkpoint contains
/// companion files and one folder per rank with a single file.
std::string foreign_in_megatron(const std::string& path) {
  for (const FolderEntry& e : list_entries(path)) {
    if (e.is_file && is_companion_file(e.name)) continue;
    if (!e.is_folder || !is_megatron_rank(e.name)) return not_part(e.name);
    const std::string problem = foreign_entry(list_entries(cat(path, "/", e.name)), [](const FolderEntry& file) {
      return file.is_file && file.name == kRankFile;
    });
    if (!problem.empty()) return within(problem, e.name);
  }
  return "";
}

bool is_dcp_file(const std::string& name) {
  return name == kDcpMetadataName || matches(name, "__#_#.distcp") || name == kDistMetadataName ||
         name == kDistCommonName || is_companion_file(name);
}

std::string foreign_in_dcp(const std::string& path) {
  return foreign_entry(list_entries(path), [](const FolderEntry& e) { return e.is_file && is_dcp_file(e.name); });
}

std::string foreign_in_iteration(const std::string& path) {
  return holds_dcp(path) ? foreign_in_dcp(path) : foreign_in_megatron(path);
}

/// Sets out.problem in these cases:
/// - There is an entry that is not a checkpoint and for which `is_own` is false.
/// - `foreign_in` finds a foreign entry in a checkpoint.
/// - There are multiple checkpoints.
///
/// Sets out.kind if there is a checkpoint.
template <class IsOwn, class ForeignIn>
void examine_checkpoints(const std::string& path, const std::vector<FolderEntry>& entries, const IsOwn& is_own,
                         const ForeignIn& foreign_in, FolderContents& out) {
  std::vector<std::string> checkpoints;
  out.problem = foreign_entry(entries, [&](const FolderEntry& e) {
    const bool is_release = e.name == kReleaseFolder && holds_megatron_iteration(cat(path, "/", e.name));
    const bool is_checkpoint = e.is_folder && (iteration_in_name(e.name) || is_release);
    if (is_checkpoint) checkpoints.push_back(e.name);
    return is_checkpoint || is_own(e);
  });
  for (const std::string& name : checkpoints) {
    if (out.problem.empty()) out.problem = within(foreign_in(cat(path, "/", name)), name);
  }
  if (out.problem.empty() && checkpoints.size() > 1)
    out.problem = cat("contains ", checkpoints.size(), " checkpoints of a training run");
  if (!checkpoints.empty()) out.kind = cat("the checkpoint ", checkpoints.front());
}

FolderContents examine_megatron_folder(const std::string& path, const std::vector<FolderEntry>& entries) {
  FolderContents out;
  const auto is_own = [](const FolderEntry& e) {
    return e.is_file && (e.name == kTrackerName || is_companion_file(e.name));
  };
  examine_checkpoints(path, entries, is_own, foreign_in_iteration, out);
  out.kind = "a Megatron-LM checkpoint";
  return out;
}

bool is_file_of_run(const std::string& name) { return name == kLockName || name == kTrackerName || name == kRunIdName; }

FolderContents examine_save_folder(const std::string& path, const std::vector<FolderEntry>& entries) {
  FolderContents out;
  out.is_save_folder = true;
  out.kind = "a save folder without checkpoints";
  const std::vector<std::string> leftovers = list_leftovers(path);
  const auto is_own = [&](const FolderEntry& e) {
    return (e.is_file && is_file_of_run(e.name)) ||
           std::ranges::find(leftovers, cat(path, "/", e.name)) != leftovers.end();
  };
  examine_checkpoints(path, entries, is_own, foreign_in_checkpoint, out);
  return out;
}

/// Returns `name` without the suffix of an incomplete or discarded file or folder, such as ".tmp.PID" or
/// ".tmp.old.PID".
std::string complete_name(const std::string& name) {
  const std::size_t end = name.find(".tmp.");
  const bool is_temporary =
      end != std::string::npos && is_process_id(std::string_view(name).substr(name.rfind('.') + 1));
  return is_temporary ? name.substr(0, end) : name;
}

}  // namespace

FolderContents examine_model_folder(const std::string& path) {
  const std::vector<FolderEntry> entries = list_entries(path);
  if (has_file(entries, kManifestName)) return {.kind = "a checkpoint", .problem = foreign_in_checkpoint(path)};
  if (has_file(entries, "config.json")) return examine_hf(path, entries);
  if (holds_megatron_ranks(path)) return {.kind = "a Megatron-LM checkpoint", .problem = foreign_in_megatron(path)};
  if (holds_dcp(path)) return {.kind = "a distributed checkpoint", .problem = foreign_in_dcp(path)};
  const bool is_megatron_folder = std::ranges::any_of(
      entries, [&](const FolderEntry& e) { return e.is_folder && holds_megatron_iteration(cat(path, "/", e.name)); });
  if (is_megatron_folder) return examine_megatron_folder(path, entries);
  const bool is_save_folder = std::ranges::any_of(entries, [](const FolderEntry& e) {
    return e.name == kLockName || e.name == kTrackerName || iteration_in_name(e.name);
  });
  if (is_save_folder) return examine_save_folder(path, entries);
  FolderContents out;
  if (!entries.empty()) out.problem = "does not contain a model";
  return out;
}

std::string find_foreign_entry(const std::string& path) {
  if (fs::is_symlink(path)) return "";
  if (!is_directory(path)) return "is a file";
  for (const FolderEntry& e : list_entries(path)) {
    const std::string name = complete_name(e.name);
    const bool is_part = e.is_file && (is_hf_file(name) || is_checkpoint_file(name) || is_dcp_file(name) ||
                                       is_file_of_run(name) || name == kRankFile);
    const bool may_hold_parts =
        e.is_folder && (iteration_in_name(name) || name == kReleaseFolder || is_megatron_rank(name));
    if (!is_part && !may_hold_parts) return not_part(e.name);
    const std::string problem = is_part ? "" : find_foreign_entry(cat(path, "/", e.name));
    if (!problem.empty()) return within(problem, e.name);
  }
  return "";
}

}  // namespace mtl
