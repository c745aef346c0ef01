// Files that appear under their name when they are complete, and what they may not replace.
#include "base/files.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

using namespace mtl;

namespace {

struct Folder {
  fs::path path = fs::temp_directory_path() / cat("mtl_files_test.", ::getpid());
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
  std::string operator/(const char* name) const { return (path / name).string(); }
  std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(path), fs::directory_iterator()));
  }
};

}  // namespace

TEST_CASE("files: an atomic file appears at commit, or not at all") {
  Folder folder;
  {
    AtomicFile file(folder / "a");
    file.write("half");
    CHECK_FALSE(file_exists(folder / "a"));
  }
  CHECK(folder.entries() == 0);
  write_file_atomic(folder / "a", "whole");
  CHECK(read_file(folder / "a") == "whole");
  CHECK(folder.entries() == 1);
}

TEST_CASE("files: a symbolic link is followed, not replaced") {
  Folder folder;
  write_file_atomic(folder / "target", "old");
  fs::create_symlink("target", folder / "link");
  write_file_atomic(folder / "link", "new");
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(read_file(folder / "target") == "new");
  CHECK(folder.entries() == 2);
}

TEST_CASE("files: a FIFO is written to and stays one") {
  Folder folder;
  const std::string fifo = folder / "fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  std::string got;
  std::thread reader([&] { got = read_file(fifo); });
  write_file_atomic(fifo, "through");
  reader.join();
  CHECK(got == "through");
  CHECK(fs::is_fifo(fifo));
  CHECK(folder.entries() == 1);
}
