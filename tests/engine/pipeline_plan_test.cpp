// Balanced stages, compared with all other divisions of the layers, and what the plan says of stages.
#include "engine/pipeline_plan.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "engine/place_durations.h"
#include "tests/gpt_of_size.h"

using namespace mtl;
using namespace mtl::test;

namespace {

using Counts = std::vector<std::int64_t>;

RunShape shape_of(int stages, std::int64_t vocab, std::int64_t length = 128) {
  RunShape shape;
  shape.seq_length = length;
  shape.micro_batches = 8;
  shape.padded_vocab = vocab;
  shape.layout.grid = RankGrid({.pipeline = stages});
  return shape;
}

/// Returns the FLOPs of the stage that has the most, and the sum of their squares.
std::pair<double, double> cost_of(const GptConfig& config, RunShape shape, const Counts& counts) {
  shape.layout.split.layer_counts = counts;
  const Places places = shape.layout.places();
  std::vector<double> stages(static_cast<std::size_t>(places.stages), 0);
  const std::vector<ActionDurations> durations = place_durations(config, {}, shape);
  for (int position = 0; position < places.count(); ++position) {
    const ActionDurations& place = durations[static_cast<std::size_t>(position)];
    stages[static_cast<std::size_t>(places.at(position).stage)] += place.forward + place.backward + place.weight;
  }
  std::pair<double, double> out{0, 0};
  for (double flops : stages) out = {std::max(out.first, flops), out.second + flops * flops};
  return out;
}

/// Calls visit(counts) for every division of `layers` layers over `places` places.
template <class Visit>
void for_each_division(std::int64_t layers, std::size_t places, Counts& counts, const Visit& visit) {
  const bool is_last = counts.size() + 1 == places, is_inner = !counts.empty() && !is_last;
  for (std::int64_t count = is_last ? layers : is_inner; count <= layers; ++count) {
    counts.push_back(count);
    is_last ? visit(counts) : for_each_division(layers - count, places, counts, visit);
    counts.pop_back();
  }
}

}  // namespace

TEST_CASE("no other division has a smaller largest stage, or is more equal") {
  for (int stages : {2, 3, 4}) {
    for (std::int64_t layers : {3, 5, 7}) {
      for (std::int64_t vocab : {64, 1000, 8000}) {
        for (bool has_windows : {false, true}) {
          const GptSizes sizes{.vocab = vocab, .layers = layers, .hidden = 64, .heads = 4, .positions = 128};
          GptConfig config = has_windows ? qwen_of_size(sizes) : gpt_of_size(sizes);
          if (has_windows) {
            config.sliding_window = 8;
            config.first_window_layer = 1;
          }
          CAPTURE(stages);
          CAPTURE(layers);
          CAPTURE(vocab);
          const RunShape shape = shape_of(stages, vocab);
          const Counts found = balanced_layer_counts(config, {}, shape);
          REQUIRE(std::ssize(found) == stages);
          const auto [most, squares] = cost_of(config, shape, found);
          int divisions = 0;
          Counts counts;
          for_each_division(layers, static_cast<std::size_t>(stages), counts, [&](const Counts& other) {
            const auto [other_most, other_squares] = cost_of(config, shape, other);
            CHECK(most <= other_most * (1 + 1e-9));
            if (other_most <= most) CHECK(squares <= other_squares * (1 + 1e-9));
            ++divisions;
          });
          CHECK(divisions >= 2);
        }
      }
    }
  }
}

TEST_CASE("chunks: no other division has a smaller largest stage") {
  for (ScheduleKind kind : {ScheduleKind::interleaved, ScheduleKind::zero_bubble_v}) {
    for (int stages : {2, 3}) {
      for (std::int64_t layers : {6, 8}) {
        for (std::int64_t vocab : {64, 1000, 8000}) {
          CAPTURE(static_cast<int>(kind));
          CAPTURE(stages);
          CAPTURE(layers);
          CAPTURE(vocab);
          const GptConfig config =
              gpt_of_size({.vocab = vocab, .layers = layers, .hidden = 64, .heads = 4, .positions = 128});
          RunShape shape = shape_of(stages, vocab);
          shape.layout.schedule = kind;
          shape.layout.chunks = 2;
          const double most = cost_of(config, shape, balanced_layer_counts(config, {}, shape)).first;
          Counts counts;
          for_each_division(layers, static_cast<std::size_t>(2 * stages), counts, [&](const Counts& other) {
            CHECK(most <= cost_of(config, shape, other).first * (1 + 1e-9));
          });
        }
      }
    }
  }
}

TEST_CASE("the stage with the output layer gets fewer layers, and the plan says what the schedule can use") {
  const auto plan_of = [](std::int64_t vocab, bool balances, int tensor = 1) {
    const GptConfig config = gpt_of_size({.vocab = vocab, .layers = 6, .hidden = 384, .heads = 6, .positions = 128});
    RunShape shape = shape_of(2, (vocab + 127) / 128 * 128);
    shape.layout.grid = RankGrid({.tensor = tensor, .pipeline = 2});
    if (balances) shape.layout.split.layer_counts = balanced_layer_counts(config, {}, shape);
    return *plan_pipeline(config, {}, shape);
  };
  const PipelinePlan even = plan_of(8192, false), balanced = plan_of(8192, true);
  CHECK(even.layout == "Et*3|t*3L");
  CHECK(balanced.layout == "Et*4|t*2L");
  CHECK(even.busy == doctest::Approx(0.757).epsilon(0.003));
  CHECK(balanced.busy == doctest::Approx(0.872).epsilon(0.003));
  CHECK(std::accumulate(even.flops.begin(), even.flops.end(), 0.0) ==
        doctest::Approx(std::accumulate(balanced.flops.begin(), balanced.flops.end(), 0.0)));
  CHECK(describe_pipeline(balanced).find("output layer alone") == std::string::npos);
  const PipelinePlan large = plan_of(50257, true);
  CHECK(large.layout == "Et*6|L");
  CHECK(large.head_is_too_large());
  CHECK(describe_pipeline(large).find("; --tensor-model-parallel-size divides it") != std::string::npos);
  CHECK_FALSE(plan_pipeline(gpt_of_size({}), {}, shape_of(1, 128)));
}

TEST_CASE("too few layers for the stages are refused") {
  const GptConfig config = gpt_of_size({.vocab = 64, .layers = 2, .hidden = 64, .heads = 4, .positions = 128});
  CHECK(balanced_layer_counts(config, {}, shape_of(4, 64)) == Counts{0, 1, 1, 0});
  CHECK_THROWS_AS(balanced_layer_counts(config, {}, shape_of(5, 64)), Error);
}
