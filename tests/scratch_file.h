// Creates temporary files for tests.
#pragma once

#include "tests/scratch_folder.h"

namespace mtl::test {

/// A temporary file with this content.
struct ScratchFile {
  explicit ScratchFile(std::string_view content) { write_file_atomic(path, content); }
  ScratchFolder folder;
  std::string path = folder / "options.conf";
};

}  // namespace mtl::test
