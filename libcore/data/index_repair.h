// Repairs an .idx whose pointers wrapped around.
//
// Sequences follow each other without gaps in the .bin, so every pointer is the sum of the lengths before it. Old
// releases of Megatron-LM and its forks computed the pointers of merged files with 32 bits, which wrapped around in
// .bin files over 2 or 4 GiB.
#pragma once

#include <cstdint>
#include <string>

namespace mtl {

class InterruptGuard;

struct IndexRepair {
  std::int64_t sequences = 0;
  std::int64_t changed = 0;  // pointers that were wrong
};

/// Writes PREFIX.idx to `output` with pointers computed from its lengths, and everything else as it is. `output` may be
/// PREFIX.idx itself. It gets its name only once it is complete. `guard` is AtomicFile's. Throws BrokenRule, and writes
/// nothing, if PREFIX.idx and PREFIX.bin violate another rule, or if a pointer differs from the computed
/// one by anything but a multiple of 2^32: then the lengths may be wrong. Throws Error(io) if a file cannot
/// be read or written.
IndexRepair repair_index(const std::string& prefix, const std::string& output, InterruptGuard* guard = nullptr);

}  // namespace mtl
