#include "tests/mirror/forward.h"

namespace mtl::cuda {

using namespace mirror;

void rotary_angles(Stream& stream, Tensor out, Tensor positions, const RotaryFrequencies& frequencies) {
  forward<cpu::rotary_angles>(stream, out, positions, frequencies);
}
void rotary_forward(Stream& stream, const HeadSlice& heads, Tensor angles, bool interleaved) {
  forward<cpu::rotary_forward>(stream, heads, angles, interleaved);
}
void rotary_backward(Stream& stream, const HeadSlice& heads, Tensor angles, bool interleaved) {
  forward<cpu::rotary_backward>(stream, heads, angles, interleaved);
}

}  // namespace mtl::cuda
