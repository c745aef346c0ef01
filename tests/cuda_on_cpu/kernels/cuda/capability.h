// Replaces kernels/cuda/capability.h in tests.
#pragma once

namespace mtl::emulated {

/// The emulated GPU's compute capability: 80 until a test assigns another.
inline int& capability() {
  static int value = 80;
  return value;
}

}  // namespace mtl::emulated

namespace mtl::cuda {

inline int compute_capability() { return emulated::capability(); }

}  // namespace mtl::cuda
