// Runs a fuzz target on all files in the given folders, without libFuzzer. A crash terminates the process.
#include <cstdint>
#include <cstdio>

#include "base/files.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int argc, char** argv) {
  int files = 0;
  for (int i = 1; i < argc; ++i) {
    for (const auto& entry : mtl::fs::directory_iterator(argv[i])) {
      std::string path = entry.path().string(), content = mtl::read_file(path);
      std::printf("%s\n", path.c_str());
      std::fflush(stdout);  // the last line is the file that crashed
      LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(content.data()), content.size());
      ++files;
    }
  }
  return files > 0 ? 0 : 1;
}
