// Rotary position embedding. Rotates element pairs in queries and keys by angles that grow with the position.
//
//   c[n, i] = scale cos(positions[n] f_i),  s[n, i] = scale sin(positions[n] f_i)
//   forward    (a, b) becomes (a c - b s, b c + a s)
//   backward   (a, b) becomes (a c + b s, b c - a s): the transpose, which with scale 1 is the inverse
//
// Pair i in a head consists of the elements (i, i + pairs), or (2 i, 2 i + 1) if interleaved. Elements from index 2 *
// pairs on do not change. Heads have the compute dtype T (kernels/stream_types.h). Cosines and sines are computed and
// scaled in fp64, and rounded to f32 once. Rotations are computed in fp32, and each element is rounded to T once. Su et
// al. 2021, eq. 34.
#pragma once

#include <array>

#include "device/stream.h"
#include "device/tensor.h"
#include "kernels/head_slice.h"

namespace mtl {

struct RotaryFrequencies {
  int pairs = 0;                     // rotates 2 * pairs elements per head
  std::array<double, 128> values{};  // f_i; only the first `pairs` are used
  bool interleaved = false;
  double scale = 1;  // of cosines and sines
};

/// Writes the scaled cosines and then the scaled sines for each row to out (N, 2, pairs) f32. `positions` i32 has N
/// elements, as (N) or (B, T).
void rotary_angles(Stream& stream, Tensor out, Tensor positions, const RotaryFrequencies& frequencies);

/// Rotates a slice's heads in place, in a (B, T, G, N, D) tensor. Row b T + t of angles (B T, 2, pairs) applies to
/// position t in sequence b.
void rotary_forward(Stream& stream, const HeadSlice& heads, Tensor angles, bool interleaved);
/// Takes the gradient with respect to forward's output, and replaces it in place by the gradient with respect to the
/// input.
void rotary_backward(Stream& stream, const HeadSlice& heads, Tensor angles, bool interleaved);

}  // namespace mtl
