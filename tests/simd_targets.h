// Forces each instruction set of this machine in turn. Include it under HWY_ONCE, after base/simd.h: Highway's macros
// list the instruction sets.
#pragma once

#include <doctest/doctest.h>

#include <string>

namespace mtl::test {

/// Runs body once per instruction set, which HWY_DYNAMIC_DISPATCH then chooses.
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
