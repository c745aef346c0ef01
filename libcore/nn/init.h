// Initial weights. They depend only on the seed and the parameter's name, so every layout starts from the same bits.
//
// Normals by Box and Muller from Philox, counter = (element / 2) with the key (seed, hash of the name), in fp64 with
// our own logarithm and cosine, because those of libm differ in the last bit between versions.
#pragma once

#include "layout/slice.h"
#include "nn/param.h"

namespace mtl {

/// Fills `value` (f32, bf16 or f16), which holds `slice` of the whole tensor, followed by padding, which becomes 0.
/// Rounds every number to `load` first.
void initialize_param(Tensor value, const Slice& slice, const ParamSpec& spec, std::uint64_t seed,
                      DType load = DType::f32);

/// Two independent standard normals; declared here for tests.
struct NormalPair {
  double first, second;
};
NormalPair normal_pair(std::uint64_t seed, std::uint32_t site, std::uint64_t counter);

}  // namespace mtl
