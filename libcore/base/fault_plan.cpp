#include "base/fault_plan.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <thread>
#include <vector>

#include "base/str.h"

namespace mtl {

namespace {

/// The faults requested by MTL_FAULT or plan_faults(), and the number of operations so far.
struct FaultPlan {
  struct Fault {
    std::string kind;
    std::int64_t at;
  };
  std::vector<Fault> faults;
  std::atomic<std::int64_t> done{0};

  void plan(const std::string& text) {
    faults.clear();
    done = 0;
    for (const std::string& item : split(text, ',')) {
      std::vector<std::string> parts = split(item, ':');
      if (parts.size() == 2) faults.push_back({parts[0], parse_int(parts[1]).value_or(0)});
    }
  }

  FaultPlan() {
    if (const char* text = std::getenv("MTL_FAULT")) plan(text);
  }
};

FaultPlan& fault_plan() {
  static FaultPlan plan;
  return plan;
}

}  // namespace

void plan_faults(const std::string& text) { fault_plan().plan(text); }

bool has_fault(const std::string& kind) {
  const auto& faults = fault_plan().faults;
  return std::ranges::any_of(faults, [&](const FaultPlan::Fault& fault) { return fault.kind == kind; });
}

bool fault_now(std::string* kind) {
  constexpr auto kSlow = std::chrono::milliseconds(300);
  FaultPlan& plan = fault_plan();
  if (plan.faults.empty()) return false;
  const std::int64_t number = ++plan.done;
  for (const FaultPlan::Fault& fault : plan.faults) {
    if (fault.kind == "slow") {
      if (number >= fault.at) std::this_thread::sleep_for(kSlow);
      continue;
    }
    if (number != fault.at || starts_with(fault.kind, "no-")) continue;
    if (fault.kind == "kill") ::kill(::getpid(), SIGKILL);
    if (kind != nullptr) *kind = fault.kind;
    errno = fault.kind == "enospc" ? ENOSPC : fault.kind == "eintr" ? EINTR : EIO;
    return true;
  }
  return false;
}

}  // namespace mtl
