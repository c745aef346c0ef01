// Initial weights. They depend on the seed and the parameter's name alone, so every layout starts from the same bits.
//
// Normals by Box and Muller from Philox, counter = (element / 2) with the key (seed, hash of the name), in fp64 with
// logarithm and cosine of our own: libm's differ from version to version in the last bit.
#pragma once

#include "layout/slice.h"
#include "nn/param.h"

namespace mtl {

/// Fills `value` (f32, bf16 or f16), which holds that slice of the whole tensor, and after it padding, which becomes 0.
/// Numbers are rounded to `load` first.
void initialize_param(Tensor value, const Slice& slice, const ParamSpec& spec, std::uint64_t seed,
                      DType load = DType::f32);

/// Two independent standard normals for a counter; exposed for its test.
struct NormalPair {
  double first, second;
};
NormalPair normal_pair(std::uint64_t seed, std::uint32_t site, std::uint64_t counter);

}  // namespace mtl
