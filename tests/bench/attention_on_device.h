// The part of mtl_bench_attention that measures a GPU.
#pragma once

#include "tests/bench/device_bench.h"

namespace mtl::test {

/// Times forward, by this library and by cuDNN, and backward, in bf16 for several sequence lengths and head sizes, of
/// as many tokens each. Then times the kernels of each, if CUPTI can record them.
void bench_attention(DeviceBench& bench);

}  // namespace mtl::test
