// The golden checkpoints of DeepSpeed: opening, comparing, copying and thinning them out.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "ckpt/open_model.h"
#include "tests/axis_slice.h"
#include "tests/ckpt/ckpt_fixtures.h"

namespace mtl::test {

inline const std::string kDeepSpeed = "golden/deepspeed/";

inline ModelSource open_deepspeed_case(const std::string& path, std::optional<std::int64_t> heads = std::nullopt) {
  Console console = quiet_console();
  ModelSupplement given{.num_attention_heads = heads};
  if (!contains(path, "universal") && !heads) given.vocab_size = 32;  // a universal checkpoint has no padding
  return open_model(path, console, given);
}

inline void check_equal(const ModelSource& source, const std::string& name, const ModelSource& expected,
                        const std::string& expected_name, const Slice& slice) {
  CAPTURE(name);
  const std::vector<float> a = elements_of(source, name, slice), b = elements_of(expected, expected_name, slice);
  CHECK(a.size() == b.size());
  CHECK(std::memcmp(a.data(), b.data(), 4 * a.size()) == 0);
}

/// Compares the tensors of one kind ("param", "exp_avg") with the parameters of another model.
inline void check_kind(const ModelSource& source, const std::string& kind, const ModelSource& expected) {
  for (const SavedTensor& tensor : expected.tensors()) {
    const std::string name = kind + tensor.name.substr(tensor.name.find('.'));
    const Slice whole = whole_slice(tensor.shape);
    check_equal(source, name, expected, tensor.name, whole);
    for (int axis = 0; axis < static_cast<int>(tensor.shape.size()); ++axis) {
      if (tensor.shape[axis] % 2 != 0) continue;
      Slice slice = axis_slice(tensor.shape, axis, 1, 2);
      slice.begin = slice.count() / 3, slice.end -= 1;
      if (slice.count() > 0) check_equal(source, name, expected, tensor.name, slice);
    }
  }
}

/// Copies a case's folder; returns the path of the copied checkpoint.
inline std::string copy_deepspeed_case(const ScratchFolder& scratch, const std::string& name) {
  const std::string to = scratch / "copy";
  fs::remove_all(to);
  fs::copy(kDeepSpeed + name, to, fs::copy_options::recursive);
  return to + "/global_step2";
}

/// Removes the files whose names contain `part`.
inline void remove_matching(const std::string& folder, const std::string& part) {
  int removed = 0;
  std::vector<fs::path> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().find(part) != std::string::npos) found.push_back(entry.path());
  }
  for (const fs::path& path : found) removed += fs::remove(path) ? 1 : 0;
  REQUIRE(removed > 0);
}

}  // namespace mtl::test
