#include "device/cuda_device.h"

#include "base/str.h"

namespace mtl {

std::string CudaDevice::text() const {
  return cat(name, " (sm_", major, minor, ", ", human_bytes(static_cast<double>(memory)), ")");
}

std::string architecture_for(int major, int minor) { return cat(major, minor, major == 9 ? "a" : ""); }

std::string missing_kernels_text(const std::string& gpu, const std::string& architectures, int major, int minor) {
  if (major < 8) return cat(gpu, " is too old: mtl's kernels need sm_80 (A100, A10, RTX 30) or newer");
  if (runs_on(architectures, major, minor)) return "";
  return cat("this build has no kernels for ", gpu, ", only for sm_", architectures,
             "; configure it with -DMTL_CUDA_ARCHS=", architecture_for(major, minor));
}

bool runs_on(std::string_view architectures, int major, int minor) {
  for (const std::string& architecture : split(std::string(architectures), ',')) {
    const bool exact = !architecture.empty() && architecture.back() == 'a';
    const int number = std::atoi(architecture.c_str());
    if (number / 10 == major && (exact ? number % 10 == minor : number % 10 <= minor)) return true;
  }
  return false;
}

}  // namespace mtl
