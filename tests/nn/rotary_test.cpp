// Rotary frequencies, compared with transformers' tables. Scaled ones: tests/models/hf_rotary_test.cpp.
#include "nn/rotary.h"

#include <doctest/doctest.h>

#include <cmath>

#include "base/json.h"
#include "tests/error_of.h"
#include "tests/kernels/reference.h"

using namespace mtl;

namespace {

/// Returns the configuration for these config.json keys.
GptConfig config_of(const Json& json) {
  GptConfig config;
  config.hidden_size = json.at("hidden_size").as_int();
  config.num_heads = json.at("num_attention_heads").as_int();
  if (const Json* head_dim = json.find("head_dim"); head_dim != nullptr && !head_dim->is_null())
    config.head_dim = head_dim->as_int();
  config.complete();
  const Json& rope = json.at("rope_parameters");
  RotaryOptions& rotary = config.rotary;
  rotary.base = rope.at("rope_theta").as_number();
  rotary.percent = rope.number_or("partial_rotary_factor", 1);
  REQUIRE(rope.at("rope_type").as_string() == "default");
  return config;
}

/// Returns max |f - expected| / expected.
double error_of_frequencies(const RotaryFrequencies& frequencies, const Json& expected) {
  const Json::Array& values = expected.as_array();
  REQUIRE(frequencies.pairs == std::ssize(values));
  double worst = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    worst = test::larger_or_nan(worst, std::abs(frequencies.values[i] / values[i].as_number() - 1));
  return worst;
}

}  // namespace

TEST_CASE("rotary: frequencies, cosines and sines equal the golden models'") {
  for (const char* model : {"llama", "qwen2", "mistral", "neox"}) {
    CAPTURE(model);
    const std::string folder = cat("golden/llama_model/", model);
    const RotaryFrequencies frequencies = rotary_frequencies(config_of(Json::read(folder + "/config.json")), 64);
    const Json golden = Json::read(folder + "/rope.json");
    CHECK(error_of_frequencies(frequencies, golden.at("inv_freq")) < 2e-7);

    const auto rows = std::ssize(golden.at("positions").as_array());
    const std::int64_t pairs = frequencies.pairs;
    const test::Owned positions(DType::i32, {rows}), angles({rows, 2, pairs});
    for (std::int64_t n = 0; n < rows; ++n)
      positions.host<std::int32_t>()[n] = static_cast<std::int32_t>(golden.at("positions").as_array()[n].as_int());
    Stream stream(test::kDevice);
    rotary_angles(stream, angles, positions, frequencies);
    double worst = 0;
    for (std::int64_t n = 0; n < rows; ++n) {
      const float* row = angles.begin() + n * 2 * pairs;
      for (std::int64_t i = 0; i < 2 * pairs; ++i) {  // transformers stores both halves' columns
        const auto at = [&](const char* what) { return golden.at(what).as_array()[n].as_array()[i].as_number(); };
        worst = test::larger_or_nan(worst, std::abs(row[i % pairs] - at("cos")));
        worst = test::larger_or_nan(worst, std::abs(row[pairs + i % pairs] - at("sin")));
      }
    }
    CHECK(worst < 3e-7);
  }
}

TEST_CASE("rotary: invalid options are refused, with the numbers") {
  using Scaling = RotaryOptions::Scaling;
  const auto problem = [](std::int64_t head_dim, const RotaryOptions& rotary) {
    GptConfig config;
    config.head_dim = head_dim;
    config.rotary = rotary;
    return test::error_of([&] { rotary_frequencies(config, 64); });
  };
  const auto refused = [&](std::int64_t head_dim, const RotaryOptions& rotary, const char* why) {
    return test::contains(problem(head_dim, rotary), why);
  };
  CHECK(problem(64, {}).empty());
  CHECK(problem(256, {}).empty());
  CHECK(problem(80, {.percent = 0.25}).empty());
  CHECK(refused(63, {}, "63 elements of a head of 63; they must be an even number"));
  CHECK(refused(12, {.percent = 0.25}, "covers 3 elements"));
  CHECK(refused(64, {.percent = 0.01}, "covers 0 elements"));
  CHECK(refused(64, {.percent = 2}, "part of a head is 2;"));
  CHECK(refused(64, {.percent = NAN}, "part of a head is nan;"));
  CHECK(refused(258, {}, "from 2 to 256"));
  CHECK(refused(64, {.base = 0}, "base is 0;"));
  CHECK(refused(64, {.scaling = Scaling::linear, .factor = 0}, "factor is 0;"));
  CHECK(refused(64, {.scaling = Scaling::llama3, .low_freq_factor = 4, .high_freq_factor = 4}, "more than the low"));
  CHECK(refused(64, {.scaling = Scaling::llama3, .original_positions = 0}, "are 0; they must be at least 1"));
  CHECK(refused(64, {.base = 1, .scaling = Scaling::yarn}, "yarn needs a base above 1"));
  CHECK(refused(64, {.scaling = Scaling::yarn, .beta_fast = 1, .beta_slow = 2}, "are 1 and 2; they must be positive"));
  CHECK(refused(64, {.scaling = Scaling::yarn, .beta_fast = NAN}, "are nan and 1;"));
  CHECK(refused(64, {.scaling = Scaling::yarn, .attention_factor = 0}, "attention factor of rotary scaling is 0;"));
  const std::vector<double> ones(32, 1.0), other(31, 1.0);
  CHECK(problem(64, {.scaling = Scaling::longrope, .short_factors = ones, .long_factors = ones}).empty());
  CHECK(refused(64, {.scaling = Scaling::longrope, .short_factors = ones, .long_factors = other},
                "long_factor of longrope has 31 numbers; it must have 32"));
  CHECK(refused(64, {.scaling = Scaling::dynamic, .factor = 0.5}, "by 0.5; use a factor of at least 1"));
  CHECK(refused(2, {.scaling = Scaling::dynamic, .factor = 2}, "needs at least 4 elements"));
}

TEST_CASE("rotary: sequences may be as long as the scaling reaches; frequencies change with dynamic's and longrope's") {
  using Scaling = RotaryOptions::Scaling;
  GptConfig config;
  config.head_dim = 16;
  config.max_positions = 24;
  CHECK(config.longest_sequence() == 24);
  config.rotary = {.scaling = Scaling::dynamic, .factor = 2.5};
  CHECK(config.longest_sequence() == 24);  // learned positions
  config.position_embedding = PositionEmbedding::rotary;
  CHECK(config.longest_sequence() == 60);
  CHECK_FALSE(rotary_frequencies_change(config, 23));
  CHECK(rotary_frequencies_change(config, 24));
  CHECK(rotary_frequencies_change(config, 40));
  config.rotary = {.scaling = Scaling::longrope,
                   .short_factors = std::vector<double>(8, 1.0),
                   .long_factors = std::vector<double>(8, 2.0),
                   .original_positions = 12};
  CHECK(config.longest_sequence() == 24);
  config.rotary.factor = 4;
  CHECK(config.longest_sequence() == 48);
  for (const auto& [scaling, longest] :
       {std::pair(Scaling::none, 24), {Scaling::linear, 96}, {Scaling::llama3, 48}, {Scaling::yarn, 48}}) {
    config.rotary.scaling = scaling;
    CHECK(config.longest_sequence() == longest);
  }
  config.max_positions = 50;  // yarn reaches 48
  CHECK(config.longest_sequence() == 50);
  config.rotary.factor = 1e9;
  CHECK(config.longest_sequence() == INT32_MAX);
  config.rotary = {.scaling = Scaling::longrope,
                   .short_factors = std::vector<double>(8, 1.0),
                   .long_factors = std::vector<double>(8, 2.0),
                   .original_positions = 12};
  CHECK_FALSE(rotary_frequencies_change(config, 11));
  CHECK(rotary_frequencies_change(config, 12));
  CHECK_FALSE(rotary_frequencies_change(config, 13));
}
