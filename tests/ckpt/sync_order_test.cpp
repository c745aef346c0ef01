// Write order for surviving a host crash: a checkpoint gets its name only after its contents are on disk, and the
// tracker refers to it only after this name is on disk. No complete copy is removed before the remaining names are on
// disk. Intercepts renames, syncs and removals.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <set>

#include "ckpt_fixtures.h"
#include "train/start.h"

using namespace mtl;
using namespace mtl::test;

namespace {

/// Counts three events: a checkpoint appears, the tracker starts to refer to one, and a complete checkpoint under a
/// temporary name is removed. An event is early if it happens before the syncs it requires.
struct SyncOrder {
  std::set<std::string> synced;  // files, and folders unchanged since they were synced
  int appeared = 0, appeared_early = 0;
  int named = 0, named_early = 0;
  int removed = 0, removed_early = 0;
  int renamed_early = 0;  // files

  void on_rename(const fs::path& from, const fs::path& to) {
    if (fs::is_directory(from)) {
      ++appeared;
      appeared_early += synced.count(from.string()) == 0;
      for (const auto& file : fs::directory_iterator(from)) appeared_early += synced.count(file.path().string()) == 0;
    } else if (to.filename() == "latest_checkpointed_iteration.txt") {
      ++named;
      named_early += synced.count(to.parent_path().string()) == 0;
    }
    renamed_early += fs::is_regular_file(from) && synced.count(from.string()) == 0;
    for (const fs::path& path : {from, to}) synced.erase(path.parent_path().string());
  }
  void on_remove(const fs::path& path) {
    const std::string checkpoint = path.parent_path().filename().string();
    // Ignores remove_old's iter_N.tmp.old.PID, because newer copies exist.
    if (path.filename() != "manifest.json" || checkpoint.find(".tmp.") == std::string::npos) return;
    if (checkpoint.find(".old.") != std::string::npos) return;
    ++removed;
    removed_early += synced.count(path.parent_path().parent_path().string()) == 0;
  }
};

SyncOrder* observed = nullptr;

std::string path_of(int descriptor) {
  std::error_code ignored;
  return fs::read_symlink(cat("/proc/self/fd/", descriptor), ignored).string();
}

}  // namespace

extern "C" int fsync(int descriptor) {
  const auto result = static_cast<int>(::syscall(SYS_fsync, descriptor));
  if (observed != nullptr && result == 0) observed->synced.insert(path_of(descriptor));
  return result;
}

extern "C" int rename(const char* from, const char* to) noexcept {
  if (observed != nullptr) observed->on_rename(from, to);
  return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

extern "C" int renameat2(int from_folder, const char* from, int to_folder, const char* to,
                         unsigned int flags) noexcept {
  if (observed != nullptr) observed->on_rename(from, to);
  return static_cast<int>(::syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
}

extern "C" int unlinkat(int folder, const char* name, int flags) noexcept {
  if (observed != nullptr) observed->on_remove(fs::path(path_of(folder)) / name);
  return static_cast<int>(::syscall(SYS_unlinkat, folder, name, flags));
}

namespace {

/// Saves the checkpoint of an iteration.
void save(const std::string& directory, int iteration) {
  TestParams model(tiny_config());
  fill(model.params, static_cast<float>(iteration));
  save_alone(SaveDirectory(directory), tiny_config(), model.params, state_at(iteration), {});
}

}  // namespace

TEST_CASE("checkpoint: names are synced after their content, and removals follow the names") {
  ScratchFolder scratch;
  const std::string directory = fs::canonical(scratch.path()).string() + "/s";
  save(directory, 2);
  save(directory, 3);
  // Imitates a save that failed after exchanging the names. A crash may leave no other copy.
  fs::copy(directory + "/iter_0000003", directory + "/iter_0000003.tmp.77", fs::copy_options::recursive);
  SyncOrder order;
  observed = &order;
  save(directory, 3);
  SelfCommunicator alone;
  SaveDirectory(directory).replace_state(state_at(3), 0, alone);
  save(directory, 4);
  observed = nullptr;
  CHECK(order.appeared == 2);
  CHECK(order.appeared_early == 0);
  CHECK(order.renamed_early == 0);
  CHECK(order.named == 2);
  CHECK(order.named_early == 0);
  CHECK(order.removed == 2);  // the copy above, and the replaced checkpoint
  CHECK(order.removed_early == 0);
  CHECK(order.synced.count(directory) == 1);
}

TEST_CASE("start: the tracker refers to an earlier checkpoint only once the later ones have other names on disk") {
  ScratchFolder scratch;
  const std::string directory = fs::canonical(scratch.path()).string() + "/s";
  for (int iteration : {2, 3, 4}) save(directory, iteration);
  TrainOptions options;
  options.checkpoint.save = directory;
  Console console = quiet_console();
  console.silent = true;
  SelfCommunicator alone;
  SyncOrder order;
  observed = &order;
  adopt_start({.folder = directory + "/iter_0000002", .kind = "checkpoint", .iteration = 2, .is_rollback = true},
              options, alone, console);
  observed = nullptr;
  CHECK(list_iterations(directory) == std::vector<std::int64_t>{2});
  CHECK(order.named == 1);
  CHECK(order.named_early == 0);
}
