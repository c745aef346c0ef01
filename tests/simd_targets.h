// Runs code with each instruction set of this machine in turn. Include it under HWY_ONCE, after base/simd.h: Highway's
// macros list the instruction sets.
#pragma once

#include <doctest/doctest.h>

#include <string>

namespace mtl::test {

/// Calls `body` once per instruction set, with HWY_DYNAMIC_DISPATCH restricted to it.
template <class Body>
void on_every_target(const Body& body) {
  const auto all = hwy::SupportedTargets() & (HWY_TARGETS);
  for (auto remaining = all; remaining != 0; remaining &= remaining - 1) {
    hwy::GetChosenTarget().Update(remaining & -remaining);
    const std::string target = hwy::TargetName(remaining & -remaining);
    CAPTURE(target);
    body();
  }
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace mtl::test
