// Files appear under their final name only when complete, and never replace certain paths.
#include "base/files.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <thread>
#include <utility>
#include <vector>

#include "base/file_lock.h"
#include "base/json.h"
#include "tests/error_of.h"
#include "tests/lfs_pointer.h"
#include "tests/scratch_folder.h"

using namespace mtl;

namespace {

std::vector<std::pair<off_t, off_t>>* observed_ranges = nullptr;  // (offset, bytes)

/// Counts the files and folders directly in `folder`.
std::size_t entries(const test::ScratchFolder& folder) {
  return std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator());
}

}  // namespace

extern "C" int sync_file_range(int, off_t offset, off_t bytes, unsigned int) {
  if (observed_ranges != nullptr) observed_ranges->emplace_back(offset, bytes);
  return 0;
}

TEST_CASE("files: write-back of an appended file counts from the file's beginning") {
  constexpr off_t kWriteBack = 256 << 20;
  test::ScratchFolder folder;
  write_file_atomic(folder / "log", "");
  fs::resize_file(folder / "log", kWriteBack - 4);  // sparse
  std::vector<std::pair<off_t, off_t>> ranges;
  observed_ranges = &ranges;
  OutputFile file(folder / "log", true);
  file.write("123");
  CHECK(ranges.empty());
  file.write("45678");
  observed_ranges = nullptr;
  CHECK(ranges == std::vector<std::pair<off_t, off_t>>{{0, kWriteBack}});
  CHECK(file.bytes() == 8);
}

TEST_CASE("files: an atomic file appears at commit or not at all") {
  test::ScratchFolder folder;
  {
    AtomicFile file(folder / "a");
    file.write("half");
    CHECK_FALSE(file_exists(folder / "a"));
  }
  CHECK(entries(folder) == 0);
  write_file_atomic(folder / "a", "whole");
  CHECK(read_file(folder / "a") == "whole");
  CHECK(entries(folder) == 1);
}

TEST_CASE("files: writing follows a symbolic link instead of replacing it") {
  test::ScratchFolder folder;
  write_file_atomic(folder / "target", "old");
  fs::create_symlink("target", folder / "link");
  write_file_atomic(folder / "link", "new");
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(read_file(folder / "target") == "new");
  CHECK(entries(folder) == 2);
}

TEST_CASE("files: a folder's names are sorted, and a path that does not exist leads to the folder above it") {
  const test::ScratchFolder folder;
  for (const char* name : {"b", "a", "c"}) write_file_atomic(folder / name, "");
  CHECK(list_names(folder.path()) == std::vector<std::string>{"a", "b", "c"});
  CHECK(list_names(folder / "none").empty());
  CHECK(nearest_existing(folder / "x/../y/z") == folder.path());
  CHECK(nearest_existing(folder / "a") == folder / "a");
}

TEST_CASE("files: a FIFO under a fixed name is refused at once, not waited for") {
  test::ScratchFolder folder;
  const std::string fifo = folder / "fifo", message = fifo + " is not a regular file; replace it with one";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  CHECK(test::error_of([&] { read_regular_file(fifo); }, Exit::io) == message);
  CHECK(test::error_of([&] { Json::read(fifo); }, Exit::io) == message);
  CHECK(test::error_of([&] { write_file_atomic(fifo, "x"); }, Exit::io) == message);
  std::string owner;
  CHECK(test::error_of([&] { FileLock::take(fifo, &owner); }, Exit::io) == message);
  CHECK(entries(folder) == 1);
}

TEST_CASE("files: a device without an end is read up to a limit") {
  CHECK(test::error_of([] { read_file("/dev/zero"); }, Exit::io) ==
        "/dev/zero: has more than 256.0 MiB, the limit for a device or pipe; use a regular file");
}

TEST_CASE("files: writing to a FIFO that the user named keeps it a FIFO") {
  test::ScratchFolder folder;
  const std::string fifo = folder / "fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  std::string got;
  std::thread reader([&] { got = read_file(fifo); });
  AtomicFile file(fifo);
  file.write("through");
  file.commit();
  reader.join();
  CHECK(got == "through");
  CHECK(fs::is_fifo(fifo));
  CHECK(entries(folder) == 1);
}

TEST_CASE("files: a Git LFS pointer in place of a file is named, with the command that downloads the file") {
  test::ScratchFolder folder;
  const std::string path = folder / "model.safetensors", pointer = test::lfs_pointer(12345);
  write_file_atomic(path, pointer);
  const std::string message = test::error_of([&] { read_file(path); }, Exit::bad_data);
  CHECK(test::contains(message, path));
  CHECK(test::contains(message, "Git LFS pointer"));
  CHECK(test::contains(message, "12,345 bytes"));
  CHECK(test::contains(message, "git lfs pull"));
  CHECK(test::error_of([&] { read_regular_file(path); }) == message);
  CHECK(test::error_of([&] { MappedFile file(path); }) == message);
  for (const char* version : {"https://hawser.github.com/spec/v1", "http://git-media.io/v/2"}) {  // older ones
    write_file_atomic(path, cat("version ", version, pointer.substr(pointer.find('\n'))));
    CHECK(test::error_of([&] { read_file(path); }, Exit::bad_data) == message);
  }
  write_file_atomic(path, pointer);
  // A pointer without a readable size, and text that only mentions pointers.
  write_file_atomic(path, pointer.substr(0, 60));
  CHECK(test::contains(test::error_of([&] { MappedFile file(path); }), "git lfs pull"));
  const std::string text = "version https://git-lfs.github.com/spec/v1 is the first line of a pointer.\n";
  write_file_atomic(path, text);
  CHECK(read_file(path) == text);
  write_file_atomic(path, "# " + pointer);
  CHECK(read_file(path) == "# " + pointer);
  CHECK(MappedFile(path).text() == "# " + pointer);
}
