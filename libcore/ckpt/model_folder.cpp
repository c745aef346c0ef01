#include "ckpt/model_folder.h"

#include <algorithm>
#include <vector>

#include "base/files.h"
#include "base/output_lock.h"
#include "ckpt/checkpoint_folder.h"
#include "models/companion_files.h"
#include "models/megatron_folder.h"

namespace mtl {

namespace {

using Entries = std::vector<FolderEntry>;

std::string not_part(const std::string& name) { return cat("contains '", name, "', which is not part of a model"); }

/// Returns "contains 'notes.txt', which is not part of a model" for the first entry for which `is_part` is false, or
/// "".
template <class IsPart>
std::string foreign_entry(const Entries& entries, const IsPart& is_part) {
  auto found = std::ranges::find_if_not(entries, is_part);
  return found == entries.end() ? "" : not_part(found->name);
}

/// Appends the name of the inner folder with the problem. Returns "" if there is no problem.
std::string within(const std::string& problem, const std::string& name) {
  return problem.empty() ? "" : cat(problem, " (in ", name, ")");
}

/// Returns the parts inside a folder, relative to it: {"mp_rank_#/x.pt", "y"} and "mp_rank_00" give {"x.pt"}.
std::vector<std::string_view> parts_in(std::span<const std::string_view> parts, const std::string& name) {
  std::vector<std::string_view> inner;
  for (const std::string_view part : parts) {
    const std::size_t slash = part.find('/');
    if (slash != std::string_view::npos && matches(name, part.substr(0, slash)))
      inner.push_back(part.substr(slash + 1));
  }
  return inner;
}

/// Returns the problem with the first entry that is neither one of a model's parts nor, in its own folder, a companion
/// file, or "".
std::string foreign_in(const std::string& path, std::span<const std::string_view> parts, bool has_companions = true) {
  for (const FolderEntry& e : list_entries(path)) {
    const auto is_it = [&](std::string_view part) { return matches(e.name, part); };
    if (e.is_file && (std::ranges::any_of(parts, is_it) || (has_companions && is_companion_file(e.name)))) continue;
    const std::vector<std::string_view> inner = parts_in(parts, e.name);
    if (!e.is_folder || inner.empty()) return not_part(e.name);
    const std::string problem = foreign_in(cat(path, "/", e.name), inner, false);
    if (!problem.empty()) return within(problem, e.name);
  }
  return "";
}

/// Returns the first format that mtl replaces whose model the folder is, or nullptr.
const ModelFormat* find_replaceable(const std::string& path, ModelFormats formats) {
  const ModelFormat* format = find_model_format(path, formats);
  return format != nullptr && !format->parts.empty() ? format : nullptr;
}

FolderContents examine_model(const std::string& path, const ModelFormat& format) {
  FolderContents out{.kind = std::string(format.content), .problem = foreign_in(path, format.parts)};
  if (format.is_model == nullptr || format.is_model(path)) return out;
  out.kind = cat("a ", format.recognized, ", by which programs recognize ", format.content);
  if (out.problem.empty()) out.problem = cat("contains a ", format.recognized, " for a different kind of model");
  return out;
}

/// Sets out.problem in these cases:
/// - There is an entry that is not a checkpoint and for which `is_own` is false.
/// - There is a foreign entry in a checkpoint.
/// - There are multiple checkpoints.
///
/// Sets out.kind if there is a checkpoint.
template <class IsOwn>
void examine_checkpoints(const std::string& path, const Entries& entries, const IsOwn& is_own, ModelFormats formats,
                         FolderContents& out) {
  std::vector<std::string> checkpoints;
  out.problem = foreign_entry(entries, [&](const FolderEntry& e) {
    const bool is_release = e.name == kReleaseFolder && holds_megatron_iteration(cat(path, "/", e.name));
    const bool is_checkpoint = e.is_folder && (iteration_in_name(e.name) || is_release);
    if (is_checkpoint) checkpoints.push_back(e.name);
    return is_checkpoint || is_own(e);
  });
  for (const std::string& name : checkpoints) {
    const std::string folder = cat(path, "/", name);
    const ModelFormat* format = find_replaceable(folder, formats);
    if (out.problem.empty())
      out.problem = within(foreign_in(folder, format != nullptr ? format->parts : formats.front().parts), name);
  }
  if (out.problem.empty() && checkpoints.size() > 1)
    out.problem = cat("contains ", checkpoints.size(), " checkpoints of a training run");
  if (!checkpoints.empty()) out.kind = cat("the checkpoint ", checkpoints.front());
}

FolderContents examine_save_folder(const std::string& path, const Entries& entries, ModelFormats formats) {
  FolderContents out{.kind = "a save folder without checkpoints", .problem = "", .is_save_folder = true};
  const auto is_own = [](const FolderEntry& e) { return (e.is_file && is_file_of_run(e.name)) || is_leftover(e.name); };
  examine_checkpoints(path, entries, is_own, formats, out);
  return out;
}

FolderContents examine_megatron_folder(const std::string& path, const Entries& entries, ModelFormats formats) {
  FolderContents out;
  const auto is_own = [](const FolderEntry& e) {
    return e.is_file && (e.name == kTrackerName || is_companion_file(e.name));
  };
  examine_checkpoints(path, entries, is_own, formats, out);
  out.kind = "a Megatron-LM checkpoint";
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

/// True if `name` is that of a file or, with `is_folder`, of a folder in any model that mtl replaces.
bool is_name_in_model(const std::string& name, bool is_folder, ModelFormats formats) {
  for (const ModelFormat& format : formats) {
    for (const std::string_view part : format.parts) {
      const std::vector<std::string> path = split(std::string(part), '/');
      if (!is_folder && matches(name, path.back())) return true;
      for (std::size_t i = 0; is_folder && i + 1 < path.size(); ++i)
        if (matches(name, path[i])) return true;
    }
  }
  return is_folder ? iteration_in_name(name) || name == kReleaseFolder
                   : is_companion_file(name) || is_file_of_run(name);
}

}  // namespace

FolderContents examine_model_folder(const std::string& path, ModelFormats formats) {
  const Entries entries = list_entries(path);
  if (const ModelFormat* format = find_replaceable(path, formats)) return examine_model(path, *format);
  const bool is_megatron_folder = std::ranges::any_of(
      entries, [&](const FolderEntry& e) { return e.is_folder && holds_megatron_iteration(cat(path, "/", e.name)); });
  if (is_megatron_folder) return examine_megatron_folder(path, entries, formats);
  const bool is_save_folder = std::ranges::any_of(entries, [](const FolderEntry& e) {
    return e.name == kLockName || e.name == kTrackerName || iteration_in_name(e.name);
  });
  if (is_save_folder) return examine_save_folder(path, entries, formats);
  FolderContents out;
  if (!entries.empty()) out.problem = "does not contain a model";
  return out;
}

std::string find_foreign_entry(const std::string& path, ModelFormats formats) {
  if (fs::is_symlink(path)) return "";
  if (!is_directory(path)) return "is a file";
  for (const FolderEntry& e : list_entries(path)) {
    const bool is_part = (e.is_file || e.is_folder) && is_name_in_model(complete_name(e.name), e.is_folder, formats);
    if (!is_part) return not_part(e.name);
    const std::string problem = e.is_file ? "" : find_foreign_entry(cat(path, "/", e.name), formats);
    if (!problem.empty()) return within(problem, e.name);
  }
  return "";
}

}  // namespace mtl
