// Devices whose times are easy to compute by hand.
#pragma once

#include "nn/gpt_config.h"
#include "planner/machine.h"

namespace mtl::test {

/// One GFLOP takes a millisecond, bytes and links take no time.
inline Machine arithmetic_machine() {
  return {.device = {.name = "test", .dram_gbs = 1e30, .tflops_16 = 1, .tflops_tf32 = 1, .tflops_f32 = 1},
          .links = Links::free()};
}

/// FLOPs and bytes take no time; every link has 1 GB/s inside a node and 0.1 GB/s between nodes.
inline Machine links_machine() {
  return {.device = {.name = "test", .dram_gbs = 1e30, .tflops_16 = 1e30, .tflops_tf32 = 1e30, .tflops_f32 = 1e30},
          .links = {.inside_gbs = 1, .between_gbs = 0.1, .inside_us = 0, .between_us = 0}};
}

}  // namespace mtl::test
