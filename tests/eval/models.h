// The tiny models that the tests of this room run.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "eval/model.h"
#include "tests/data/golden.h"

namespace mtl::test {

inline ModelSource open_model(const std::string& name) {
  Console console("test");
  console.quiet = true;
  return ModelSource::open("golden/gpt2_model/" + name, console);
}

using Ids = std::vector<std::int32_t>;

}  // namespace mtl::test
