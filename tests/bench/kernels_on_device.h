// The part of mtl_bench_kernels that measures a GPU, in sizes of the models in docs/benchmarks.md.
#pragma once

#include <string>

#include "tests/bench/device_bench.h"

namespace mtl::test {

inline constexpr const char* kDeviceGroups[] = {"memory", "rows", "cross_entropy", "gemm"};

/// Prints the rows of one of kDeviceGroups.
void bench_group(DeviceBench& bench, const std::string& group);

}  // namespace mtl::test
