// Emulates NCCL. The ranks are processes on one machine. They exchange files in memory, and their operations are
// commands on the emulated streams. Sums are added in rank order, so results equal those over MPI bit for bit.
//
// Checks NCCL's requirements: all members start the same operations with the same sizes in the same order, on device
// memory, on one stream per communicator, and none after an abort. As in NCCL, an abort ends operations in progress at
// once, but does not return while graphs with operations exist.
#pragma once

#include <cstdint>

namespace mtl::mirror {

/// Calls made so far, and memory registered now.
struct NcclCounts {
  std::int64_t operations = 0;  // started on streams
  std::int64_t aborts = 0;
  std::int64_t registered = 0;  // currently registered memory regions
};
NcclCounts nccl_counts();

/// Makes NCCL report this error from now on. Null means no error.
void simulate_nccl_fault(const char* text);

}  // namespace mtl::mirror
