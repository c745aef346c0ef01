#include "ckpt/checkpoint.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

#include "base/files.h"
#include "ckpt/canonical.h"
#include "ckpt/manifest.h"
#include "ckpt/safetensors.h"
#include "version.h"

namespace mtl {

namespace {

constexpr const char* kTrackerName = "latest_checkpointed_iteration.txt";
constexpr const char* kShardName = "shard_00000.safetensors";

std::string folder_of(std::int64_t iteration) { return format("iter_%07lld", static_cast<long long>(iteration)); }

/// The iteration in a folder's name, when it is a committed checkpoint's.
std::optional<std::int64_t> iteration_of(const std::string& name) {
  if (!starts_with(name, "iter_") || name.size() < 12) return std::nullopt;
  std::int64_t iteration = 0;
  auto [end, error] = std::from_chars(name.data() + 5, name.data() + name.size(), iteration);
  if (error != std::errc() || end != name.data() + name.size() || iteration < 0) return std::nullopt;
  return iteration;
}

/// Iterations of the committed checkpoints in a folder, newest first.
std::vector<std::int64_t> list_iterations(const std::string& directory) {
  std::vector<std::int64_t> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    std::optional<std::int64_t> iteration = iteration_of(entry.path().filename().string());
    if (iteration && entry.is_directory()) out.push_back(*iteration);
  }
  if (error && error != std::errc::no_such_file_or_directory)
    fail(Exit::io, directory, ": cannot list: ", error.message());
  std::sort(out.rbegin(), out.rend());
  return out;
}

/// Throws unless the folder holds a sound manifest of that iteration.
void check_sound(const std::string& directory, std::int64_t iteration) {
  std::string folder = cat(directory, "/", folder_of(iteration));
  Manifest manifest = read_sound_manifest(folder);
  if (manifest.state.iteration != iteration) {
    fail(Exit::bad_data, folder, ": its manifest is of iteration ", manifest.state.iteration);
  }
}

bool is_sound(const std::string& directory, std::int64_t iteration) {
  try {
    check_sound(directory, iteration);
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::string tracker_text(const std::string& directory) {
  std::string path = cat(directory, "/", kTrackerName);
  return file_exists(path) ? std::string(trim(read_file(path).substr(0, 64))) : "";
}

void write_tracker(const std::string& directory, std::int64_t iteration) {
  write_file_atomic(cat(directory, "/", kTrackerName), cat(iteration, "\n"));
}

/// Says so when the tracker does not name the checkpoint that was found.
void compare_tracker(const std::string& directory, std::int64_t newest, Console& console) {
  std::string path = cat(directory, "/", kTrackerName), text = tracker_text(directory);
  if (parse_int(text) == newest) return;
  std::string said = !file_exists(path) ? " is missing"
                     : text.empty()     ? " is empty"
                     : parse_int(text)  ? " says " + text
                                        : " is not a number";
  console.warn(cat(path, said, "; taking the newest valid checkpoint, iteration ", newest));
}

/// What jobs that died in the middle of a save left behind.
std::vector<std::string> list_leftovers(const std::string& directory) {
  std::vector<std::string> stale;
  for (const auto& entry : fs::directory_iterator(directory)) {
    std::string name = entry.path().filename().string();
    bool ours = starts_with(name, "iter_") || starts_with(name, kTrackerName);
    if (ours && name.find(".tmp.") != std::string::npos) stale.push_back(entry.path().string());
  }
  return stale;
}

/// The caller holds the lock, so nobody else is writing.
void remove_leftovers(const std::string& directory) {
  for (const std::string& path : list_leftovers(directory)) remove_tree(path);
}

/// Writes the one shard of a process; returns what the manifest says of it.
ManifestFile write_shard(const std::string& folder, const std::vector<TensorToSave>& tensors, Manifest& manifest) {
  OutputFile out(cat(folder, "/", kShardName));
  std::vector<StoredTensor> plan;
  for (const TensorToSave& item : tensors)
    plan.push_back({item.tensor.name, item.tensor.dtype, stored_shape(item.slice), 0, 0});
  SafetensorsWriter writer(out, plan);
  for (const TensorToSave& item : tensors) {
    std::span<const std::byte> bytes = item.bytes();
    require(bytes.size() * 8 ==
                static_cast<std::size_t>(item.slice.count()) * static_cast<std::size_t>(bits_of(item.tensor.dtype)),
            "saving '", item.tensor.name, "': ", bytes.size(), " bytes for ", item.slice.count(), " elements");
    writer.write(bytes);
    manifest.tensors.push_back(
        {item.tensor, {{kShardName, item.slice, hash_text(hash_bytes(bytes.data(), bytes.size()))}}});
  }
  writer.finish();
  out.sync();
  out.close();
  return {kShardName, out.bytes(), hash_text(out.hash())};
}

void write_manifest(const std::string& folder, const Manifest& manifest) {
  OutputFile out(cat(folder, "/", kManifestName));
  out.write(manifest_text(manifest));
  out.sync();
  out.close();
}

/// Gives a finished folder its name. A checkpoint of the same iteration that is already there gives way at once when
/// it is sound (the two change names in one step), and is put aside first when it is damaged.
void put_in_place(const std::string& temporary, const std::string& directory, std::int64_t iteration) {
  std::string path = cat(directory, "/", folder_of(iteration));
  bool replaces = file_exists(path), sound = replaces && is_sound(directory, iteration);
  if (replaces && !sound) rename_path(path, cat(path, ".tmp.damaged.", ::getpid()));
  if (sound) {
    exchange_paths(temporary, path);
  } else {
    rename_path(temporary, path);
  }
  sync_directory(directory);
}

/// Deletes sound checkpoints older than `iteration`, all but the newest keep_last - 1. Each loses its name first, so
/// that a half-deleted folder is never taken for a checkpoint.
void remove_old(const std::string& directory, std::int64_t iteration, std::int64_t keep_last) {
  std::int64_t kept = 1;
  for (std::int64_t old : list_iterations(directory)) {
    if (old >= iteration || !is_sound(directory, old) || ++kept <= keep_last) continue;
    std::string path = cat(directory, "/", folder_of(old)), doomed = cat(path, ".tmp.old.", ::getpid());
    rename_path(path, doomed);
    remove_tree(doomed);
  }
}

}  // namespace

bool TrainState::operator==(const TrainState& other) const {
  return iteration == other.iteration && consumed_samples == other.consumed_samples &&
         consumed_valid_samples == other.consumed_valid_samples && optimizer_steps == other.optimizer_steps &&
         skipped_iterations == other.skipped_iterations && loss_scale == other.loss_scale &&
         extra.dump() == other.extra.dump();
}

std::optional<std::string> newest_checkpoint(const std::string& directory, Console& console) {
  std::vector<std::int64_t> iterations = list_iterations(directory);
  std::vector<std::string> problems;
  for (std::int64_t iteration : iterations) {
    try {
      check_sound(directory, iteration);
    } catch (const Error& error) {
      problems.push_back(error.what());
      continue;
    }
    for (const std::string& problem : problems)
      console.warn(cat("passing over a checkpoint that is not valid: ", problem));
    compare_tracker(directory, iteration, console);
    return cat(directory, "/", folder_of(iteration));
  }
  if (!problems.empty())
    fail(Exit::bad_data, directory, ": none of its ", problems.size(), " checkpoints is valid:\n  ",
         join(problems, "\n  "));
  return std::nullopt;
}

std::string commit_checkpoint(const std::string& directory, const GptConfig& config,
                              const std::vector<TensorToSave>& tensors, const TrainState& state,
                              const SaveOptions& options) {
  require(options.keep_last == 0 || options.keep_last >= 2, "--keep-last ", options.keep_last,
          ": at least 2 checkpoints are kept");
  make_directories(directory);
  remove_leftovers(directory);
  std::string temporary = cat(directory, "/", folder_of(state.iteration), ".tmp.", ::getpid());
  try {
    make_directories(temporary);
    Manifest manifest{config, state, {}, {}, {}};
    manifest.files.push_back(write_shard(temporary, tensors, manifest));
    if (options.add_files) options.add_files(temporary);
    for (const auto& entry : fs::directory_iterator(temporary)) {
      std::string name = entry.path().filename().string(), path = entry.path().string();
      if (name != kShardName) manifest.files.push_back({name, file_size(path), hash_text(hash_file(path))});
    }
    manifest.provenance = Json::object(
        {{"program", cat("mtl ", kVersion)}, {"command_line", options.command_line}, {"time", timestamp()}});
    write_manifest(temporary, manifest);
    sync_directory(temporary);
    put_in_place(temporary, directory, state.iteration);
  } catch (...) {
    std::error_code ignored;  // the first error is the one to tell; what is left here goes with the next save
    fs::remove_all(temporary, ignored);
    throw;
  }
  write_tracker(directory, state.iteration);
  remove_leftovers(directory);
  if (options.keep_last > 0) remove_old(directory, state.iteration, options.keep_last);
  return cat(directory, "/", folder_of(state.iteration));
}

void settle_complete_run(const std::string& directory, std::int64_t iteration) {
  std::vector<std::int64_t> iterations = list_iterations(directory);
  if (iterations.empty() || iterations.front() != iteration) return;
  if (parse_int(tracker_text(directory)) == iteration && list_leftovers(directory).empty()) return;
  SaveDirectory lock(directory);
  write_tracker(directory, iteration);
  remove_leftovers(directory);
}

SaveDirectory::SaveDirectory(std::string path) : path_(std::move(path)) {
  make_directories(path_);
  std::string lock = path_ + "/lock";
  // The kernel drops a flock with its owner's last descriptor, so that a dead owner's does not count; what the file
  // says is for people. It is no output, and stays open: hence not through base/files.
  lock_ = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock_ < 0) fail_errno(lock, "open");
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    int code = errno;
    ::close(std::exchange(lock_, -1));
    errno = code;
    if (code != EWOULDBLOCK) fail_errno(lock, "lock");
    fail(Exit::failure, path_, ": another job saves here (", trim(read_file(lock)),
         "); wait for it, end it, or save elsewhere");
  }
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  std::string owner = cat("pid ", ::getpid(), " on ", host, " since ", timestamp(), "\n");
  if (::ftruncate(lock_, 0) != 0 ||
      ::pwrite(lock_, owner.data(), owner.size(), 0) != static_cast<ssize_t>(owner.size())) {
    int code = errno;
    ::close(std::exchange(lock_, -1));
    errno = code;
    fail_errno(lock, "write");
  }
}

SaveDirectory::~SaveDirectory() {
  if (lock_ >= 0) ::close(lock_);
}

SaveDirectory::SaveDirectory(SaveDirectory&& other) noexcept
    : path_(std::move(other.path_)), lock_(std::exchange(other.lock_, -1)) {}

SaveDirectory& SaveDirectory::operator=(SaveDirectory&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(lock_, other.lock_);
  return *this;
}

std::string SaveDirectory::save(const GptConfig& config, const ParamStore& store, const TrainState& state,
                                const SaveOptions& options) const {
  std::vector<TensorToSave> tensors;
  auto add = [&](const char* prefix, int param, Tensor memory) {
    const ParamSpec& spec = store.specs()[static_cast<std::size_t>(param)];
    Slice slice = store.slice(param);
    auto bytes = static_cast<std::size_t>(slice.count()) * size_of(memory.dtype());  // padding rows stay out
    std::span<const std::byte> data(static_cast<const std::byte*>(memory.raw()), bytes);
    tensors.push_back(
        {{prefix + spec.name, stored_dtype_of(memory.dtype()), spec.shape}, std::move(slice), [data] { return data; }});
  };
  for (int i = 0; i < store.size(); ++i) add("param.", i, store.value(i));
  for (int i = 0; store.has_gradients() && i < store.size(); ++i) add("exp_avg.", i, store.exp_avg(i));
  for (int i = 0; store.has_gradients() && i < store.size(); ++i) add("exp_avg_sq.", i, store.exp_avg_sq(i));
  return commit_checkpoint(path_, config, tensors, state, options);
}

}  // namespace mtl
