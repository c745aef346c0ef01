// Creates temporary folders for tests.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <string>

#include "base/files.h"

namespace mtl::test {

/// A new empty folder. The destructor removes it with its contents.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern = (fs::temp_directory_path() / "mtl-test-XXXXXX").string();
    require(::mkdtemp(pattern.data()) != nullptr, "cannot make a temporary folder");
    path_ = pattern;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace mtl::test
