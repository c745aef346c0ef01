// Stages: their layers, compared with Megatron-LM's, and the splits that only mtl supports.
#include "layout/stages.h"

#include <doctest/doctest.h>

#include <sstream>

#include "base/error.h"
#include "tests/golden_lines.h"

using namespace mtl;

namespace {

std::optional<std::int64_t> int_or_none(const Json& json) {
  return json.is_null() ? std::nullopt : std::optional(json.as_int());
}

/// A model's layers, and how stages and chunks divide them.
struct Split {
  std::int64_t num_layers = 0;
  int stages = 1, chunks = 1;
  std::optional<std::int64_t> first_stage_layers = {}, last_stage_layers = {};
  bool account_for_embedding = false, account_for_loss = false;
  bool is_fixed = false;
};

Layout layout_of(const Split& split) {
  Layout layout;
  layout.grid = RankGrid({.pipeline = split.stages});
  layout.chunks = split.chunks;
  layout.split.first_stage_layers = split.first_stage_layers;
  layout.split.last_stage_layers = split.last_stage_layers;
  layout.split.account_for_embedding = split.account_for_embedding;
  layout.split.account_for_loss = split.account_for_loss;
  return layout;
}

std::vector<std::vector<LayerRange>> split_layers(const Split& split) {
  return split_layers(layout_of(split), split.num_layers);
}

Split split_of(const Json& args) {
  Split split;
  split.num_layers = args.at("num_layers").as_int();
  split.stages = static_cast<int>(args.at("p").as_int());
  split.chunks = static_cast<int>(args.at("v").as_int());
  split.first_stage_layers = int_or_none(args.at("num_layers_in_first_pipeline_stage"));
  split.last_stage_layers = int_or_none(args.at("num_layers_in_last_pipeline_stage"));
  split.account_for_embedding = args.at("account_for_embedding_in_pipeline_split").as_bool();
  split.account_for_loss = args.at("account_for_loss_in_pipeline_split").as_bool();
  return split;
}

std::vector<std::vector<LayerRange>> ranges_of(const Json& stages) {
  std::vector<std::vector<LayerRange>> out;
  for (const Json& stage : stages.as_array()) {
    std::vector<LayerRange>& chunks = out.emplace_back();
    for (const Json& chunk : stage.as_array())
      chunks.push_back({chunk.as_array()[0].as_int(), chunk.as_array()[1].as_int()});
  }
  return out;
}

std::vector<std::int64_t> counts(const Split& split) {
  std::vector<std::int64_t> out;
  std::int64_t next = 0;
  for (const std::vector<LayerRange>& chunks : split_layers(split)) {
    CHECK(chunks.size() == 1);
    CHECK(chunks[0].first == next);
    out.push_back(chunks[0].count);
    next += chunks[0].count;
  }
  return out;
}

}  // namespace

TEST_CASE("layers of stages equal Megatron's, and so do refusals") {
  int cases = 0, refused = 0;
  for (const Json& json : golden_lines("golden/ranks/layers.jsonl")) {
    Split split = split_of(json.at("args"));
    CAPTURE(json.dump());
    ++cases;
    if (json.at("error").is_null()) {
      CHECK(split_layers(split) == ranges_of(json.at("stages")));
    } else {
      ++refused;
      // This is the only rule that differs from Megatron's: mtl distributes surplus layers.
      bool uneven = split.chunks == 1 && !split.first_stage_layers && split.num_layers % split.stages != 0;
      if (!uneven) CHECK_THROWS_AS(split_layers(split), Error);
    }
  }
  CHECK(cases == 21);
  CHECK(refused == 3);
}

TEST_CASE("surplus layers go to consecutive stages from the second") {
  CHECK(counts({.num_layers = 13, .stages = 4}) == std::vector<std::int64_t>{3, 4, 3, 3});
  CHECK(counts({.num_layers = 14, .stages = 4}) == std::vector<std::int64_t>{3, 4, 4, 3});
  CHECK(counts({.num_layers = 15, .stages = 4}) == std::vector<std::int64_t>{3, 4, 4, 4});
  CHECK(counts({.num_layers = 3, .stages = 2}) == std::vector<std::int64_t>{1, 2});
  CHECK(counts({.num_layers = 5, .stages = 1}) == std::vector<std::int64_t>{5});
}

TEST_CASE("impossible splits are usage errors") {
  std::vector<Split> refused = {
      {.num_layers = 0},
      {.num_layers = 4, .stages = 0},
      {.num_layers = 3, .stages = 4},
      {.num_layers = 4, .stages = 1, .chunks = 2},
      {.num_layers = 13, .stages = 2, .chunks = 2},
      {.num_layers = 12, .stages = 1, .first_stage_layers = 3},
      {.num_layers = 12, .stages = 2, .first_stage_layers = 0},
      {.num_layers = 12, .stages = 2, .first_stage_layers = 12},
      {.num_layers = 12, .stages = 2, .first_stage_layers = 3, .last_stage_layers = 4},
      {.num_layers = 12, .stages = 3, .first_stage_layers = 3, .account_for_loss = true},
      {.num_layers = 12, .stages = 4, .account_for_embedding = true},
  };
  for (const Split& split : refused) {
    CAPTURE(split.num_layers);
    CAPTURE(split.stages);
    try {
      split_layers(split);
      FAIL("not refused");
    } catch (const Error& error) {
      CHECK(error.code() == Exit::usage);
    }
  }
}

namespace {

/// Returns why a split is refused, or "".
std::string refusal(const Split& split) {
  try {
    layer_counts(layout_of(split), split.num_layers, split.is_fixed);
    return "";
  } catch (const Error& error) {
    CHECK(error.code() == Exit::usage);
    return error.what();
  }
}

/// Returns the numbers that follow `flag` in the text: 7 and 11 in "choose --num-layers 7 or 11, or ...".
std::vector<std::int64_t> numbers_after(const std::string& text, const std::string& flag) {
  std::vector<std::int64_t> out;
  for (std::size_t at = text.find(flag + " "); at != std::string::npos; at = text.find(flag + " ", at + 1)) {
    std::istringstream words(text.substr(at + flag.size()));
    for (std::string word = "or"; word == "or" && words;) {
      std::int64_t number = 0;
      if (words >> number) out.push_back(number);
      words >> word;
    }
  }
  return out;
}

/// Applies every remedy that the refusal of a split names. Returns their number.
int check_remedies(const Split& split, const std::string& message) {
  int tried = 0;
  const std::string remedies = message.substr(message.rfind("; ") + 2);
  const auto check = [&](const Split& mended) {
    ++tried;
    CHECK(refusal(mended) == "");
  };
  const auto with = [&](auto member, auto value) {
    Split mended = split;
    mended.*member = value;
    return mended;
  };
  for (const std::int64_t layers : numbers_after(remedies, "--num-layers")) check(with(&Split::num_layers, layers));
  for (const std::int64_t layers : numbers_after(remedies, "--num-layers-in-first-pipeline-stage"))
    check(with(&Split::first_stage_layers, std::optional(layers)));
  for (const std::int64_t most : numbers_after(remedies, "--pipeline-model-parallel-size")) {
    if (split.chunks > 1) continue;
    for (std::int64_t stages = most; stages >= 1 && !split.first_stage_layers && !split.last_stage_layers; --stages)
      check(with(&Split::stages, static_cast<int>(stages)));
  }
  if (remedies.find("leave out --account-for-") != std::string::npos) {
    Split mended = with(&Split::account_for_embedding, false);
    mended.account_for_loss = false;
    check(mended);
  }
  return tried;
}

}  // namespace

TEST_CASE("every number that a refusal names can be used") {
  int refused = 0, tried = 0;
  const auto check = [&](const Split& split) {
    const std::string message = refusal(split);
    if (message.empty()) return;
    CAPTURE(message);
    ++refused;
    const int remedies = check_remedies(split, message);
    tried += remedies;
    if (remedies == 0)  // an end stage has more layers than the model, or cannot be divided into chunks
      CHECK((message.find("; use fewer") != std::string::npos ||
             message.find("chunks; choose a multiple of") != std::string::npos));
    Split loaded = split;
    loaded.is_fixed = true;
    const std::string other = refusal(loaded);
    CAPTURE(other);
    CHECK(other.substr(other.rfind("; ")).find("--num-layers ") == std::string::npos);
    check_remedies(loaded, other);
  };
  for (std::int64_t layers = 1; layers <= 20; ++layers) {
    for (int stages = 2; stages <= 5; ++stages) {
      for (int chunks = 1; chunks <= 3; ++chunks) {
        for (const bool embedding : {false, true}) {
          check({.num_layers = layers, .stages = stages, .chunks = chunks, .account_for_embedding = embedding});
          check({.num_layers = layers,
                 .stages = stages,
                 .chunks = chunks,
                 .account_for_embedding = embedding,
                 .account_for_loss = true});
        }
        for (std::int64_t first = 1; first <= 4; ++first) {
          Split split{.num_layers = layers, .stages = stages, .chunks = chunks, .first_stage_layers = first};
          check(split);
          for (split.last_stage_layers = 1; *split.last_stage_layers <= 4; ++*split.last_stage_layers) check(split);
        }
      }
    }
  }
  CHECK(refused > 2000);
  CHECK(tried > 3000);
  CHECK(refusal({.num_layers = 8, .stages = 4, .account_for_embedding = true}).find("--num-layers 7 or 11") !=
        std::string::npos);
}

TEST_CASE("end stages that do not fit are refused with numbers that would") {
  CHECK(refusal({.num_layers = 4, .stages = 2, .first_stage_layers = 1, .last_stage_layers = 2}) ==
        "--num-layers 4: --num-layers-in-first-pipeline-stage 1 and --num-layers-in-last-pipeline-stage 2 add up "
        "to 3, and there are no other stages; make them add up to 4, or choose --num-layers 3");
  CHECK(refusal({.num_layers = 8, .stages = 4, .first_stage_layers = 4, .last_stage_layers = 3}) ==
        "--num-layers 8: --num-layers-in-first-pipeline-stage 4 and --num-layers-in-last-pipeline-stage 3 leave 1 "
        "layer, and "
        "each of the other 2 stages needs at least 1; choose --num-layers 9");
  CHECK(refusal({.num_layers = 8, .stages = 3, .first_stage_layers = 6, .last_stage_layers = 7}) ==
        "--num-layers 8: --num-layers-in-first-pipeline-stage 6 and --num-layers-in-last-pipeline-stage 7 exceed the "
        "number of layers, and the other stage needs at least 1; choose --num-layers 14");
  CHECK(refusal({.num_layers = 12, .stages = 4, .last_stage_layers = 2}) ==
        "--num-layers 12: --num-layers-in-last-pipeline-stage 2 leaves 10 layers, which cannot be divided equally over "
        "the other 3 stages; choose --num-layers 11 or 14, or end stages that leave a multiple of 3");
  CHECK(
      refusal({.num_layers = 4, .stages = 1, .last_stage_layers = 2}).find("--num-layers-in-last-pipeline-stage 2: ") ==
      0);
  CHECK(refusal({.num_layers = 4, .stages = 2, .first_stage_layers = INT64_MAX, .last_stage_layers = INT64_MAX}) ==
        "--num-layers-in-first-pipeline-stage 9223372036854775807: is more than --num-layers 4; use fewer");
}
