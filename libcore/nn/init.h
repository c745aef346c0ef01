// Initial weights. They depend only on the seed and the parameter's name, so runs in all layouts start from the same
// bits.
//
// Normal random numbers come from Philox and the Box-Muller transform, with counter = element / 2 and key = (seed, hash
// of the name). The transform uses our own fp64 log, cos and sin, because libm's results differ in the last bit between
// versions.
#pragma once

#include <vector>

#include "layout/slice.h"
#include "nn/param.h"

namespace mtl {

/// Fills `values` (f32, bf16 or f16), each of which holds `slice` of the entire tensor, followed by padding. Sets the
/// padding to 0. Rounds every random number to dtype `load` before storing it.
void initialize_param(const std::vector<Tensor>& values, const Slice& slice, const ParamSpec& spec, std::uint64_t seed,
                      DType load = DType::f32);

/// Writes 2 * pairs independent standard normal numbers to `out`, those of the counters `first`, `first` + 1, ...
/// Declared here for tests.
void normal_numbers(std::uint64_t seed, std::uint32_t site, std::uint64_t first, std::size_t pairs, double* out);

}  // namespace mtl
