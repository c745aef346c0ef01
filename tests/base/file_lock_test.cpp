// FileLock: at most one process holds a lock file, and the file identifies that process.
#include "base/file_lock.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>

#include "base/console.h"
#include "base/files.h"
#include "tests/scratch_folder.h"

using namespace mtl;

TEST_CASE("file lock: has one named holder, and is released with its object") {
  const test::ScratchFolder folder;
  const std::string path = folder / "lock";
  std::string owner;
  auto first = FileLock::take(path, &owner);
  REQUIRE(first);
  CHECK_FALSE(FileLock::take(path, &owner));
  CHECK(owner.starts_with(cat("pid ", ::getpid(), " on ")));
  first.reset();
  CHECK(FileLock::take(path, &owner));
}

TEST_CASE("file lock: holders that remove their file never overlap") {
  const test::ScratchFolder folder;
  const std::string path = folder / "lock";
  std::atomic<int> inside = 0, overlaps = 0, taken = 0;
  auto contend = [&] {
    std::string owner;
    while (taken < 300) {
      auto lock = FileLock::take(path, &owner);
      if (!lock) continue;
      if (++inside > 1) ++overlaps;
      std::this_thread::yield();
      --inside;
      ++taken;
      ::unlink(path.c_str());
    }
  };
  std::thread rival(contend);
  contend();
  rival.join();
  CHECK(overlaps == 0);
  std::string owner;
  CHECK_THROWS_AS(FileLock::take(folder / "absent/lock", &owner), Error);
}

TEST_CASE("file lock: refuses the file of another program, takes an empty or abandoned lock") {
  const test::ScratchFolder folder;
  const std::string path = folder / "lock";
  std::string owner;
  using namespace std::string_literals;
  for (const std::string& text : {"# poetry\n"s, "x"s, "pid"s, "\n\n[package]\n"s}) {
    CAPTURE(text);
    OutputFile out(path);
    out.write(text);
    out.close();
    CHECK_THROWS_WITH_AS(FileLock::take(path, &owner), doctest::Contains("is not an mtl lock file"), Error);
    CHECK(read_file(path) == text);
  }
  for (const std::string& text : {""s, "\n"s, "\0\0\0\0"s, "pid 7 on elsewhere"s}) {
    CAPTURE(text);
    OutputFile out(path);
    out.write(text);
    out.close();
    CHECK(FileLock::take(path, &owner));
  }
}

TEST_CASE("file lock: a holder on another machine counts while it beats, if locks are local to each machine") {
  // The kernel grants the lock because no local process holds it. The file's contents imitate a holder on another
  // machine.
  const test::ScratchFolder folder;
  const std::string path = folder / "lock";
  const FileLockTimes times{.beat = 0.1, .patience = 1};
  auto write = [&](const std::string& text) {
    OutputFile out(path);
    out.write(text);
    out.close();
  };
  auto seconds_to_take = [&] {
    std::string owner;
    const double began = now_seconds();
    REQUIRE(FileLock::take(path, &owner, times));
    return now_seconds() - began;
  };
  const std::string other = "pid 7 on elsewhere since 2026-01-01 00:00:00, boot 1234", dead = other + ", beat 5\n";
  std::atomic<bool> stop = false;
  write(other);
  std::thread beater([&] {
    for (int beat = 0; !stop; ++beat) {
      // In one call and without truncating: an empty file has no owner.
      std::fstream(path, std::ios::in | std::ios::out) << cat(other, ", beat ", beat, "\n");
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  std::string owner;
  CHECK_FALSE(FileLock::take(path, &owner, times));
  CHECK(owner == "pid 7 on elsewhere since 2026-01-01 00:00:00");
  stop = true;
  beater.join();
  write(dead);
  CHECK(seconds_to_take() >= 1);
  CHECK(file_size(path) == 0);  // released: no owner
  CHECK(seconds_to_take() < 1);
  // Does not wait for a dead process on this machine, whether it died before or after a reboot.
  auto own = FileLock::take(path, &owner, times);
  const std::string held = read_file(path), host = held.substr(0, held.find(" since "));
  own.reset();
  write(held);
  CHECK(seconds_to_take() < 1);
  write(host + " since 2026-01-01 00:00:00, boot 1234, beat 5\n");
  CHECK(seconds_to_take() < 1);
}

TEST_CASE("file lock: a holder detects that another process took over") {
  const test::ScratchFolder folder;
  const std::string path = folder / "lock";
  std::string owner;
  auto lock = FileLock::take(path, &owner, {.beat = 0.05, .patience = 1});
  REQUIRE(lock);
  const std::string first = read_file(path);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  CHECK(read_file(path) != first);  // the holder updates it
  CHECK_NOTHROW(lock->check_held());
  fs::remove(path);
  CHECK_NOTHROW(lock->check_held());  // no other process holds it
  OutputFile out(path);
  out.write("pid 7 on elsewhere since 2026-01-01 00:00:00, boot 1234, beat 5\n");
  out.close();
  CHECK_THROWS_WITH_AS(lock->check_held(), doctest::Contains("after the file had been removed or replaced"), Error);
}
