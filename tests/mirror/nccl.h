// NCCL, played: ranks that are processes of one machine exchange files in memory, and their operations are commands of
// the played streams. Sums are added in the order of ranks, so that results equal those of ranks over MPI bit for bit.
//
// Checks what NCCL asks for: all members start the same operations with the same sizes in the same order, on memory of
// the device, on one stream for each communicator, and none after abort.
#pragma once

#include <cstdint>

namespace mtl::mirror {

/// What was called so far.
struct NcclCounts {
  std::int64_t operations = 0;  // started on streams
  std::int64_t aborts = 0;
  std::int64_t enrolled = 0;  // memory, at present
};
NcclCounts nccl_counts();

/// From now on NCCL reports this fault; null: none.
void play_nccl_fault(const char* text);

}  // namespace mtl::mirror
