// What a crash of the host must not undo: no complete copy of a checkpoint is removed before the names that stay are on
// disk. Renames, syncs and removals are seen on their way to the kernel.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <set>

#include "ckpt_fixtures.h"

using namespace mtl;
using namespace mtl::test;

namespace {

/// Counts removals of complete checkpoints under temporary names, and those before the folder above was synced.
struct SyncOrder {
  std::set<std::string> synced;  // folders without a change of names since
  int removed = 0, early = 0;

  void renamed(const std::string& path) { synced.erase(fs::path(path).parent_path().string()); }
  void removes(const fs::path& path) {
    const std::string checkpoint = path.parent_path().filename().string();
    // Of remove_old's iter_N.tmp.old.PID newer copies exist.
    if (path.filename() != "manifest.json" || checkpoint.find(".tmp.") == std::string::npos) return;
    if (checkpoint.find(".old.") != std::string::npos) return;
    ++removed;
    early += synced.count(path.parent_path().parent_path().string()) == 0;
  }
};

SyncOrder* observed = nullptr;

std::string path_of(int descriptor) {
  std::error_code none;
  return fs::read_symlink(cat("/proc/self/fd/", descriptor), none).string();
}

}  // namespace

extern "C" int fsync(int descriptor) {
  const auto result = static_cast<int>(::syscall(SYS_fsync, descriptor));
  if (observed != nullptr && result == 0) observed->synced.insert(path_of(descriptor));
  return result;
}

extern "C" int rename(const char* from, const char* to) noexcept {
  if (observed != nullptr) observed->renamed(from), observed->renamed(to);
  return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

extern "C" int renameat2(int from_folder, const char* from, int to_folder, const char* to,
                         unsigned int flags) noexcept {
  if (observed != nullptr) observed->renamed(from), observed->renamed(to);
  return static_cast<int>(::syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
}

extern "C" int unlinkat(int folder, const char* name, int flags) noexcept {
  if (observed != nullptr) observed->removes(fs::path(path_of(folder)) / name);
  return static_cast<int>(::syscall(SYS_unlinkat, folder, name, flags));
}

TEST_CASE("checkpoint: a complete copy is removed only after the names that stay are synced") {
  ScratchFolder scratch;
  const std::string directory = fs::canonical(scratch.path()).string() + "/s";
  TestStore model(tiny_config());
  const auto save = [&](int iteration) {
    fill(model.store, static_cast<float>(iteration));
    save_alone(SaveDirectory(directory), tiny_config(), model.store, state_at(iteration), {});
  };
  save(2);
  save(3);
  // As a save leaves it that fails after the exchange of names: this may be the only copy that a crash leaves.
  fs::copy(directory + "/iter_0000003", directory + "/iter_0000003.tmp.77", fs::copy_options::recursive);
  SyncOrder order;
  observed = &order;
  save(3);
  save(4);
  observed = nullptr;
  CHECK(order.removed == 2);  // the copy above, and the checkpoint that was replaced
  CHECK(order.early == 0);
  CHECK(order.synced.count(directory) == 1);
}
