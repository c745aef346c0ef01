// Initial weights. They depend only on the seed and the parameter's name, so every layout starts from the same bits.
//
// Normal numbers come from Philox by the Box-Muller transform, with counter = element / 2 and key = (seed, hash of the
// name), in fp64 with our own log, cos and sin, because those of libm differ in the last bit between versions.
#pragma once

#include "layout/slice.h"
#include "nn/param.h"

namespace mtl {

/// Fills `value` (f32, bf16 or f16), which holds `slice` of the whole tensor and after it padding, which is set to 0.
/// Rounds every drawn number to `load` first.
void initialize_param(Tensor value, const Slice& slice, const ParamSpec& spec, std::uint64_t seed,
                      DType load = DType::f32);

/// Two independent standard normals; declared here for tests.
struct NormalPair {
  double first, second;
};
NormalPair normal_pair(std::uint64_t seed, std::uint32_t site, std::uint64_t counter);

}  // namespace mtl
