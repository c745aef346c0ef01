// Environment variables that affect communication between GPUs, and remedies for NCCL's errors.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/usage_error.h"
#include "comm/launch.h"

namespace mtl {

/// Returns the variables that a run sets unless the user has set them, with their values:
///   NCCL_ALGO  excludes algorithms that add inside network switches. We do not know whether these always add in the
///              same order, and a run must produce the same bits every time.
std::vector<std::pair<std::string, std::string>> nccl_defaults(const GetVariable& get);

/// A network interface of this host.
struct NetworkInterface {
  std::string name, address;
};
std::vector<NetworkInterface> network_interfaces();

/// Returns a problem for each variable whose value NCCL or CUDA would ignore or reject, with the valid values.
std::vector<Problem> nccl_problems(const GetVariable& get, const std::vector<NetworkInterface>& interfaces);

/// Returns NCCL's message for a fault, followed by a remedy. `error` describes the error code. `last_error` is the text
/// from ncclGetLastError(), or null.
std::string nccl_fault_text(const std::string& error, const char* last_error);

}  // namespace mtl
