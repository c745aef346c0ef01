// Fault injection, for tests: MTL_FAULT=KIND:N[,KIND:N] makes the N-th operation of base/files.h in the process,
// counted from 1, fail. The kinds are `kill` (SIGKILL before the operation), `eio`, `enospc`, `eintr`, `short` (writes
// only half), and `slow` (delays this and all later operations by 0.3 s). Three more, whose N is ignored, simulate file
// systems: `no-exchange` cannot exchange two names, `no-move` cannot rename a folder except a temporary one, and
// `no-remove` cannot remove a folder or its contents.
#pragma once

#include <string>

namespace mtl {

/// Plans the faults in `text`, written like MTL_FAULT, in place of all others, and counts from here. For processes that
/// a test forks; no other thread may count meanwhile.
void plan_faults(const std::string& text);
/// Counts one operation. If a fault is due, sets errno and, if `kind` is not null, *kind, and returns true. Does not
/// return if the fault is `kill`.
bool fault_now(std::string* kind = nullptr);
/// Returns true if MTL_FAULT requests a fault of this kind, at whatever operation.
bool has_fault(const std::string& kind);

}  // namespace mtl
