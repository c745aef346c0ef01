// A tool's output files: only one run can write them at a time, and errors identify the holder or the folder.
#include "base/output_lock.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include "base/files.h"
#include "tests/scratch_folder.h"

using namespace mtl;

namespace {

/// Tries to take the lock; returns the error, or "".
std::string error_of_lock(const std::string& prefix, InterruptGuard& guard) {
  try {
    OutputLock lock(prefix, guard);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("output lock: a second run is refused with the name of the holder, and the file disappears with its holder") {
  const test::ScratchFolder folder;
  const std::string prefix = folder / "out";
  InterruptGuard guard("test");
  {
    OutputLock first(prefix, guard);
    OutputLock moved = std::move(first);
    CHECK(moved.path() == OutputLock::path_of(prefix));
    CHECK(
        error_of_lock(prefix, guard).starts_with(cat(prefix, ": another run writes there (pid ", ::getpid(), " on ")));
    CHECK(error_of_lock(prefix, guard).find("boot") == std::string::npos);
  }
  CHECK_FALSE(file_exists(OutputLock::path_of(prefix)));
  CHECK(error_of_lock(prefix, guard).empty());
  CHECK(
      error_of_lock(folder / "absent/out", guard) ==
      cat(folder / "absent", ": cannot create files here: No such file or directory; choose another --output-prefix"));
}

TEST_CASE("error: keeps the place apart from the message") {
  const Error plain(Exit::io, "no place");
  CHECK(plain.where().empty());
  CHECK(plain.message() == "no place");
  const Error placed(Exit::bad_data, "a.idx", "is cut");
  CHECK(placed.what() == std::string("a.idx: is cut"));
  CHECK(placed.where() == "a.idx");
  CHECK(placed.message() == "is cut");
}
