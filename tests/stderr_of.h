// Captures what a test's code writes to standard error.
#pragma once

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "base/files.h"
#include "tests/scratch_folder.h"

namespace mtl::test {

/// Calls work() and returns what it writes to standard error.
template <class Work>
std::string stderr_of(const Work& work) {
  const ScratchFolder scratch;
  std::FILE* file = std::fopen((scratch / "stderr").c_str(), "w");
  REQUIRE(file != nullptr);
  std::fflush(stderr);
  const int before = ::dup(2);
  ::dup2(::fileno(file), 2);
  work();
  std::fflush(stderr);
  ::dup2(before, 2);
  ::close(before);
  std::fclose(file);
  return read_file(scratch / "stderr");
}

}  // namespace mtl::test
