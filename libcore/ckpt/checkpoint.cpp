#include "ckpt/checkpoint.h"

#include <unistd.h>

#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "base/files.h"
#include "ckpt/checkpoint_folder.h"
#include "ckpt/manifest.h"
#include "ckpt/shard_writer.h"
#include "comm/rank_outcome.h"
#include "version.h"

namespace mtl {

namespace {

/// Removes leftovers, then creates the folder that all ranks write to before the commit, and returns its path.
std::string make_temporary(const std::string& directory, std::int64_t iteration, const SaveOptions& options,
                           const Warn& warn) {
  require(options.keep_last == 0 || options.keep_last >= 2, "--keep-last ", options.keep_last,
          " must be at least 2, or 0 to keep all");
  require(options.block_bytes > 0, "SaveOptions::block_bytes is ", options.block_bytes, ", but must be above 0");
  make_directories(directory);
  recover_replaced(directory, warn);
  remove_leftovers(directory, warn);
  std::string temporary = cat(directory, "/", folder_of(iteration), ".tmp.", ::getpid());
  if (file_exists(temporary)) remove_tree(temporary);  // a leftover that could not be removed
  make_directories(temporary);
  return temporary;
}

/// Calls options.add_files(), adds the new files to the manifest, and writes the manifest, which is always a
/// checkpoint's last file.
void complete_folder(const std::string& folder, Manifest& manifest, const SaveOptions& options) {
  if (options.add_files) options.add_files(folder);
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::string name = entry.path().filename().string(), path = entry.path().string();
    if (manifest.find_file(name) == nullptr)
      manifest.files.push_back({.name = name, .bytes = file_size(path), .hash = hash_text(hash_file(path))});
  }
  manifest.provenance =
      Json::object({{"program", cat("mtl ", kVersion)}, {"command_line", options.command_line}, {"time", timestamp()}});
  OutputFile out(cat(folder, "/", kManifestName));
  out.write(manifest_text(manifest));
  out.sync();
  out.close();
  sync_directory(folder);
}

/// Removes what the committed checkpoint of `iteration` supersedes. Only warns about a failure.
void remove_superseded(const std::string& directory, std::int64_t iteration, std::int64_t keep_last, const Warn& warn) {
  try {
    remove_leftovers(directory, warn);
    if (keep_last > 0) remove_old(directory, iteration, keep_last, warn);
  } catch (const std::exception& error) {
    warn(cat(directory, "/", folder_of(iteration),
             " is complete, but older checkpoints could not be removed: ", error.what()));
  }
}

}  // namespace

std::string commit_checkpoint(const std::string& directory, const CheckpointContent& content,
                              const SaveOptions& options, Communicator& control, const Warn& warn) {
  const std::int64_t iteration = content.state.iteration;
  std::string temporary =
      work_on_first_rank(control, [&] { return make_temporary(directory, iteration, options, warn); });
  std::vector<std::string> parts;
  try {
    parts = work_on_every_rank(control, [&] {
      return manifest_part_text(write_shard(temporary, control.rank(), content.tensors(), options.block_bytes));
    });
  } catch (const AgreedError&) {
    std::error_code ignored;
    if (control.rank() == 0) fs::remove_all(temporary, ignored);
    throw;
  }
  return work_on_first_rank(control, [&] {
    std::string path = cat(directory, "/", folder_of(iteration));
    bool is_complete = false;
    try {
      Manifest manifest;
      manifest.config = content.config;
      manifest.state = content.state;
      manifest.block_bytes = options.block_bytes;
      join_manifest_parts(manifest, parts);
      complete_folder(temporary, manifest, options);
      is_complete = true;
      publish(temporary, path, file_exists(path));
    } catch (...) {
      // Rethrow the first error; the next save removes leftovers. Once publish() has started, `temporary` may be the
      // name of the replaced checkpoint, which must be kept until the folder is synced.
      std::error_code ignored;
      if (!is_complete) fs::remove_all(temporary, ignored);
      throw;
    }
    write_tracker(directory, iteration, warn);
    if (options.best) write_best(directory, options.best, warn);
    remove_superseded(directory, iteration, options.keep_last, warn);
    return path;
  });
}

SaveDirectory::SaveDirectory(std::string path, Console* console) : path_(std::move(path)) {
  // A copy, because this object outlives the console with which a run is prepared.
  warn_ = [own = console == nullptr ? std::nullopt : std::optional(*console),
           warned = std::set<std::string>()](const std::string& message) mutable {
    if (own && warned.insert(message).second) own->warn(message);
  };

  fs::path above;
  for (const fs::path& part : fs::path(path_)) {
    above /= part;
    if (!file_exists(above.string())) made_folders_.push_back(above.string());
  }
  make_directories(path_);
  std::string owner;
  lock_ = FileLock::take(path_ + "/lock", &owner);
  if (!lock_) {
    made_folders_.clear();
    fail_at(Exit::failure, path_, "another job saves here (", owner,
            "); wait for it, stop it, or choose another --save folder");
  }
  recover_replaced(path_, warn_);
}

SaveDirectory SaveDirectory::of_other_rank(std::string path) {
  SaveDirectory directory;
  directory.path_ = std::move(path);
  return directory;
}

SaveDirectory::~SaveDirectory() {
  if (!lock_ || made_folders_.empty()) return;
  std::error_code unknown;  // a folder that cannot be listed stays
  fs::directory_iterator entries(path_, unknown);
  if (unknown || std::distance(fs::begin(entries), fs::end(entries)) != 1)
    return;  // the folder contains more than the lock
  ::unlink(lock_->path().c_str());
  // A folder into which another process has put something stays: rmdir() fails.
  for (auto folder = made_folders_.rbegin(); folder != made_folders_.rend(); ++folder) ::rmdir(folder->c_str());
}

SaveDirectory& SaveDirectory::operator=(SaveDirectory&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(made_folders_, other.made_folders_);
  std::swap(lock_, other.lock_);
  std::swap(warn_, other.warn_);
  return *this;
}

void SaveDirectory::finish_commit(std::int64_t iteration, std::int64_t keep_last) const {
  std::vector<std::int64_t> iterations = list_iterations(path_);
  if (iterations.empty() || iterations.front() != iteration) return;
  if (parse_int(tracker_text(path_)) != iteration) write_tracker(path_, iteration, warn_);
  remove_superseded(path_, iteration, keep_last, warn_);
}

std::string SaveDirectory::save(const GptConfig& config, const ParamMemory& params, const TrainState& state,
                                const SaveOptions& options, Communicator& world) const {
  work_on_first_rank(world, [&] {
    if (lock_) lock_->check_held();
    return std::string();
  });
  CheckpointContent content{config, state, [&] { return tensors_to_save(params); }};
  work_on_every_rank(world, [&] {
    const std::string broken = find_nonfinite(content.tensors());
    if (!broken.empty()) {
      fail(Exit::failure, path_, ": iteration ", state.iteration, " was not saved, because tensor '", broken,
           "' contains NaN or infinity; resume from an earlier checkpoint with a lower --lr");
    }
    return std::string();
  });
  return commit_checkpoint(path_, content, options, world, warn_);
}

std::string SaveDirectory::run_id() const { return run_id_of(path_); }

void SaveDirectory::replace_state(const TrainState& state, std::int64_t keep_last, Communicator& world) const {
  work_on_first_rank(world, [&] {
    finish_commit(state.iteration,
                  keep_last);  // the job that wrote this checkpoint may have died right after the rename
    const std::string folder = cat(path_, "/", folder_of(state.iteration));
    Manifest manifest = read_sound_manifest(folder);
    manifest.state = state;
    OutputFile out(cat(folder, ".tmp.", ::getpid()));
    out.write(manifest_text(manifest));
    out.sync();
    out.close();
    publish(out.path(), cat(folder, "/", kManifestName));
    return std::string();
  });
}

}  // namespace mtl
