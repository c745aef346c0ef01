#include "ckpt/model_folder.h"

#include <algorithm>
#include <vector>

#include "base/files.h"
#include "base/output_lock.h"
#include "ckpt/checkpoint_folder.h"
#include "ckpt/companion_files.h"
#include "ckpt/hf_family.h"
#include "ckpt/manifest.h"

namespace mtl {

namespace {

struct Entry {
  std::string name;
  bool is_file, is_folder;  // both false for links, sockets, FIFOs, devices
};

std::vector<Entry> list_entries(const std::string& path) {
  std::vector<Entry> entries;
  std::error_code error;
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    const fs::file_type type = at->symlink_status(error).type();
    if (error) break;
    entries.push_back(
        {at->path().filename().string(), type == fs::file_type::regular, type == fs::file_type::directory});
  }
  if (error) fail_at(Exit::io, path, "cannot list: ", error.message());
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
  return entries;
}

bool has_file(const std::vector<Entry>& entries, const std::string& name) {
  return std::any_of(entries.begin(), entries.end(), [&](const Entry& e) { return e.is_file && e.name == name; });
}

/// Whether `name` is `pattern`, in which each # stands for one or more digits.
bool matches(std::string_view name, std::string_view pattern) {
  for (; !pattern.empty(); pattern.remove_prefix(1)) {
    if (pattern.front() == '#') {
      const std::size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
      if (digits == 0) return false;
      name.remove_prefix(digits);
    } else {
      if (name.empty() || name.front() != pattern.front()) return false;
      name.remove_prefix(1);
    }
  }
  return name.empty();
}

bool is_hf_file(const std::string& name) {
  return name == "config.json" || name == "model.safetensors" || name == "model.safetensors.index.json" ||
         matches(name, "model-#-of-#.safetensors") || is_companion_file(name);
}

bool is_checkpoint_file(const std::string& name) {
  return name == kManifestName || matches(name, "shard_#.safetensors") || is_companion_file(name);
}

/// "holds 'notes.txt', which is not part of a model", for the first entry that is not; empty without one.
template <class IsPart>
std::string foreign_entry(const std::vector<Entry>& entries, const IsPart& is_part) {
  auto found = std::find_if_not(entries.begin(), entries.end(), is_part);
  return found == entries.end() ? "" : cat("holds '", found->name, "', which is not part of a model");
}

bool describes_known_model(const std::string& path) {
  try {
    return find_hf_family(read_model_json(path).string_or("model_type", "")) != nullptr;
  } catch (const Error&) {
    return false;
  }
}

FolderContents examine_hf(const std::string& path, const std::vector<Entry>& entries) {
  FolderContents out;
  out.kind = "a Hugging Face model";
  out.problem = foreign_entry(entries, [](const Entry& e) { return e.is_file && is_hf_file(e.name); });
  if (out.problem.empty() && !describes_known_model(path + "/config.json"))
    out.problem = "holds a config.json of another kind of model";
  return out;
}

FolderContents examine_checkpoint(const std::vector<Entry>& entries) {
  FolderContents out;
  out.kind = "a checkpoint";
  out.problem = foreign_entry(entries, [](const Entry& e) { return e.is_file && is_checkpoint_file(e.name); });
  return out;
}

FolderContents examine_save_folder(const std::string& path, const std::vector<Entry>& entries) {
  FolderContents out;
  out.is_save_folder = true;
  const std::vector<std::string> leftovers = list_leftovers(path);
  std::vector<std::string> checkpoints;
  out.problem = foreign_entry(entries, [&](const Entry& e) {
    if (e.is_folder && iteration_in_name(e.name)) {
      checkpoints.push_back(e.name);
      return true;
    }
    const bool is_own = e.is_file && (e.name == kLockName || e.name == kTrackerName || e.name == kRunIdName);
    return is_own || std::find(leftovers.begin(), leftovers.end(), cat(path, "/", e.name)) != leftovers.end();
  });
  for (const std::string& name : checkpoints) {
    if (!out.problem.empty()) break;
    const std::string problem = examine_checkpoint(list_entries(cat(path, "/", name))).problem;
    if (!problem.empty()) out.problem = cat(problem, " (in ", name, ")");
  }
  if (out.problem.empty() && checkpoints.size() > 1)
    out.problem = cat("holds ", checkpoints.size(), " checkpoints of a training run");
  out.kind = checkpoints.empty() ? "a save folder without checkpoints" : cat("the checkpoint ", checkpoints.front());
  return out;
}

}  // namespace

std::vector<std::string> names_in_folder(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    names.push_back(at->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<std::int64_t> iteration_in_name(const std::string& name) {
  if (name.size() < 12 || !matches(name, "iter_#")) return std::nullopt;
  return parse_int(name.substr(5));
}

FolderContents examine_model_folder(const std::string& path) {
  const std::vector<Entry> entries = list_entries(path);
  if (has_file(entries, kManifestName)) return examine_checkpoint(entries);
  if (has_file(entries, "config.json")) return examine_hf(path, entries);
  const bool is_save_folder = std::any_of(entries.begin(), entries.end(), [](const Entry& e) {
    return e.name == kLockName || e.name == kTrackerName || iteration_in_name(e.name);
  });
  if (is_save_folder) return examine_save_folder(path, entries);
  FolderContents out;
  if (!entries.empty()) out.problem = "does not hold a model";
  return out;
}

std::string find_foreign_entry(const std::string& path) {
  if (fs::is_symlink(path)) return "";
  if (!is_directory(path)) return "is a file";
  return foreign_entry(list_entries(path), [](const Entry& e) {
    const std::size_t end = e.name.find(".tmp.");  // a file that was not complete
    const std::string name = e.name.substr(0, end);
    return e.is_file && (is_hf_file(name) || is_checkpoint_file(name)) &&
           (end == std::string::npos || is_process_id(std::string_view(e.name).substr(end + 5)));
  });
}

}  // namespace mtl
