// InterruptGuard: a signal that ends a tool leaves none of its unfinished files and lock files.
#include "base/interrupt_guard.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "base/files.h"
#include "base/output_lock.h"
#include "tests/scratch_folder.h"

using namespace mtl;

namespace {

std::vector<std::string> names_in(const test::ScratchFolder& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder.path())) names.push_back(entry.path().filename().string());
  return names;
}

/// A stderr that accepts no more bytes, so that the guard's message keeps its thread busy after the removal.
class FullStderr {
 public:
  FullStderr() {
    REQUIRE(::pipe(ends_) == 0);
    ::fcntl(ends_[1], F_SETFL, O_NONBLOCK);
    while (::write(ends_[1], "x", 1) == 1) {
    }
    ::fcntl(ends_[1], F_SETFL, 0);
  }
  /// Makes it this process's stderr.
  void use() {
    ::dup2(ends_[1], STDERR_FILENO);
    close();
  }
  /// Closes this process's ends, so that writers in another process fail.
  void close() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }

 private:
  int ends_[2];
};

}  // namespace

TEST_CASE("interrupt guard: nothing is created once a signal's removal has begun") {
  struct Case {
    std::string what;
    std::function<void(const test::ScratchFolder&, InterruptGuard&)> create;
  };
  const Case cases[] = {{"a file", [](const auto& folder, InterruptGuard&) { OutputFile(folder / "file"); }},
                        {"a folder", [](const auto& folder, InterruptGuard&) { make_directories(folder / "folder"); }},
                        {"a lock file", [](const auto& folder, InterruptGuard& guard) {
                           const OutputLock lock(folder / "out", guard);
                           std::_Exit(0);
                         }}};
  for (const Case& at : cases) {
    CAPTURE(at.what);
    const test::ScratchFolder folder;
    FullStderr full;
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      full.use();
      InterruptGuard guard("test");
      for (const char* name : {"first", "file", "folder"}) guard.remove_on_signal(folder / name);
      OutputFile(folder / "first");
      ::kill(::getpid(), SIGTERM);
      while (file_exists(folder / "first")) std::this_thread::yield();
      at.create(folder, guard);
      std::_Exit(0);
    }
    int status = 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // in which the child would create it
    full.close();
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status));
    CHECK(names_in(folder).empty());
  }
}

TEST_CASE("interrupt guard: a signal after the output is complete removes the lock file only") {
  const test::ScratchFolder folder;
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    REQUIRE(std::freopen("/dev/null", "w", stderr) != nullptr);
    InterruptGuard guard("test");
    const OutputLock lock(folder / "out", guard);
    write_file_atomic(folder / "out.npy", "content", &guard);
    ::kill(::getpid(), SIGTERM);
    ::pause();
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WTERMSIG(status) == SIGTERM);
  CHECK(names_in(folder) == std::vector<std::string>{"out.npy"});
}

TEST_CASE("interrupt guard: a signal that arrives while the guard ends is not lost") {
  for (int i = 0; i < 10; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(STDERR_FILENO);
      auto guard = std::make_unique<InterruptGuard>("tool");
      std::unique_lock deferred = guard->defer_signals();
      std::thread ends([&] { guard.reset(); });  // waits for the lock, and gets it before the guard's thread
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      ::kill(::getpid(), SIGTERM);
      for (sigset_t pending; ::sigpending(&pending) == 0 && ::sigismember(&pending, SIGTERM) == 1;)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      deferred.unlock();
      ends.join();
      ::_exit(0);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == SIGTERM);
  }
}
