// GPT configuration: the padded vocabulary, compared with Megatron-LM's.
#include "nn/gpt_config.h"

#include <doctest/doctest.h>

#include "base/files.h"
#include "base/json.h"
#include "tests/golden_lines.h"

using namespace mtl;

TEST_CASE("the padded vocabulary equals Megatron's") {
  int cases = 0;
  for (const Json& row : golden_lines("golden/ranks/vocab_padding.jsonl")) {
    auto value = [&](std::size_t column) { return row.as_array()[column].as_int(); };
    CAPTURE(row.dump());
    CHECK(padded_vocab_size(value(0), value(1), value(2)) == value(3));
    ++cases;
  }
  CHECK(cases > 100);
}
