// One process holds a lock file at a time, and names itself in it.
#include "base/file_lock.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "base/console.h"
#include "base/files.h"
#include "tests/scratch_folder.h"

using namespace mtl;

TEST_CASE("file lock: one holder, named; released with its object") {
  const test::ScratchFolder folder;
  const std::string path = folder / "lock";
  std::string owner;
  auto first = FileLock::take(path, &owner);
  REQUIRE(first);
  CHECK_FALSE(FileLock::take(path, &owner));
  CHECK(owner.starts_with(cat("pid ", ::getpid(), " on ")));
  FileLock moved = std::move(*first);
  first.reset();
  CHECK_FALSE(FileLock::take(path, &owner));
  { FileLock last = std::move(moved); }
  CHECK(FileLock::take(path, &owner));
}

TEST_CASE("file lock: holders that remove their file never meet") {
  const test::ScratchFolder folder;
  const std::string path = folder / "lock";
  std::atomic<int> inside = 0, met = 0, taken = 0;
  auto contend = [&] {
    std::string owner;
    while (taken < 300) {
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
  CHECK_THROWS_AS(FileLock::take(folder / "absent/lock", &owner), Error);
}

TEST_CASE("file lock: a file of another program is not taken for a lock") {
  const test::ScratchFolder folder;
  const std::string path = folder / "lock";
  std::string owner;
  using namespace std::string_literals;
  for (const std::string& text : {"# poetry\n"s, "x"s, "pid"s, "\n\n[package]\n"s}) {
    CAPTURE(text);
    OutputFile out(path);
    out.write(text);
    out.close();
    CHECK_THROWS_WITH_AS(FileLock::take(path, &owner), doctest::Contains("is not a lock of mtl"), Error);
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

TEST_CASE("file lock: the holder on another machine counts as long as it beats, where locks are each machine's own") {
  // The kernel grants the lock: no process here holds it. The content is what a holder on another machine writes.
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
  std::thread beater([&] {
    for (int beat = 0; !stop; ++beat) {
      write(cat(other, ", beat ", beat, "\n"));
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
  // A process of this machine that died, before or after the machine was started again, is not waited for.
  std::optional<FileLock> own = FileLock::take(path, &owner, times);
  const std::string mine = read_file(path), host = mine.substr(0, mine.find(" since "));
  own.reset();
  write(mine);
  CHECK(seconds_to_take() < 1);
  write(host + " since 2026-01-01 00:00:00, boot 1234, beat 5\n");
  CHECK(seconds_to_take() < 1);
}

TEST_CASE("file lock: a holder notices that another one took over") {
  const test::ScratchFolder folder;
  const std::string path = folder / "lock";
  std::string owner;
  auto lock = FileLock::take(path, &owner, {.beat = 0.05, .patience = 1});
  REQUIRE(lock);
  const std::string first = read_file(path);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  CHECK(read_file(path) != first);  // it beats
  CHECK_NOTHROW(lock->check_held());
  fs::remove(path);
  CHECK_NOTHROW(lock->check_held());  // no other process holds it
  OutputFile out(path);
  out.write("pid 7 on elsewhere since 2026-01-01 00:00:00, boot 1234, beat 5\n");
  out.close();
  CHECK_THROWS_AS(lock->check_held(), Error);
}
