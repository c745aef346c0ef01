// Forces every instruction set that this machine has, one after another. Include it under HWY_ONCE, after base/simd.h:
// Highway's macros list the instruction sets.
#pragma once

#include <doctest/doctest.h>

#include <string>

namespace mtl::test {

/// Runs body once per instruction set; HWY_DYNAMIC_DISPATCH then chooses that one.
template <class Body>
void on_every_target(const Body& body) {
  const auto all = hwy::SupportedTargets() & (HWY_TARGETS);
  for (auto rest = all; rest != 0; rest &= rest - 1) {
    hwy::GetChosenTarget().Update(rest & -rest);
    const std::string target = hwy::TargetName(rest & -rest);
    CAPTURE(target);
    body();
  }
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace mtl::test
