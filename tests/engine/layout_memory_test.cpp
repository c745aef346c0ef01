// Every layout takes on every rank exactly what was planned for that rank, and its losses are those of one rank: before
// an update and after it, dropout on. The layouts are those of cli/layouts.txt; ranks are threads.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <mutex>
#include <sstream>

#include "base/files.h"
#include "base/str.h"
#include "engine/pipeline.h"
#include "engine/rank_plans.h"
#include "optim/optimizer.h"
#include "tests/comm/thread_group.h"
#include "tests/relative_error.h"

using namespace mtl;
using namespace mtl::test;

namespace {

constexpr std::int64_t kSamples = 16, kLength = 16, kVocab = 100;  // of a step, of a sample
constexpr int kSteps = 2;
const DropoutOptions kDropout{0.1f, 0.1f, 1234};

GptConfig tiny_gpt() {
  GptConfig config;
  config.vocab_size = kVocab;
  config.num_layers = 5;
  config.hidden_size = 64;
  config.num_heads = 8;
  config.max_positions = kLength;
  config.complete();
  return config;
}

struct Layout {
  std::string text;  // a line of layouts.txt
  RunShape shape;    // of rank 0
  GradSync::Overlap overlap;
};

Layout parse_layout(const std::string& line) {
  int tensor, sequence, stages, data, shard, overlap, micro_batch;
  std::string schedule;
  std::istringstream words(line);
  words >> tensor >> sequence >> stages >> schedule >> data >> shard >> overlap >> micro_batch;
  REQUIRE_MESSAGE(words, "not a layout: ", line);
  Layout layout{line, {}, {overlap != 0, overlap != 0 && shard != 0}};
  RunShape& shape = layout.shape;
  shape.micro_batch = micro_batch;
  shape.seq_length = kLength;
  shape.micro_batches = kSamples / (micro_batch * data);
  shape.padded_vocab = padded_vocab_size(kVocab, 8, tensor);  // up to 128: of 8 parts the last two have padding
  shape.bucket_elements = 20000;                              // several buckets
  shape.placement.grid = RankGrid({.tensor = tensor, .data = data, .pipeline = stages});
  shape.placement.sequence_parallel = sequence != 0;
  shape.placement.shard_optimizer = shard != 0;
  shape.placement.schedule = schedule == "gpipe" ? ScheduleKind::gpipe : ScheduleKind::one_forward_one_backward;
  return layout;
}

std::vector<Layout> layouts() {
  std::vector<Layout> out;
  for (const std::string& line : split(read_file("cli/layouts.txt"), '\n')) {
    if (!line.empty() && line[0] != '#') out.push_back(parse_layout(line));
  }
  return out;
}

/// Token `position` of a sample; the one at kLength is the last one's label.
std::int32_t token(std::int64_t sample, std::int64_t position) {
  return static_cast<std::int32_t>((sample * 31 + position * position * 7 + position * 3) % kVocab);
}

/// The first sample of a micro-batch of this rank.
std::int64_t first_sample(const RunShape& shape, std::int64_t micro_batch) {
  const Placement& place = shape.placement;
  return (micro_batch * place.size(Axis::data) + place.coordinate(Axis::data)) * shape.micro_batch;
}

void fill(const BatchBuffers& buffers, const RunShape& shape) {
  for (int m = 0; m < shape.micro_batches; ++m) {
    const Batch& batch = buffers.batch(m);
    for (std::int64_t i = 0; i < shape.micro_batch * kLength; ++i) {
      std::int64_t sample = first_sample(shape, m) + i / kLength, position = i % kLength;
      batch.tokens.data<std::int32_t>()[i] = token(sample, position);
      batch.labels.data<std::int32_t>()[i] = token(sample, position + 1);
      batch.positions.data<std::int32_t>()[i] = static_cast<std::int32_t>(position);
      batch.loss_weights.data<float>()[i] = 1.0f / static_cast<float>(kSamples * kLength);
    }
  }
}

/// What ranks that are threads tell: doctest's own checks are for the thread of the test.
struct Findings {
  std::mutex mutex;
  std::vector<std::string> differences;
  std::vector<double> losses = std::vector<double>(kSteps * kSamples * kLength, NAN);  // by step, sample and position

  template <class T>
  void compare(int rank, const char* what, T real, T planned) {
    if (real == planned) return;
    std::lock_guard lock(mutex);
    differences.push_back(cat("rank ", rank, ": ", what, " ", real, ", planned ", planned));
  }
};

void run_rank(const Layout& layout, int rank, const ProcessGroups& groups, Findings& findings) {
  RunShape shape = layout.shape;
  shape.placement.rank = rank;
  MemoryPlan plan = plan_training(tiny_gpt(), kDropout, shape);
  Stage stage = make_stage(tiny_gpt(), kDropout, shape.placement, shape.padded_vocab);
  ParamStore params(
      Device::cpu, kPrecisionFp32, true, [&](const ParamVisitor& visit) { stage.params(visit); },
      store_layout(groups, shape.bucket_elements));
  params.initialize(1234);
  Stream stream(Device::cpu, 1);
  Optimizer optimizer(params, {{}, 1.0, layout.overlap}, stream, groups);
  Pipeline pipeline(stage, stream, groups, shape.placement.actions(static_cast<int>(shape.micro_batches)), plan,
                    &optimizer.sync());
  BatchBuffers buffers(Device::cpu, shape);
  fill(buffers, shape);
  StepState state;
  bool has_losses = shape.placement.stage() + 1 == shape.placement.stages();
  for (int step = 0; step < kSteps; ++step) {
    state.step = step + 1;
    state.lr = 1e-3;
    stream.reset_counters();
    optimizer.begin_step();
    pipeline.train(buffers, &state, step * kSamples + first_sample(shape, 0),
                   first_sample(shape, 1) - first_sample(shape, 0));
    optimizer.step(pipeline.scratch(), &state);
    findings.compare(rank, "FLOPs", stream.counters().flops, plan.step.flops);
    findings.compare(rank, "bytes of operands", stream.counters().bytes, plan.step.bytes);
    for (int m = 0; has_losses && shape.placement.coordinate(Axis::tensor) == 0 && m < shape.micro_batches; ++m) {
      const float* losses = buffers.losses(m).data<float>();
      std::copy(losses, losses + shape.micro_batch * kLength,
                findings.losses.begin() + (step * kSamples + first_sample(shape, m)) * kLength);
    }
  }
  findings.compare(rank, "slots", pipeline.slots(), plan.slots);
  findings.compare(rank, "bytes of a slot", pipeline.slot_peak(), plan.slot_bytes);
  findings.compare(rank, "bytes of scratch", pipeline.scratch_peak(), plan.scratch_bytes);
  findings.compare(rank, "bytes of parameters", params.value_bytes(), plan.value_bytes);
  findings.compare(rank, "bytes of gradients", params.grad_bytes(), plan.grad_bytes);
  findings.compare(rank, "bytes of moments", params.moment_bytes(), plan.moment_bytes);
}

/// Losses of every token in two steps.
std::vector<double> run_layout(const Layout& layout) {
  Findings findings;
  const Placement& place = layout.shape.placement;
  run_ranks(place.grid, place.shard_optimizer,
            [&](int rank, const ProcessGroups& groups) { run_rank(layout, rank, groups, findings); });
  for (const std::string& difference : findings.differences) FAIL_CHECK(layout.text, ": ", difference);
  return findings.losses;
}

}  // namespace

TEST_CASE("every layout takes what was planned, on every rank, and has the losses of one rank") {
  std::vector<double> expected = run_layout(parse_layout("1 0 1 1f1b 1 0 0 2"));
  CHECK(std::abs(expected[0] - std::log(double{kVocab})) < 1);
  std::vector<Layout> all = layouts();
  CHECK(all.size() >= 30);
  for (const Layout& layout : all) {
    CAPTURE(layout.text);
    std::vector<double> losses = run_layout(layout);
    double largest = 0;
    for (std::size_t i = 0; i < losses.size(); ++i) {
      largest = larger_or_nan(largest, std::abs(losses[i] / expected[i] - 1));
    }
    CHECK(largest < 1e-5);
  }
}

TEST_CASE("ranks that are planned together have equal plans, and no rank is left out") {
  for (Layout layout : layouts()) {
    CAPTURE(layout.text);
    std::vector<RankPlan> plans = plan_ranks(tiny_gpt(), kDropout, layout.shape);
    int ranks = 0;
    for (std::size_t i = 0; i < plans.size(); ++i) {
      for (int rank : plans[i].ranks) {
        CAPTURE(rank);
        layout.shape.placement.rank = rank;
        CHECK(plans[i].plan == plan_training(tiny_gpt(), kDropout, layout.shape));
        ++ranks;
      }
      for (std::size_t j = 0; j < i; ++j) CHECK(plans[i].plan != plans[j].plan);
    }
    CHECK(ranks == layout.shape.placement.grid.world());
  }
}
