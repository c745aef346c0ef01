// Takes the place of kernels/cuda/capability.h in tests.
#pragma once

namespace mtl::emulated {

/// Of the GPU that is played: 80 until a test sets another.
inline int& capability() {
  static int played = 80;
  return played;
}

}  // namespace mtl::emulated

namespace mtl::cuda {

inline int compute_capability() { return emulated::capability(); }

}  // namespace mtl::cuda
