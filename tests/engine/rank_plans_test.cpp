// Plans of the largest ranks, compared with the plans of all ranks.
#include "engine/rank_plans.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "layout/schedule.h"
#include "nn/model_params.h"
#include "tests/gpt_of_size.h"

using namespace mtl;
using namespace mtl::test;

namespace {

/// A shape of random sizes, for a model with 8 layers, 4 heads and 2 query groups.
RunShape random_shape(std::mt19937& random) {
  const auto one_of = [&](std::initializer_list<int> values) { return *(values.begin() + random() % values.size()); };
  RunShape shape;
  shape.micro_batch = one_of({1, 2});
  shape.seq_length = 16;
  shape.micro_batches = 4 * one_of({1, 2, 3});
  shape.padded_vocab = 128;
  shape.batch_sets = 2;
  shape.device = one_of({0, 1}) == 0 ? Device::cpu : Device::cuda;
  Layout& layout = shape.layout;
  layout.grid = RankGrid(
      {.tensor = one_of({1, 2}), .context = one_of({1, 2}), .data = one_of({1, 2, 3}), .pipeline = one_of({1, 2, 4})});
  layout.sequence_parallel = layout.size(Axis::tensor) > 1 && one_of({0, 1}) == 1;
  layout.zero = one_of({0, 1, 2});
  shape.storage.bucket_elements = one_of({1, 5000});
  if (layout.stages() == 1) return shape;
  layout.schedule = static_cast<ScheduleKind>(one_of({1, 2, 3, 5}));
  const bool has_chunks =
      layout.schedule == ScheduleKind::interleaved || layout.schedule == ScheduleKind::zero_bubble_v;
  layout.chunks = has_chunks ? 2 : 1;
  // Stages between the ends need the most.
  if (layout.stages() == 4 && !has_chunks && one_of({0, 1}) == 1) layout.split.layer_counts = {0, 4, 4, 0};
  if (defers_weights(layout.schedule)) layout.zero = std::min(layout.zero, 1);
  return shape;
}

}  // namespace

TEST_CASE("the largest of some ranks' plans is the largest of all") {
  std::mt19937 random(5);
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    const RunShape shape = random_shape(random);
    const GptSizes sizes{.vocab = 100, .layers = 8, .hidden = 32, .heads = 4, .positions = 16};
    GptConfig config = round % 2 == 0 ? gpt_of_size(sizes) : llama_of_size(sizes);
    if (round % 3 == 0) {
      config.sliding_window = 5;
      config.first_window_layer = 3;
    }
    const Space space = shape.device == Device::cpu ? Space::host : Space::device;
    std::size_t largest = 0;
    const auto schedule = pipeline_schedule(shape.layout, static_cast<int>(shape.micro_batches));
    const std::vector<MemoryPlan> plans = plan_largest_ranks(config, {}, shape, schedule);
    for (const MemoryPlan& plan : plans) largest = std::max(largest, plan.total_bytes(space));
    CHECK(largest == largest_plan(plan_ranks(config, {}, shape)).plan.total_bytes(space));
  }
}

TEST_CASE("ranks copy what they save, elements that several of them own only once") {
  std::mt19937 random(6);
  const GptConfig config = gpt_of_size({.vocab = 100, .layers = 8, .hidden = 32, .heads = 4, .positions = 16});
  for (int round = 0; round < 30; ++round) {
    CAPTURE(round);
    RunShape shape = random_shape(random);
    shape.copies_saves = true;
    const auto elements = [&](const MemoryPlan& plan) {
      return plan.bytes(Category::save_copy) / 12;  // weights and two moments in fp32
    };
    std::int64_t copied = 0;
    for (const RankPlan& each : plan_ranks(config, {}, shape)) {
      for (int rank : each.ranks) {
        shape.layout.rank = rank;
        CHECK(elements(plan_training(config, {}, shape)) == elements(each.plan));
        copied += elements(each.plan);
      }
    }
    CHECK(copied >= parameter_count(config));
    CHECK(double(copied) <=
          1.05 * double(parameter_count(config)));  // padding, and norms of other tensor-parallel ranks
  }
}
