#include "cli/build_info.h"

#include <dlfcn.h>
#include <link.h>

#include <array>
#include <vector>

#include "base/files.h"
#include "base/instruction_set.h"
#include "base/str.h"
#include "cli/share_files.h"
#include "device/cuda_device.h"
#include "version.h"

namespace mtl {

namespace {

struct Library {
  const char* name;     // "zstd"
  const char* file;     // "libzstd.so"
  const char* version;  // of the headers that mtl was compiled with
};

constexpr Library kLibraries[] = {
#include "cli/libraries.inc"
};

/// Returns the shared libraries of this process.
std::vector<std::string> loaded_files() {
  std::vector<std::string> out;
  const auto add = [](dl_phdr_info* info, std::size_t, void* to) {
    static_cast<std::vector<std::string>*>(to)->emplace_back(info->dlpi_name);
    return 0;
  };
  ::dl_iterate_phdr(add, &out);
  return out;
}

/// Returns the file without symbolic links, whose name usually ends with its version.
std::string file_of(const Library& library, const std::vector<std::string>& loaded) {
  for (const std::string& path : loaded) {
    if (starts_with(fs::path(path).filename().string(), library.file)) return fs::canonical(path).string();
  }
  return "not loaded by this program";
}

/// Asks the library itself, which may be another than that of the build. Only some programs are linked with it.
std::string mpi_text() {
  const auto version = reinterpret_cast<int (*)(char*, int*)>(::dlsym(RTLD_DEFAULT, "MPI_Get_library_version"));
  if (version == nullptr) return "not used by this program";
  std::array<char, 8192> text{};  // MPI_MAX_LIBRARY_VERSION_STRING is at most that
  int length = 0;
  version(text.data(), &length);
  return split(text.data(), '\n').front();
}

std::string gpu_text() {
  const CudaBuild build = cuda_build();
  return build.architectures.empty() ? "no kernels: this program was built without CUDA"
                                     : cat("kernels for sm_", build.architectures, ", of CUDA ", build.version);
}

std::string share_text() {
  const std::string folder = share_folder();
  std::error_code error;
  if (fs::is_directory(folder, error)) return fs::canonical(folder).string();
  return cat(folder, " is missing; share/mtl beside the programs' folder is the only place that is searched");
}

}  // namespace

std::string version_text(const std::string& program, bool verbose) {
  std::string out = cat(program, " ", kVersion, "\n");
  if (!verbose) return out;
  std::vector<std::pair<std::string, std::string>> lines = {
      {"compiler", kCompiler},
      {"CPU", cat("SIMD code for SSE4, AVX2 and AVX-512; here: ", name_of(best_instruction_set()))},
      {"GPU", gpu_text()},
      {"MPI", mpi_text()},
      {"share files", share_text()}};
  const std::vector<std::string> loaded = loaded_files();
  for (const Library& each : kLibraries)
    lines.emplace_back(each.name, format("%-8s %s", each.version, file_of(each, loaded).c_str()));
  for (const auto& [topic, text] : lines) out += format("%-12s %s\n", topic.c_str(), text.c_str());
  return out;
}

}  // namespace mtl
