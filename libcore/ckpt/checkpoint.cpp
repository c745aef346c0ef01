#include "ckpt/checkpoint.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/files.h"
#include "ckpt/checkpoint_folder.h"
#include "ckpt/manifest.h"
#include "ckpt/rank_outcome.h"
#include "ckpt/shard_writer.h"
#include "version.h"

namespace mtl {

namespace {

/// The folder where ranks write until it is committed.
std::string make_temporary(const std::string& directory, std::int64_t iteration, const SaveOptions& options) {
  require(options.keep_last == 0 || options.keep_last >= 2, "--keep-last ", options.keep_last,
          ": at least 2 checkpoints are kept");
  require(options.block_bytes > 0, "checkpoints in blocks of ", options.block_bytes, " bytes");
  make_directories(directory);
  remove_leftovers(directory);
  std::string temporary = cat(directory, "/", folder_of(iteration), ".tmp.", ::getpid());
  make_directories(temporary);
  return temporary;
}

/// Adds the files beside the shards, then the manifest: the last file of a checkpoint.
void complete_folder(const std::string& folder, Manifest& manifest, const SaveOptions& options) {
  if (options.add_files) options.add_files(folder);
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::string name = entry.path().filename().string(), path = entry.path().string();
    if (manifest.find_file(name) == nullptr)
      manifest.files.push_back({name, file_size(path), hash_text(hash_file(path))});
  }
  manifest.provenance =
      Json::object({{"program", cat("mtl ", kVersion)}, {"command_line", options.command_line}, {"time", timestamp()}});
  OutputFile out(cat(folder, "/", kManifestName));
  out.write(manifest_text(manifest));
  out.sync();
  out.close();
  sync_directory(folder);
}

}  // namespace

bool TrainState::operator==(const TrainState& other) const {
  return iteration == other.iteration && consumed_samples == other.consumed_samples &&
         consumed_valid_samples == other.consumed_valid_samples && optimizer_steps == other.optimizer_steps &&
         skipped_iterations == other.skipped_iterations && loss_scale == other.loss_scale &&
         extra.dump() == other.extra.dump();
}

std::string commit_checkpoint(const std::string& directory, const CheckpointContent& content,
                              const SaveOptions& options, Communicator& world, Stream& stream) {
  const std::int64_t iteration = content.state.iteration;
  std::string temporary =
      work_on_first_rank(world, stream, [&] { return make_temporary(directory, iteration, options); });
  std::vector<Outcome> shards = work_on_every_rank(world, stream, [&] {
    return manifest_part_text(write_shard(temporary, world.rank(), content.tensors, options.block_bytes));
  });
  return work_on_first_rank(world, stream, [&] {
    try {
      Manifest manifest{content.config, content.state, {}, {}, {}, options.block_bytes};
      join_manifest_parts(manifest, answers_of(shards));
      complete_folder(temporary, manifest, options);
      put_in_place(temporary, directory, iteration);
    } catch (...) {
      std::error_code ignored;  // the first error is the one to tell; what is left here goes with the next save
      fs::remove_all(temporary, ignored);
      throw;
    }
    write_tracker(directory, iteration);
    remove_leftovers(directory);
    if (options.keep_last > 0) remove_old(directory, iteration, options.keep_last);
    return cat(directory, "/", folder_of(iteration));
  });
}

void settle_complete_run(const std::string& directory, std::int64_t iteration) {
  std::vector<std::int64_t> iterations = list_iterations(directory);
  if (iterations.empty() || iterations.front() != iteration) return;
  if (parse_int(tracker_text(directory)) == iteration && list_leftovers(directory).empty()) return;
  SaveDirectory lock(directory);
  write_tracker(directory, iteration);
  remove_leftovers(directory);
}

SaveDirectory::SaveDirectory(std::string path) : path_(std::move(path)) { lock(); }

SaveDirectory::SaveDirectory(std::string path, Communicator& world, Stream& stream) : path_(std::move(path)) {
  work_on_first_rank(world, stream, [&] {
    lock();
    return std::string();
  });
}

void SaveDirectory::lock() {
  make_directories(path_);
  std::string file = path_ + "/lock";
  // The kernel drops a flock with its owner's last descriptor, so that a dead owner's does not count; what the file
  // says is for people. It is no output, and stays open: hence not through base/files.
  lock_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock_ < 0) fail_errno(file, "open");
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    int code = errno;
    ::close(std::exchange(lock_, -1));
    errno = code;
    if (code != EWOULDBLOCK) fail_errno(file, "lock");
    fail(Exit::failure, path_, ": another job saves here (", trim(read_file(file)),
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
    fail_errno(file, "write");
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
                                const SaveOptions& options, const ProcessGroups& groups, Stream& stream) const {
  CheckpointContent content{config, state, tensors_to_save(store, groups)};
  return commit_checkpoint(path_, content, options, *groups.world, stream);
}

}  // namespace mtl
