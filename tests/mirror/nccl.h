// Emulates NCCL: ranks, which are processes on one machine, exchange files in memory, and their operations are commands
// of the emulated streams. Sums are added in rank order, so that results equal those over MPI bit for bit.
//
// Checks NCCL's requirements: all members start the same operations with the same sizes in the same order, on device
// memory, on one stream per communicator, and none after an abort.
#pragma once

#include <cstdint>

namespace mtl::mirror {

/// Counts of calls so far, and of registered memory.
struct NcclCounts {
  std::int64_t operations = 0;  // started on streams
  std::int64_t aborts = 0;
  std::int64_t registered = 0;  // memory regions that are registered at present
};
NcclCounts nccl_counts();

/// Makes NCCL report this error from now on; null: none.
void simulate_nccl_fault(const char* text);

}  // namespace mtl::mirror
