#include "cli/thread_waits.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace mtl {

void keep_thread_waits_short(char** argv) {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  ::setenv("GOMP_SPINCOUNT", "1000", 0);
  std::error_code no_proc;
  const auto program =
      std::filesystem::read_symlink("/proc/self/exe", no_proc);  // resolved, because the new process is named after it
  ::execv(program.c_str(), argv);                                // if it fails, libgomp's default remains
}

}  // namespace mtl
