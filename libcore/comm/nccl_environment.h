// Environment variables of the communication between GPUs, and remedies for NCCL's errors.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/usage_error.h"
#include "comm/launch.h"

namespace mtl {

/// Returns the variables that a run sets unless the user did, with their values.
///   NCCL_ALGO  excludes algorithms that sum in the switch: the order of their additions is not known to repeat, and a
///              run guarantees the same bits every time
std::vector<std::pair<std::string, std::string>> nccl_defaults(const GetVariable& get);

/// A network interface of this host.
struct NetworkInterface {
  std::string name, address;
};
std::vector<NetworkInterface> network_interfaces();

/// Returns the variables whose values NCCL or CUDA would ignore or reject, each with the values to set instead.
std::vector<Problem> nccl_problems(const GetVariable& get, const std::vector<NetworkInterface>& interfaces);

/// Returns NCCL's message for a fault, with its remedy. `last_error`: ncclGetLastError's text, or null.
std::string nccl_fault_text(const std::string& error, const char* last_error);

}  // namespace mtl
