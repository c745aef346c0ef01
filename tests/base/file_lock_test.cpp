// One process holds a lock file at a time, and names itself in it.
#include "base/file_lock.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "base/files.h"

using namespace mtl;

namespace {

std::string scratch_folder() {
  std::string pattern = (fs::temp_directory_path() / "mtl-lock-XXXXXX").string();
  require(::mkdtemp(pattern.data()) != nullptr, "no scratch folder");
  return pattern;
}

}  // namespace

TEST_CASE("file lock: one holder, named; released with its object") {
  std::string folder = scratch_folder(), path = folder + "/lock", owner;
  auto first = FileLock::take(path, &owner);
  REQUIRE(first);
  CHECK_FALSE(FileLock::take(path, &owner));
  CHECK(owner.starts_with(cat("pid ", ::getpid(), " on ")));
  FileLock moved = std::move(*first);
  first.reset();
  CHECK_FALSE(FileLock::take(path, &owner));
  { FileLock last = std::move(moved); }
  CHECK(FileLock::take(path, &owner));
  fs::remove_all(folder);
}

TEST_CASE("file lock: holders that remove their file never meet") {
  std::string folder = scratch_folder(), path = folder + "/lock";
  std::atomic<int> inside = 0, met = 0, taken = 0;
  auto contend = [&] {
    std::string owner;
    while (taken < 3000) {
      auto lock = FileLock::take(path, &owner);
      if (!lock) continue;
      if (++inside > 1) ++met;
      std::this_thread::yield();
      --inside;
      ++taken;
      ::unlink(path.c_str());
    }
  };
  std::thread other(contend);
  contend();
  other.join();
  CHECK(met == 0);
  std::string owner;
  CHECK_THROWS_AS(FileLock::take(folder + "/absent/lock", &owner), Error);
  fs::remove_all(folder);
}
