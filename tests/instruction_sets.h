// Runs code with each of this machine's instruction sets in turn.
#pragma once

#include <doctest/doctest.h>

#include <string>

#include "base/instruction_set.h"

namespace mtl::test {

/// Calls `body` once per instruction set. MTL_DISPATCH uses only this set during the call.
template <class Body>
void on_every_instruction_set(const Body& body) {
  for (InstructionSet set : {InstructionSet::baseline, InstructionSet::avx2, InstructionSet::avx512}) {
    if (set > best_instruction_set()) break;
    instruction_set() = set;
    const std::string name = name_of(set);
    CAPTURE(name);
    body();
  }
}

}  // namespace mtl::test
