// Devices and profiles whose times are easy to compute by hand.
#pragma once

#include <doctest/doctest.h>

#include <string>

#include "base/files.h"
#include "nn/gpt_config.h"
#include "planner/machine.h"
#include "planner/operator_times.h"
#include "tests/scratch_folder.h"

namespace mtl::test {

/// Returns `text` with the first `from` replaced, which it must contain.
inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  REQUIRE(text.find(from) != std::string::npos);
  return text.replace(text.find(from), from.size(), to);
}

/// Links that take no time.
inline constexpr Links kFreeLinks = {
    .inside_gbs = 1e30, .between_gbs = 1e30, .inside_us = 0, .between_us = 0, .host_gbs = 1e30};

/// One GFLOP takes a millisecond, bytes and links take no time.
inline Machine arithmetic_machine() {
  return {.device = {.name = "test", .dram_gbs = 1e30, .tflops_16 = 1, .tflops_tf32 = 1, .tflops_f32 = 1},
          .links = kFreeLinks};
}

/// FLOPs and bytes take no time; every link has 1 GB/s inside a node and 0.1 GB/s between nodes.
inline Machine links_machine() {
  return {.device = {.name = "test", .dram_gbs = 1e30, .tflops_16 = 1e30, .tflops_tf32 = 1e30, .tflops_f32 = 1e30},
          .links = {.inside_gbs = 1, .between_gbs = 0.1, .inside_us = 0, .between_us = 0}};
}

/// A profile of two iterations. Products run at 1e6 FLOPs per ms in fp32, the smaller ones at half of that; norms at
/// 2e5 bytes per ms.
inline const std::string kProfile = R"({"version": 1, "steps": 2, "ms": 100,
 "roofline": {"name": "CPU, 1 thread", "gb_per_s": 10, "tflops_16": 0.1, "tflops_tf32": 0.3, "tflops_f32": 0.1},
 "phases": [{"phase": "data", "ms": 4, "operators_ms": 0}, {"phase": "forward", "ms": 50, "operators_ms": 44},
            {"phase": "communication", "ms": 9, "operators_ms": 0}, {"phase": "other", "ms": 2, "operators_ms": 0}],
 "rows": [
  {"operator": "gemm", "phase": "forward", "operands": "64x64x64 float32, B^T", "calls": 4, "ms": 8, "flops": 8e6, "bytes": 1e5},
  {"operator": "gemm", "phase": "forward", "operands": "64x16x64 float32, B^T", "calls": 2, "ms": 2, "flops": 1e6, "bytes": 1e4},
  {"operator": "gemm", "phase": "forward", "operands": "64x64x64 float32", "calls": 2, "ms": 16, "flops": 4e6, "bytes": 1e5},
  {"operator": "layernorm_forward", "phase": "forward", "operands": "(64, 64) float32", "calls": 2, "ms": 2, "flops": 0, "bytes": 4e5},
  {"operator": "adamw_step", "phase": "optimizer", "calls": 2, "ms": 10, "flops": 0, "bytes": 2e6}]})";

/// Returns the times in a profile.
inline OperatorTimes times_of(const std::string& profile) {
  const ScratchFolder dir;
  write_file_atomic(dir / "rank0.json", profile);
  return OperatorTimes::read(dir / "rank0.json");
}

}  // namespace mtl::test
