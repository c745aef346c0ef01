// WriteActivity: tells waiting ranks what a process is writing.
#include "base/write_activity.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/files.h"
#include "tests/scratch_folder.h"

using namespace mtl;

namespace {

/// Counts the calls that may take long, and how many of these run outside a WriteCall.
struct LongCalls {
  int all = 0, outside = 0;

  void add() {
    ++all;
    outside += !write_activity().in_call;
  }
};

LongCalls* observed = nullptr;

WriteActivity in_call_for(double seconds) {
  return {.path = "f", .in_call = true, .call_seconds = seconds, .idle_seconds = 0, .bytes = 0, .seconds = seconds};
}
WriteActivity idle_for(double seconds) {
  return {.path = "f", .in_call = false, .call_seconds = 0, .idle_seconds = seconds, .bytes = 1 << 20, .seconds = 60};
}

}  // namespace

extern "C" int fsync(int descriptor) {
  if (observed != nullptr) observed->add();
  return static_cast<int>(::syscall(SYS_fsync, descriptor));
}

extern "C" int rename(const char* from, const char* to) noexcept {
  if (observed != nullptr) observed->add();
  return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

extern "C" int renameat2(int from_folder, const char* from, int to_folder, const char* to,
                         unsigned int flags) noexcept {
  if (observed != nullptr) observed->add();
  return static_cast<int>(::syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
}

extern "C" ssize_t write(int descriptor, const void* data, std::size_t bytes) {
  if (observed != nullptr) observed->add();
  return ::syscall(SYS_write, descriptor, data, bytes);
}

extern "C" int unlinkat(int folder, const char* name, int flags) noexcept {
  if (observed != nullptr) observed->add();
  return static_cast<int>(::syscall(SYS_unlinkat, folder, name, flags));
}

TEST_CASE("write activity: a call counts as progress for ten minutes, then as hung") {
  CHECK(write_state({}, 600) == WriteState::none);
  for (double patience : {1., 600., 3600.}) {
    CHECK(write_state(in_call_for(0), patience) == WriteState::progresses);
    CHECK(write_state(in_call_for(599), patience) == WriteState::progresses);
    CHECK(write_state(in_call_for(601), patience) == WriteState::hangs);
  }
}

TEST_CASE("write activity: a rank between two calls counts as writing, after a pause it does not") {
  CHECK(write_state(idle_for(.5), 600) == WriteState::progresses);
  CHECK(write_state(idle_for(kWritePause + 1), 600) == WriteState::none);
  CHECK(write_state(idle_for(.5), .4) == WriteState::none);  // the waiting rank is less patient
}

TEST_CASE("write activity: reports the bytes of an output and the time spent on them") {
  test::ScratchFolder folder;
  const std::string path = folder.path() + "/f";
  OutputFile file(path);
  const WriteActivity before = write_activity();
  file.write(std::string(100000, 'x'));
  const WriteActivity between = write_activity();
  CHECK(between.path == path);
  CHECK(!between.in_call);
  CHECK(between.idle_seconds < 60);
  CHECK(between.bytes == before.bytes + 100000);
  CHECK(between.seconds >= before.seconds);
  file.close();
  {
    WriteCall outer(path);
    WriteCall inner("another");  // the outermost call counts
    CHECK(write_activity().in_call);
    CHECK(write_activity().path == path);
    CHECK(write_activity().idle_seconds == 0);
    CHECK(write_state(write_activity(), 600) == WriteState::progresses);
  }
  CHECK(!write_activity().in_call);
}

TEST_CASE("write activity: covers every call that may take long") {
  test::ScratchFolder folder;
  LongCalls found;
  observed = &found;
  make_directories(folder / "a");
  OutputFile file(folder / "a/f");
  file.write("x");
  file.sync();
  file.close();
  make_directories(folder / "b");
  publish(folder / "a", folder / "b", true);
  rename_path(folder / "b", folder / "c");
  sync_directory(folder.path());
  remove_tree(folder / "c");
  observed = nullptr;
  CHECK(found.all >= 6);
  CHECK(found.outside == 0);
}
