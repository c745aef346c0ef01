// Compares the checkpoints of two runs.
#pragma once

#include <doctest/doctest.h>

#include "ckpt/open_model.h"
#include "device/copy.h"
#include "tests/ckpt/ckpt_fixtures.h"

namespace mtl::test {

inline ModelSource open_model(const std::string& folder) {
  Console console = quiet_console();
  return open_model(folder, console);
}

/// Checks that two runs have equal weights and moments, bit for bit.
inline void check_same_tensors(const std::string& a, const std::string& b) {
  const ModelSource left = open_model(a), right = open_model(b);
  REQUIRE(!left.tensors().empty());
  REQUIRE(left.tensors().size() == right.tensors().size());
  for (const SavedTensor& tensor : left.tensors()) {
    CAPTURE(tensor.name);
    const Slice all = whole_slice(tensor.shape);
    std::vector<std::byte> of_a(static_cast<std::size_t>(all.count() * bits_of(tensor.dtype) / 8)), of_b(of_a.size());
    left.read(tensor.name, all, of_a);
    right.read(tensor.name, all, of_b);
    CHECK(of_a == of_b);
  }
}

}  // namespace mtl::test
