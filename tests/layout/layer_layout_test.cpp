// The text of --pipeline-model-parallel-layout. The expected lists are those of Megatron-LM 0.16.1's parser.
#include "layout/layer_layout.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "layout/stages.h"

using namespace mtl;

namespace {

using Counts = std::vector<std::int64_t>;

std::string refusal(const std::string& text) {
  try {
    parse_layer_layout(text);
  } catch (const Error& error) {
    CHECK(error.code() == Exit::usage);
    return error.what();
  }
  return "";
}

/// Returns why `counts` cannot be distributed over the stages, or "".
std::string refusal(const Counts& counts, int stages, int chunks, std::int64_t num_layers, bool is_fixed = false) {
  Layout layout;
  layout.grid = RankGrid({.pipeline = stages});
  layout.chunks = chunks;
  layout.split.layer_counts = counts;
  try {
    CHECK(layer_counts(layout, num_layers, is_fixed) == counts);
  } catch (const Error& error) {
    CHECK(error.where() == "--pipeline-model-parallel-layout");
    return error.message();
  }
  return "";
}

}  // namespace

TEST_CASE("texts, with repeated elements and groups") {
  CHECK(parse_layer_layout("EttL") == Counts{2});
  CHECK(parse_layer_layout("Et|ttt|L") == Counts{1, 3, 0});
  CHECK(parse_layer_layout("Et*3|(tt|)*29,|L") == [] {
    Counts out{3};
    out.insert(out.end(), 29, 2);
    out.insert(out.end(), {0, 0});
    return out;
  }());
  CHECK(parse_layer_layout("Et*3|(tttt|)*2ttL") == Counts{3, 4, 4, 2});
  CHECK(parse_layer_layout("Et(t|tt|t)*2,tL") == Counts{2, 2, 2, 2, 2});
  CHECK(parse_layer_layout("E|(t|)*3L") == Counts{0, 1, 1, 1, 0});
  CHECK(parse_layer_layout("E,t,|*3,L") == Counts{1, 0, 0, 0});
  CHECK(parse_layer_layout("Et*0|t*2|L") == Counts{0, 2, 0});
  CHECK(parse_layer_layout("E(t)*12|(t*2|)*2tL") == Counts{12, 2, 2, 1});
}

TEST_CASE("texts that are refused") {
  CHECK(refusal("").find("must begin with E") == 0);
  CHECK(refusal("ttL").find("must begin with E") == 0);
  CHECK(refusal("|EtL").find("must begin with E") == 0);
  CHECK(refusal("EtE|tL").find("must begin with E") == 0);
  CHECK(refusal("Et|t").find("must end with L") == 0);
  CHECK(refusal("EtL|t").find("must end with L") == 0);
  CHECK(refusal("Et|tL|").find("must end with L") == 0);
  CHECK(refusal("Et|mL").find("has layers for multi-token prediction") == 0);
  CHECK(refusal("Et|xL").find("contains 'x'") == 0);
  CHECK(refusal("Et |tL").find("contains ' '") == 0);
  CHECK(refusal("Et*|tL").find("contains '*'") == 0);
  CHECK(refusal("E((t|)*2)*2L").find("contains '('") == 0);
  CHECK(refusal("E(t|tL").find("has a '('") == 0);
  CHECK(refusal("E()*2L").find("has a '('") == 0);
  CHECK(refusal("Et)*2L").find("contains ')'") == 0);
  CHECK(refusal("Et*99999999999999999999L").find("has more than") == 0);
  CHECK(refusal("E(t*1000|)*100000L").find("has more than") == 0);
  CHECK(refusal("E(tttttttttt)*1000*1000L").find("contains '*'") == std::string::npos);  // the last t, 1000 times
}

TEST_CASE("distributions that do not fit the stages are refused") {
  CHECK(refusal({1, 2, 3}, 3, 1, 6) == "");
  CHECK(refusal({0, 2, 3, 1, 0, 0}, 3, 2, 6) == "");
  CHECK(refusal({1, 2, 3}, 2, 2, 6).find("has 3 parts, and --pipeline-model-parallel-size 2 needs a multiple of 2") ==
        0);
  CHECK(refusal({1, 2, 3}, 3, 1, 7)
            .find("has 6 layers (t), but the model has 7; change the text, or use --num-layers 6") == 0);
  CHECK(refusal({1, 2, 3}, 3, 1, 7, true).find("--num-layers") == std::string::npos);
  CHECK(refusal({3, 0, 3}, 3, 1, 6).find("leaves stage 1 (counted from 0) without layers") == 0);
  CHECK(refusal({3, 0, 1, 1, 0, 1}, 3, 2, 6).find("leaves stage 1") == 0);
}
