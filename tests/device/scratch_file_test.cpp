// Files without a name: their bytes, the pages that they leave in the page cache, and faults. Not among the tests of
// base, one of which replaces sync_file_range().
#include <doctest/doctest.h>

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/fault_plan.h"
#include "base/files.h"
#include "base/scratch_file.h"
#include "tests/cached_bytes.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

using namespace mtl;
using namespace mtl::test;

namespace {

constexpr std::uint64_t kBytes = (20 << 20) + 100;

std::vector<std::byte> numbered(std::size_t bytes) {
  std::vector<std::byte> out(bytes);
  for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>(i * 7 + i / 4096);
  return out;
}

/// Returns the path through which a process reaches its open file in `folder`, or "".
std::string open_path(const std::string& folder) {
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string target = fs::read_symlink(entry.path(), error).string();
    if (!error && contains(target, folder)) return entry.path().string();
  }
  return "";
}

}  // namespace

TEST_CASE("a file without a name: returns what was written, and leaves nothing in its folder or the page cache") {
  ScratchFolder scratch;
  ScratchFile file("--flag x", scratch.path(), kBytes);
  CHECK(fs::is_empty(scratch.path()));
  CHECK(cached_bytes(file.descriptor()) == 0);
  std::vector<std::byte> got(1000, std::byte{1});
  file.read(5, got);
  CHECK(got == std::vector<std::byte>(1000));
  const std::vector<std::byte> written = numbered(kBytes - 3);
  file.write(3, written);
  CHECK(cached_bytes(file.descriptor()) <= (16 << 20) + 4096 * 2);  // one part is being written back, one is written
  file.settle(3, written.size());
  CHECK(cached_bytes(file.descriptor()) == 0);
  got.resize(written.size());
  file.read(3, got);
  CHECK(got == written);
  CHECK(cached_bytes(file.descriptor()) == 0);
  file.read_ahead(0, 1 << 20);
  CHECK(cached_bytes(file.descriptor()) <= 1 << 20);
}

TEST_CASE("a file without a name: outlives its folder") {
  ScratchFolder scratch;
  fs::create_directory(scratch / "folder");
  ScratchFile file("--flag x", scratch / "folder", kBytes);
  REQUIRE(fs::remove(scratch / "folder"));
  std::vector<std::byte> data = numbered(5000), got(5000);
  file.write(1000, data);
  file.settle(1000, data.size());
  file.read(1000, got);
  CHECK(got == data);
}

TEST_CASE("a file without a name: faults name the label, what failed and the remedy") {
  ScratchFolder scratch;
  const auto create = [&](const std::string& folder) { ScratchFile("--flag x", folder, kBytes); };
  CHECK(error_of([&] { create(scratch / "none"); }, Exit::io) ==
        "--flag x: cannot create a file there: No such file or directory; create the folder, or choose another one");
  write_file_atomic(scratch / "file", "");
  CHECK(contains(error_of([&] { create(scratch / "file"); }, Exit::io), "; create the folder, or choose another one"));
  const auto fails = [&](const std::string& fault, const auto& work) {
    ScratchFile file("--flag x", scratch.path(), kBytes);
    plan_faults(fault);
    const std::string message = error_of([&] { work(file); }, Exit::io);
    plan_faults("");
    return std::pair(message, error_of([&] {
                       std::vector<std::byte> got(10);
                       file.read(0, got);
                     }));
  };
  plan_faults("enospc:2");  // after the file is created
  CHECK(error_of([&] { create(scratch.path()); }, Exit::io) ==
        "--flag x: cannot reserve 20.0 MiB: No space left on device; free some space on that disk, or choose a folder "
        "on another one");
  plan_faults("");
  const std::vector<std::byte> data = numbered(1000);
  const auto write = [&](ScratchFile& file) { file.write(0, data); };
  const auto settle = [&](ScratchFile& file) {
    file.write(0, data);
    file.settle(0, data.size());
  };
  // Later calls name the first cause.
  const std::string lost =
      "--flag x: cannot write to a file: Input/output error; check the disk, or choose a folder on another one";
  CHECK(fails("eio:1", write) == std::pair(lost, lost));
  CHECK(fails("enospc:1", write).first ==
        "--flag x: cannot write to a file: No space left on device; free some space on that disk, or choose a folder "
        "on another one");
  CHECK(fails("eio:2", settle).second == lost);
  for (const char* harmless : {"short:1", "eintr:1"})
    CHECK(fails(harmless, settle) == std::pair(std::string(), std::string()));
}

TEST_CASE("a file without a name: short writes are continued, and a truncated file is an error") {
  ScratchFolder scratch;
  ScratchFile file("--flag x", scratch.path(), kBytes);
  const std::vector<std::byte> data = numbered(100000);
  plan_faults("short:1,short:2,eintr:3");
  file.write(10, data);
  plan_faults("");
  std::vector<std::byte> got(data.size());
  file.read(10, got);
  CHECK(got == data);
  REQUIRE(::truncate(open_path(scratch.path()).c_str(), 50000) == 0);
  CHECK(error_of([&] { file.read(10, got); }, Exit::io) == "--flag x: a file of this run was truncated; start again");
}
