// Opens the tiny models that the tests in this folder run.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "ckpt/open_model.h"
#include "eval/model.h"
#include "tests/data/golden.h"

namespace mtl::test {

/// `path` is relative to golden/.
inline ModelSource open_golden(const std::string& path) {
  Console console("test");
  console.quiet = true;
  return open_model("golden/" + path, console);
}
inline ModelSource open_model(const std::string& name) { return open_golden("gpt2_model/" + name); }

using Ids = std::vector<std::int32_t>;

}  // namespace mtl::test
