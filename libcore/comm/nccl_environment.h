// Checks environment variables that affect communication between GPUs, and suggests remedies for NCCL's errors.
#pragma once

#include <string>
#include <vector>

#include "base/usage_error.h"
#include "comm/launch.h"

namespace mtl {

/// Sets the variable NCCL_ALGO, unless the user has set it, to exclude algorithms that add inside network switches. We
/// do not know whether these always add in the same order, and a run must produce the same bits every time. The process
/// must have a single thread.
void set_nccl_defaults();

/// A network interface on this host.
struct NetworkInterface {
  std::string name, address;
};
std::vector<NetworkInterface> network_interfaces();

/// Returns a problem for each variable whose value NCCL or CUDA would ignore or reject. The problem includes the valid
/// values.
std::vector<Problem> nccl_problems(const GetVariable& get, const std::vector<NetworkInterface>& interfaces);

/// Says which of the environment's variables (NAME=VALUE) are NCCL's, and so have no effect on ranks without GPUs, and
/// what replaces the choice of a network. Returns "" if there are none.
std::string describe_unused_nccl_variables(const std::vector<std::string>& environment);

/// Returns NCCL's message for a fault, followed by a remedy. `error` describes the error code. `last_error` comes from
/// ncclGetLastError() and can be null.
std::string nccl_fault_text(const std::string& error, const char* last_error);

}  // namespace mtl
