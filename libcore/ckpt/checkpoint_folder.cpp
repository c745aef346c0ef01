#include "ckpt/checkpoint_folder.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <random>

#include "base/count_of.h"
#include "base/files.h"
#include "base/lfs_pointer.h"
#include "base/output_lock.h"
#include "ckpt/checkpoint.h"
#include "ckpt/manifest.h"
#include "ckpt/model_folder.h"
#include "models/foreign_formats.h"
#include "models/megatron_folder.h"

namespace mtl {

namespace {

constexpr const char* kAside = ".old";  // the suffix that publish() appends to the old folder's name

/// Throws unless the checkpoint of `iteration` has a sound manifest for that iteration. Returns its state.
TrainState check_sound(const std::string& directory, std::int64_t iteration) {
  std::string folder = cat(directory, "/", folder_of(iteration));
  Manifest manifest = read_sound_manifest(folder);
  if (manifest.state.iteration != iteration) {
    fail_at(Exit::bad_data, folder, "the folder contains the checkpoint of iteration ", manifest.state.iteration,
            "; rename the folder to ", folder_of(manifest.state.iteration));
  }
  return std::move(manifest.state);
}

/// True if the error says that this user may not read the checkpoint, or that Git LFS has not downloaded it. Such a
/// checkpoint does not count as damaged.
bool is_out_of_reach(const Error& error) {
  const auto* refusal = dynamic_cast<const SystemError*>(&error);
  return (refusal != nullptr && refusal->number() == EACCES) || dynamic_cast<const LfsPointerError*>(&error) != nullptr;
}

/// Warns if the tracker does not name the checkpoint of iteration `newest`.
void compare_tracker(const std::string& directory, std::int64_t newest, Console& console) {
  std::string path = cat(directory, "/", kTrackerName), text = tracker_text(directory);
  if (parse_int(text) == newest) return;
  std::string problem = !file_exists(path)       ? " is missing"
                        : !is_regular_file(path) ? " is not a regular file"
                        : text.empty()           ? " is empty"
                        : parse_int(text)        ? " says " + text
                                                 : " is not a number";
  console.warn(cat(path, problem, "; using the newest valid checkpoint, iteration ", newest));
}

}  // namespace

void refuse_two_programs(const std::string& directory) {
  std::string own, megatron;
  std::vector<std::string> names = {std::string(kReleaseFolder)};
  for (const std::int64_t iteration : list_iterations(directory)) names.push_back(folder_of(iteration));
  for (const std::string& name : names) {
    const std::string folder = cat(directory, "/", name);
    if (file_exists(cat(folder, "/", kManifestName))) own = name;
    if (holds_megatron_iteration(folder)) megatron = name;
  }
  if (own.empty() || megatron.empty()) return;
  fail_at(
      Exit::bad_data, directory, "the folder contains checkpoints of mtl (", own, ") and of Megatron-LM (", megatron,
      "), and the tracker cannot tell which to use; choose one checkpoint's folder, or move one program's checkpoints "
      "to another folder");
}

std::vector<std::int64_t> list_iterations(const std::string& directory) {
  std::vector<std::int64_t> out;
  std::error_code error, ignored;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    std::optional<std::int64_t> iteration = iteration_in_name(entry.path().filename().string());
    if (iteration && (entry.is_directory(ignored) || entry.is_symlink(ignored))) out.push_back(*iteration);
  }
  if (error && error != std::errc::no_such_file_or_directory)
    fail_at(Exit::io, directory, "cannot list: ", error.message());
  std::sort(out.rbegin(), out.rend());
  return out;
}

bool is_sound(const std::string& directory, std::int64_t iteration) {
  return passes([&] {
    check_sound(directory, iteration);
    return true;
  });
}

namespace {

/// Only warns if the path is something else than a regular file.
void write_iteration(const std::string& path, std::int64_t iteration, const Warn& warn) {
  if (file_exists(path) && !is_regular_file(path))
    return warn(cat(path, " is not a regular file, and is not updated; remove it, because other programs look there"));
  write_file_atomic(path, cat(iteration, "\n"));
}

/// Returns the iteration in the file of the best checkpoint.
std::optional<std::int64_t> best_iteration(const std::string& directory) {
  const std::string path = cat(directory, "/", kBestName);
  return is_regular_file(path) ? parse_int(trim(read_regular_file(path).substr(0, 64))) : std::nullopt;
}

}  // namespace

void write_tracker(const std::string& directory, std::int64_t iteration, const Warn& warn) {
  write_iteration(cat(directory, "/", kTrackerName), iteration, warn);
}

void write_best(const std::string& directory, std::optional<std::int64_t> iteration, const Warn& warn) {
  const std::string path = cat(directory, "/", kBestName);
  if (best_iteration(directory) == iteration) return;
  if (iteration) return write_iteration(path, *iteration, warn);
  remove_tree(path);
  sync_directory(directory);
}

std::string random_id() {
  std::random_device random;
  return format("%08x%08x", random(), random());
}

std::string run_id_of(const std::string& directory) {
  const std::string path = cat(directory, "/", kRunIdName);
  std::string id = file_exists(path) ? std::string(trim(read_regular_file(path).substr(0, 64))) : "";
  if (!id.empty()) return id;
  id = random_id();
  write_file_atomic(path, id + "\n");
  return id;
}

bool is_file_of_run(const std::string& name) {
  return name == kLockName || name == kTrackerName || name == kRunIdName || name == kBestName ||
         name == kFailedStepName;
}

bool is_leftover(const std::string& name) {
  const std::size_t mark = name.find(".tmp.");
  if (mark == std::string::npos) return false;
  const std::string owner = name.substr(0, mark);
  std::string_view number = std::string_view(name).substr(mark + 5);
  if (is_file_of_run(owner)) return is_process_id(number);
  for (std::string_view kind : {"old.", "damaged."}) take_prefix(number, kind);
  return iteration_in_name(owner) && is_process_id(number);
}

std::vector<std::string> list_leftovers(const std::string& directory) {
  std::vector<std::string> leftovers;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (is_leftover(entry.path().filename().string())) leftovers.push_back(entry.path().string());
  }
  return leftovers;
}

namespace {

/// Removes a file or folder that nothing needs. If it has another name than `doomed`, renames it first. Only warns
/// about a failure.
void discard(const std::string& path, const std::string& doomed, const Warn& warn) {
  try {
    if (path != doomed) rename_path(path, doomed);
    remove_tree(doomed);
  } catch (const Error& error) {
    warn(cat(error.what(), "; no checkpoint needs it, so remove it yourself"));
  }
}

std::string doomed_name(const std::string& path) { return cat(path, ".tmp.old.", ::getpid()); }

}  // namespace

void recover_replaced(const std::string& directory, const Warn& warn) {
  std::vector<std::int64_t> aside;
  for (const auto& entry : fs::directory_iterator(directory)) {
    fs::path name = entry.path().filename();
    std::optional<std::int64_t> iteration = iteration_in_name(name.stem().string());
    if (iteration && name.extension() == kAside) aside.push_back(*iteration);
  }
  for (std::int64_t iteration : aside) {
    std::string path = cat(directory, "/", folder_of(iteration)), old = path + kAside;
    if (is_sound(directory, iteration)) {
      sync_directory(directory);
      discard(old, doomed_name(path), warn);
    } else {
      if (file_exists(path)) rename_path(path, cat(path, ".tmp.damaged.", ::getpid()));
      rename_path(old, path);
      sync_directory(directory);
    }
  }
}

void remove_leftovers(const std::string& directory, const Warn& warn) {
  std::vector<std::string> leftovers = list_leftovers(directory);
  if (!leftovers.empty()) sync_directory(directory);
  for (const std::string& path : leftovers) discard(path, path, warn);
}

void remove_old(const std::string& directory, std::int64_t iteration, const KeptCheckpoints& kept, const Warn& warn) {
  if (kept.keeps_all()) return;
  const std::optional<std::int64_t> best = best_iteration(directory);
  std::int64_t counted = 0;
  std::vector<std::int64_t> older, doomed;  // newest first
  for (std::int64_t each : list_iterations(directory)) {
    bool is_marked = false;
    const bool is_known = each <= iteration && passes([&] {
                            const Json extra = check_sound(directory, each).extra;
                            is_marked = kept.drops_marked && extra.is_object() && extra.bool_or(kNonPersistent, false);
                            return true;
                          });
    if (!is_known) continue;
    if (!is_marked) ++counted;
    if (each == iteration) continue;
    older.push_back(each);
    const bool stays = kept.last == 0 || counted <= kept.last || each == best ||
                       (kept.multiples_of > 0 && each % kept.multiples_of == 0);
    if (is_marked || !stays) doomed.push_back(each);
  }
  // The new one may turn out to be damaged.
  if (doomed == older && !doomed.empty()) doomed.erase(doomed.begin());
  for (const std::int64_t old : doomed) {
    const std::string path = cat(directory, "/", folder_of(old));
    discard(path, doomed_name(path), warn);
  }
}

std::optional<std::string> newest_checkpoint(const std::string& directory, Console& console,
                                             const std::vector<std::string>& damaged) {
  const std::vector<std::int64_t> iterations = list_iterations(directory);
  refuse_two_programs(directory);
  std::vector<std::string> problems;
  std::size_t reported = 0;  // number of checkpoints listed in `damaged`
  for (std::int64_t iteration : iterations) {
    const std::string folder = cat(directory, "/", folder_of(iteration));
    if (std::ranges::find(damaged, folder) != damaged.end()) {
      ++reported;
      continue;
    }
    try {
      check_sound(directory, iteration);
    } catch (const Error& error) {
      if (is_out_of_reach(error)) throw;
      problems.push_back(error.what());
      continue;
    }
    for (const std::string& problem : problems) console.warn(cat("skipping an invalid checkpoint: ", problem));
    compare_tracker(directory, iteration, console);
    return folder;
  }
  if (!iterations.empty()) {
    const std::string foreign = describe_foreign_model(directory);
    if (!foreign.empty()) fail_at(Exit::bad_data, directory, "the folder ", foreign);
    problems.insert(problems.begin(), iterations.size() == 1
                                          ? "the only checkpoint is not valid"
                                          : cat("none of the ", iterations.size(), " checkpoints is valid"));
    if (reported > 0)
      problems.push_back(cat("messages above say why ", count_of(reported, "checkpoint"),
                             reported == 1 ? " is" : " are",
                             " damaged; restore a copy, or start again with another --save folder"));
    fail_at(Exit::bad_data, directory, join(problems, "\n  "));
  }
  return std::nullopt;
}

}  // namespace mtl
