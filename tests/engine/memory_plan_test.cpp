// Memory plans: a run's buffers by category and space, with one entry per row in the parameter store.
#include "engine/memory_plan.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "comm/staging.h"
#include "engine/meta_model.h"
#include "tests/gpt_of_size.h"

using namespace mtl;

namespace {

GptConfig planned_gpt() {
  return test::gpt_of_size({.vocab = 100, .layers = 4, .hidden = 32, .heads = 4, .positions = 16});
}

RunShape plan_shape(int tensor, int stages, int data) {
  RunShape shape;
  shape.micro_batch = 2;
  shape.seq_length = 16;
  shape.micro_batches = 4;
  shape.padded_vocab = 128;
  shape.batch_sets = 2;
  shape.layout.grid = RankGrid({.tensor = tensor, .data = data, .pipeline = stages});
  shape.layout.zero = 1;
  return shape;
}

int count(const MemoryPlan& plan, Category what) {
  return static_cast<int>(std::count_if(plan.entries.begin(), plan.entries.end(),
                                        [&](const PlanEntry& entry) { return entry.category == what; }));
}

}  // namespace

TEST_CASE("a plan lists each buffer once, in its category and space") {
  for (int stages : {1, 2}) {
    for (int rank = 0; rank < 4 * stages; ++rank) {
      CAPTURE(stages);
      CAPTURE(rank);
      RunShape shape = plan_shape(2, stages, 2);
      shape.layout.rank = rank;
      MemoryPlan plan = plan_training(planned_gpt(), {}, shape);
      MetaModel model(planned_gpt(), {}, shape);
      CHECK(count(plan, Category::parameters) == 1);
      CHECK(count(plan, Category::gradients) == 1);
      CHECK(count(plan, Category::optimizer) == 2);
      std::size_t rows = 0, sum = 0;
      for (std::size_t row = 0; row < model.params.table().size(); ++row) rows += model.params.bytes(row);
      CHECK(rows ==
            plan.bytes(Category::parameters) + plan.bytes(Category::gradients) + plan.bytes(Category::optimizer));
      CHECK(plan.bytes(Category::optimizer) == plan.bytes(Category::parameters));  // half each of two states
      std::size_t staging = 0;
      for (const Communicator* group : model.groups.all()) staging += staging_bytes(group->size());
      CHECK(plan.bytes(Category::staging) == staging);
      CHECK(plan.entry(Category::batches).count == 8);
      CHECK((plan.bytes(Category::messages) > 0) == (stages > 1));
      for (const PlanEntry& entry : plan.entries) {
        sum += entry.bytes * static_cast<std::size_t>(entry.count);
        CHECK((entry.space == Space::host) == (entry.category == Category::staging));
      }
      CHECK(sum == plan.total_bytes());
      CHECK(sum > 0);
    }
  }
}

TEST_CASE("looking up an absent or duplicate entry of a plan is refused") {
  MemoryPlan plan;
  plan.entries = {{Category::scratch, Space::device, 100},
                  {Category::optimizer, Space::device, 8},
                  {Category::optimizer, Space::device, 8},
                  {Category::slots, Space::device, 10, 3}};
  CHECK(plan.entry(Category::slots).total() == 30);
  CHECK(plan.total_bytes() == 146);
  CHECK(plan.bytes(Category::messages) == 0);
  CHECK_THROWS_AS(plan.entry(Category::messages), Error);
  CHECK_THROWS_AS(plan.entry(Category::optimizer), Error);
  plan.enlarge(Category::scratch, 90);
  CHECK(plan.entry(Category::scratch).bytes == 100);
  plan.enlarge(Category::scratch, 110);
  CHECK(plan.entry(Category::scratch).bytes == 110);
}
