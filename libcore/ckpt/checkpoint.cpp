#include "ckpt/checkpoint.h"

#include <unistd.h>

#include <iterator>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "base/files.h"
#include "base/worker_thread.h"
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
  require(options.kept.last == 0 || options.kept.last >= 2, "--keep-last ", options.kept.last,
          " must be at least 2, or 0 to keep all");
  require(options.block_bytes > 0, "SaveOptions::block_bytes is ", options.block_bytes, ", but must be above 0");
  make_output_directories(directory);
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
void remove_superseded(const std::string& directory, std::int64_t iteration, const KeptCheckpoints& kept,
                       const Warn& warn) {
  try {
    remove_leftovers(directory, warn);
    remove_old(directory, iteration, kept, warn);
  } catch (const std::exception& error) {
    warn(cat(directory, "/", folder_of(iteration),
             " is complete, but older checkpoints could not be removed: ", error.what()));
  }
}

}  // namespace

PendingSave::PendingSave(std::string directory, CheckpointContent content, SaveOptions options, Communicator& control,
                         const Warn& warn)
    : directory_(std::move(directory)),
      content_(std::move(content)),
      options_(std::move(options)),
      rank_(control.rank()),
      temporary_(work_on_first_rank(
          control, [&] { return make_temporary(directory_, content_.state.iteration, options_, warn); })) {}

PendingSave::~PendingSave() {
  is_abandoned_ = true;
  if (thread_.joinable()) thread_.join();
}

std::string PendingSave::write() {
  std::vector<TensorToSave> tensors = content_.tensors();
  for (TensorToSave& item : tensors) {
    item.bytes = [this, bytes = std::move(item.bytes)] {
      if (is_abandoned_) fail(Exit::failure, temporary_, ": the save was abandoned");
      return bytes();
    };
  }
  return manifest_part_text(write_shard(temporary_, rank_, tensors, options_.block_bytes));
}

void PendingSave::start_writing() {
  std::packaged_task<std::string()> task([this] { return write(); });
  part_ = task.get_future();
  try {
    thread_ = worker_thread(std::move(task));
  } catch (const std::system_error&) {  // no thread can be started: finish() writes
    part_ = {};
  }
}

std::string PendingSave::finish(Communicator& control, const Warn& warn) {
  std::vector<std::string> parts;
  try {
    parts = work_on_every_rank(control, [&] { return part_.valid() ? part_.get() : write(); });
  } catch (const AgreedError&) {
    std::error_code ignored;
    if (rank_ == 0) fs::remove_all(temporary_, ignored);
    throw;
  }
  return work_on_first_rank(control, [&] { return commit(parts, warn); });
}

/// On rank 0: writes the manifest, and gives the folder its name.
std::string PendingSave::commit(const std::vector<std::string>& parts, const Warn& warn) const {
  const std::int64_t iteration = content_.state.iteration;
  std::string path = cat(directory_, "/", folder_of(iteration));
  bool is_complete = false;
  try {
    Manifest manifest;
    manifest.config = content_.config;
    manifest.state = content_.state;
    manifest.block_bytes = options_.block_bytes;
    join_manifest_parts(manifest, parts);
    complete_folder(temporary_, manifest, options_);
    is_complete = true;
    publish(temporary_, path, file_exists(path));
  } catch (...) {
    // Rethrow the first error; the next save removes leftovers. Once publish() has started, `temporary_` may be the
    // name of the replaced checkpoint, which must be kept until the folder is synced.
    std::error_code ignored;
    if (!is_complete) fs::remove_all(temporary_, ignored);
    throw;
  }
  write_tracker(directory_, iteration, warn);
  if (options_.best) write_best(directory_, options_.best, warn);
  remove_superseded(directory_, iteration, options_.kept, warn);
  return path;
}

std::string commit_checkpoint(const std::string& directory, const CheckpointContent& content,
                              const SaveOptions& options, Communicator& control, const Warn& warn) {
  return PendingSave(directory, content, options, control, warn).finish(control, warn);
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
  make_output_directories(path_);
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

void SaveDirectory::finish_commit(std::int64_t iteration, const KeptCheckpoints& kept) const {
  std::vector<std::int64_t> iterations = list_iterations(path_);
  if (iterations.empty() || iterations.front() != iteration) return;
  if (parse_int(tracker_text(path_)) != iteration) write_tracker(path_, iteration, warn_);
  remove_superseded(path_, iteration, kept, warn_);
}

void SaveDirectory::check_lock(Communicator& world) const {
  work_on_first_rank(world, [&] {
    if (lock_) lock_->check_held();
    return std::string();
  });
}

std::unique_ptr<PendingSave> SaveDirectory::begin(const GptConfig& config, const ParamMemory& params,
                                                  const TrainState& state, const SaveOptions& options,
                                                  Communicator& world, std::span<std::byte> copy) const {
  check_lock(world);
  std::vector<TensorToSave> tensors;
  work_on_every_rank(world, [&] {
    tensors = tensors_to_save(params, options.states, copy);
    require_finite(tensors, cat(path_, ": iteration ", state.iteration));
    return std::string();
  });
  auto save = std::make_unique<PendingSave>(path_, CheckpointContent{config, state, [tensors] { return tensors; }},
                                            options, world, warn_);
  if (!copy.empty()) save->start_writing();
  return save;
}

std::string SaveDirectory::finish(PendingSave& save, Communicator& world) const {
  check_lock(world);
  return save.finish(world, warn_);
}

std::string SaveDirectory::run_id() const { return run_id_of(path_); }

void SaveDirectory::replace_state(const TrainState& state, const KeptCheckpoints& kept, Communicator& world) const {
  work_on_first_rank(world, [&] {
    finish_commit(state.iteration, kept);  // the job that wrote this checkpoint may have died right after the rename
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
