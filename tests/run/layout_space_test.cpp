// The layouts of a run: what is considered besides what the planner's tests count, because the run has it.
#include "run/layout_space.h"

#include <doctest/doctest.h>

#include <set>

#include "layout/schedule.h"
#include "tests/gpt_of_size.h"

using namespace mtl;

namespace {

TrainOptions run_of(std::int64_t ranks, std::int64_t micro_batch, std::optional<std::int64_t> batch) {
  TrainOptions out;
  out.parallel.world = ranks;
  out.data.seq_length = 64;
  out.batch.micro_batch_size = micro_batch;
  out.batch.global_batch_size = batch;
  out.dry_run = true;
  return out;
}

template <class Value>
std::set<Value> values(const TrainOptions& run, Value LayoutChoice::*axis, int pipeline = 1) {
  const GptConfig config = test::gpt_of_size({.vocab = 64, .layers = 4, .hidden = 32, .heads = 4, .positions = 64});
  std::set<Value> out;
  for (const LayoutChoice& each : layout_choices(run, config, false, {}))
    if (each.pipeline == pipeline) out.insert(each.*axis);
  return out;
}

}  // namespace

TEST_CASE("layout space: micro-batches are powers of two, the run's size and its divisors") {
  using Sizes = std::set<std::int64_t>;
  const auto sizes = [](const TrainOptions& run) { return values(run, &LayoutChoice::micro_batch); };
  CHECK(sizes(run_of(1, 1, 24)) == Sizes{1, 2, 4, 8});
  CHECK(sizes(run_of(1, 6, 24)) == Sizes{1, 2, 3, 4, 6, 8});
  CHECK(sizes(run_of(1, 6, {})) == Sizes{1, 2, 3, 6});
  TrainOptions ramp = run_of(1, 6, 24);
  ramp.batch.rampup = {"12", "6", "100"};
  ramp.batch.train_samples = 1000;
  CHECK(sizes(ramp) == Sizes{1, 2, 3, 4, 6, 8});
  TrainOptions rounded = run_of(1, 6, 20);
  CHECK(sizes(rounded) == Sizes{1, 2, 4});
  rounded.batch.decrease_if_needed = true;
  CHECK(sizes(rounded) == Sizes{1, 2, 3, 4, 6, 8, 16});
}

TEST_CASE("layout space: a run's own context-parallel size is considered, whatever the length of the parts") {
  TrainOptions run = run_of(4, 1, 8);
  CHECK(values(run, &LayoutChoice::context) == std::set{1});
  run.parallel.context = 2;
  CHECK(values(run, &LayoutChoice::context) == std::set{1, 2});
}

TEST_CASE("layout space: other schedules and splits than the run's are considered, without its chunks") {
  TrainOptions run = run_of(2, 1, 8);
  const auto all = values(run, &LayoutChoice::schedule, 2);
  CHECK(all.size() == kSchedules.size());
  run.parallel.pipeline = 2;
  run.parallel.virtual_stages = 2;
  run.parallel.pipeline_split = "balanced";
  CHECK(values(run, &LayoutChoice::schedule, 2) == all);
  CHECK(values(run, &LayoutChoice::is_balanced, 2) == std::set{false, true});
}
