#include "base/move_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <system_error>
#include <vector>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/files.h"

namespace mtl {

namespace {

/// Copies a folder and its content to `to`, which must not exist, and syncs the copy. Entries keep their rights.
void copy_folder(const std::string& from, const std::string& to) {
  constexpr std::size_t kBlock = 1 << 20;
  std::error_code error;
  const fs::directory_iterator entries(from, error);
  if (error) fail(Exit::io, from, ": cannot list: ", error.message());
  make_directories(to);
  for (const auto& entry : entries) {
    const std::string path = entry.path().string(), copy = cat(to, "/", entry.path().filename().string());
    if (entry.is_symlink()) {
      fs::copy_symlink(path, copy, error);
      if (error) fail(Exit::io, path, ": cannot copy to ", copy, ": ", error.message());
    } else if (entry.is_directory()) {
      copy_folder(path, copy);
    } else {
      const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // do not wait for a FIFO
      if (file < 0) fail_errno(path, "open");
      OutputFile out(copy);
      std::vector<char> block(kBlock);
      ssize_t got = 0;
      while ((got = ::read(file, block.data(), block.size())) > 0) out.write(block.data(), got);
      if (got < 0) fail_errno(path, "read");
      out.sync();
      out.close();
    }
    if (!entry.is_symlink()) fs::permissions(copy, entry.status().permissions(), error);
  }
  sync_directory(to);
}

}  // namespace

void move_folder_by_copy(const std::string& from, const std::string& to) {
  if (file_exists(to)) fail(Exit::io, from, ": cannot rename to ", to, ", which exists; rename or remove that folder");
  try {
    copy_folder(from, to);
    sync_directory(parent_folder(to));
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(to, ignored);
    throw;
  }
  remove_tree(from);
}

}  // namespace mtl
