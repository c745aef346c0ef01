// Runs code with each of this machine's instruction sets in turn. Include it under HWY_ONCE, after base/simd.h, because
// Highway's macros list the instruction sets.
#pragma once

#include <doctest/doctest.h>

#include <string>

namespace mtl::test {

/// Calls `body` once per instruction set. HWY_DYNAMIC_DISPATCH uses only this set during the call.
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
