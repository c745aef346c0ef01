// Step invariants: planned memory, accumulation over micro-batches, reproducible bits, and no update from a non-finite
// gradient.
#include <random>

#include "nn/model_params.h"
#include "optim/optimizer.h"
#include "tests/engine/golden_model.h"
#include "tests/layout/pipelines.h"

using namespace mtl;
using namespace mtl::test;

namespace {

const DropoutOptions kStepDropout{.hidden = 0.2f, .attention = 0.2f, .seed = 5};

RunShape step_shape(std::int64_t micro_batch, std::int64_t micro_batches, int threads = 1) {
  return {.micro_batch = micro_batch,
          .seq_length = 16,
          .micro_batches = micro_batches,
          .padded_vocab = 512,
          .documents = false,
          .threads = threads,
          .layout = {}};
}

/// Fills the batches with random tokens, row by row, so that they do not depend on the micro-batch size.
void fill_random(GoldenModel& model) {
  std::mt19937 random(3);
  auto count = static_cast<std::size_t>(model.shape.micro_batch * model.shape.seq_length);
  double weight = 1.0 / static_cast<double>(count * static_cast<std::size_t>(model.shape.micro_batches));
  for (int m = 0; m < model.shape.micro_batches; ++m) {
    std::vector<double> tokens(count), labels(count);
    for (std::size_t i = 0; i < count; ++i) tokens[i] = random() % 512, labels[i] = random() % 512;
    model.fill(m, tokens, labels, std::vector<double>(count, weight));
  }
}

std::vector<float> copy_of(const Tensor& tensor) {
  return {tensor.data<float>(), tensor.data<float>() + tensor.numel()};
}

}  // namespace

TEST_CASE("a step uses exactly the planned memory") {
  for (float dropout : {0.0f, 0.1f}) {
    for (bool documents : {false, true}) {
      for (int threads : {1, 3}) {
        RunShape shape = step_shape(2, 3, threads);
        shape.documents = documents;
        GoldenModel model("gpt2_model/a", shape, {.hidden = dropout, .attention = dropout, .seed = 1});
        fill_random(model);
        model.train_step();
        Optimizer(model.params, {}, model.stream, model.groups).step(model.pipeline.scratch(), &model.state);
        CHECK(model.pipeline.slot_peak() == model.plan.entry(Category::slots).bytes);
        CHECK(model.pipeline.scratch().peak() == model.plan.entry(Category::scratch).bytes);
        CHECK(model.params.bytes(kValues) == model.plan.bytes(Category::parameters));
        CHECK(2 * model.params.bytes(kFirstState) == model.plan.bytes(Category::optimizer));
        CHECK(model.stream.counters().flops == model.plan.step.flops);
        CHECK(model.plan.parameters == parameter_count(model.config));
      }
    }
  }
}

TEST_CASE("two micro-batches produce the gradients of one twice the size, dropout included") {
  GoldenModel whole("gpt2_model/a", step_shape(4, 1), kStepDropout),
      halves("gpt2_model/a", step_shape(2, 2), kStepDropout);
  fill_random(whole);
  fill_random(halves);
  whole.train_step();
  halves.train_step();
  for (int p = 0; p < whole.params.size(); ++p) {
    CAPTURE(whole.params.specs()[static_cast<std::size_t>(p)].name);
    std::vector<float> expected = copy_of(whole.params.grad(p));
    CHECK(max_relative(halves.params.grad(p).data<float>(), {expected.begin(), expected.end()}) < 2e-5);
  }
}

TEST_CASE("other sample numbers draw other dropout masks") {
  GoldenModel model("gpt2_model/a", step_shape(2, 1), kStepDropout);
  fill_random(model);
  model.train_step();
  std::vector<float> first = copy_of(model.buffers.losses(0));
  model.params.begin_step();
  for (std::int64_t row = 0; row < 2; ++row) model.buffers.batch(0).samples.data<std::int64_t>()[row] += 2;
  model.pipeline.train(model.buffers);
  CHECK(first != copy_of(model.buffers.losses(0)));
}

TEST_CASE("a non-finite gradient changes no parameter") {
  GoldenModel model("gpt2_model/a", step_shape(1, 1));
  fill_random(model);
  Optimizer optimizer(model.params, {}, model.stream, model.groups);
  model.state.step = 1;
  model.state.lr = 0.1;
  optimizer.set_factors(model.state);
  std::vector<float> before = copy_of(model.params.buckets()[0].values());
  for (float bad : {INFINITY, -INFINITY, NAN}) {
    model.train_step();
    model.params.grad(3).data<float>()[0] = bad;
    optimizer.step(model.pipeline.scratch(), &model.state);
    CHECK(model.state.found_inf != 0);
    CHECK(before == copy_of(model.params.buckets()[0].values()));
  }
  model.train_step();
  optimizer.step(model.pipeline.scratch(), &model.state);
  CHECK(model.state.found_inf == 0);
  CHECK(before != copy_of(model.params.buckets()[0].values()));
}

namespace {

/// Checks that computing all weight gradients after the last backward gives the same bits as a step without
/// recomputation.
void check_late_weights(const char* name, const Recompute& recompute) {
  const DropoutOptions dropout{.hidden = 0.1f, .attention = 0.1f, .seed = 5};
  RunShape split_shape = step_shape(2, 3);
  split_shape.recompute = recompute;
  GoldenModel whole(name, step_shape(2, 3), dropout), split(name, split_shape, dropout);
  fill_random(whole);
  fill_random(split);
  whole.train_step();
  std::vector<Action> actions;
  for (ActionKind kind : {ActionKind::forward, ActionKind::backward, ActionKind::weight})
    for (int m = 0; m < 3; ++m) actions.push_back({kind, m, 0});
  StepSchedule schedule(actions);
  CHECK(schedule_text(schedule.actions) == "F0 F1 F2 B0 B1 B2 W0 W1 W2");
  CHECK(std::count(schedule.ends_gradients.begin(), schedule.ends_gradients.end(), true) == 1);
  CHECK(schedule.ends_gradients.back());
  MemoryPlan plan = whole.plan;
  plan.entry(Category::slots).bytes *= 3;    // operands stay in the slot until their weight gradients
  plan.entry(Category::scratch).bytes *= 2;  // the MLP then copies its activation's input
  Pipeline pipeline(split.stage, split.stream, split.groups, schedule, plan);
  CHECK(pipeline.slots() == 3);
  split.params.begin_step();
  pipeline.train(split.buffers);
  for (int p = 0; p < whole.params.size(); ++p) {
    CAPTURE(whole.params.specs()[static_cast<std::size_t>(p)].name);
    CHECK(copy_of(whole.params.grad(p)) == copy_of(split.params.grad(p)));
  }
}

}  // namespace

TEST_CASE("separate weight-gradient actions, however late, produce the same bits") {
  using Granularity = Recompute::Granularity;
  for (const char* name : {"gpt2_model/a", "llama_model/llama"}) {
    CAPTURE(name);
    for (const Recompute& recompute :
         {Recompute{}, Recompute{Granularity::selective}, Recompute{Granularity::full, Recompute::Method::uniform, 2},
          Recompute{Granularity::full, Recompute::Method::block, 1}}) {
      CAPTURE(static_cast<int>(recompute.granularity));
      CAPTURE(recompute.num_layers);
      check_late_weights(name, recompute);
    }
  }
}

namespace {

/// Records the run's progress, as messages about faults print it, whenever a unit begins.
struct ProgressWitness final : ParamOwner {
  OperationProgress progress{.iteration = 3};
  std::vector<std::string> seen;

  Lease acquire(Role, int, std::optional<int>) override {
    if (seen.empty() || seen.back() != progress.text()) seen.push_back(progress.text());
    return {};
  }
  void gradients_done(int, bool) override {}
};

}  // namespace

TEST_CASE("while a micro-batch is computed, messages name the action and the micro-batch") {
  GoldenModel model("gpt2_model/a", step_shape(2, 2));
  fill_random(model);
  ProgressWitness witness;
  StepSchedule schedule({{ActionKind::forward, 0, 0},
                         {ActionKind::forward, 1, 0},
                         {ActionKind::backward, 0, 0},
                         {ActionKind::weight, 0, 0},
                         {ActionKind::backward, 1, 0},
                         {ActionKind::weight, 1, 0}});
  MemoryPlan plan = model.plan;
  plan.entry(Category::slots).bytes *= 2;
  plan.entry(Category::scratch).bytes *= 2;
  Pipeline pipeline(model.stage, model.stream, model.groups, schedule, plan, &witness);
  model.params.begin_step();
  pipeline.train(model.buffers, &witness.progress);
  const std::vector<std::string> expected = {
      ", iteration 3, forward of micro-batch 0",  ", iteration 3, forward of micro-batch 1",
      ", iteration 3, backward of micro-batch 0", ", iteration 3, weight gradients of micro-batch 0",
      ", iteration 3, backward of micro-batch 1", ", iteration 3, weight gradients of micro-batch 1"};
  CHECK(witness.seen == expected);
  CHECK(witness.progress.text() == ", iteration 3");
  witness.progress.action = "backward";
  witness.progress.chunk = 2;
  CHECK(witness.progress.text() == ", iteration 3, backward of micro-batch 1 in chunk 2");
}
