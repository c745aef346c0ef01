// A tied embedding whose first stage also has the head, on a V: updates have the bits of 1F1B, where the last stage has
// a copy of it. Ranks are threads.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "engine/stage.h"
#include "optim/optimizer.h"
#include "tests/comm/thread_group.h"
#include "tests/gpt_of_size.h"
#include "tests/param_index.h"

using namespace mtl;
using namespace mtl::test;

namespace {

constexpr int kReplicas = 3, kStages = 2, kUpdates = 2, kMicroBatches = 2;
const std::string kTable = "embedding.tokens.weight";

RunShape shape_of(ScheduleKind kind, int rank, bool shards = false) {
  RunShape shape;
  shape.padded_vocab = 48;
  shape.storage.bucket_elements = 1000;
  Layout& layout = shape.layout;
  layout.grid = RankGrid({.data = kReplicas, .pipeline = kStages});
  layout.rank = rank;
  layout.schedule = kind;
  layout.chunks = kind == ScheduleKind::zero_bubble_v ? 2 : 1;
  layout.zero = shards ? 1 : 0;
  return shape;
}

struct RankStage {
  Stream stream{Device::cpu};
  Stage stage;
  ParamMemory store;

  explicit RankStage(const RunShape& shape)
      : stage(make_stage(gpt_of_size({.vocab = 41, .layers = 4, .hidden = 16, .heads = 2, .positions = 8}), {}, shape)),
        store(
            Device::cpu, kPrecisionFp32, single_rule<AdamW>(), [&](const ParamVisitor& visit) { stage.params(visit); },
            shape.layout, shape.storage) {
    store.initialize(7);
  }
};

/// Writes or adds a micro-batch's gradients, which differ by replica, parameter and use, to a chunk's parameters.
/// Returns the chunk's units. Adds `bad` to the gradient of the head's use of the table.
std::vector<int> write_gradients(Chunk& chunk, int replica, int micro_batch, float bad = 0) {
  std::vector<int> units;
  int in_unit = 0;
  chunk.params([&](Param& param, const ParamSpec& spec) {
    if (units.empty() || units.back() != spec.unit) units.push_back(spec.unit), in_unit = 0;
    const int phase = 100 * spec.unit + 7 * in_unit++ + 31 * replica + 57 * micro_batch;
    const Grad grad = param.take_grad();
    auto* out = grad.tensor.data<float>();
    for (std::int64_t i = 0; i < grad.tensor.numel(); ++i)
      out[i] = std::sin(static_cast<float>(i + phase)) + (grad.mode == GradMode::accumulate ? out[i] : 0);
    if (spec.name == kTable && spec.unit > 0) out[5] += bad;
  });
  return units;
}

/// Computes a step's gradients, and finishes the last micro-batch's in backward order.
void run_backward(RankStage& rank, ParamTraffic& traffic, float bad = 0) {
  const int replica = rank.store.layout().coordinate(Axis::data);
  for (int m = 0; m < kMicroBatches; ++m) {
    for (auto chunk = rank.stage.chunks.rbegin(); chunk != rank.stage.chunks.rend(); ++chunk) {
      const std::vector<int> units = write_gradients(*chunk, replica, m, bad);
      const bool is_last = m + 1 == kMicroBatches;
      for (auto unit = units.rbegin(); unit != units.rend(); ++unit) traffic.gradients_done(*unit, is_last);
    }
  }
}

/// By name: a parameter's values, then its gradient, after some steps.
using Results = std::map<std::string, std::vector<float>>;

void append(std::vector<float>& out, const Tensor& tensor) {
  out.insert(out.end(), tensor.data<float>(), tensor.data<float>() + tensor.numel());
}

/// Runs some steps on all ranks. Returns the whole values, and the gradients of the first replica's owned elements.
Results results_of(ScheduleKind kind, bool shards, bool overlap) {
  std::mutex mutex;
  Results results;
  run_ranks(shape_of(kind, 0).layout, [&](int number, const ProcessGroups& groups) {
    RankStage rank(shape_of(kind, number, shards));
    Optimizer optimizer(rank.store, {.overlap = {.reduce = overlap, .gather = overlap && shards}}, rank.stream, groups);
    Arena scratch(Device::cpu, "scratch", 1 << 16);
    StepState state;
    state.lr = 0.1;
    for (int step = 1; step <= kUpdates; ++step) {
      state.step = step;
      optimizer.set_factors(state);
      optimizer.begin_step();
      run_backward(rank, optimizer.traffic());
      optimizer.step(scratch, &state);
    }
    optimizer.traffic().finish_gathering();
    if (rank.store.layout().coordinate(Axis::data) > 0) return;
    std::lock_guard lock(mutex);
    for (int param = 0; param < rank.store.size(); ++param) {
      std::vector<float> own;
      append(own, rank.store.value(param));
      append(own, rank.store.owned(param, kGradients));
      const auto [at, is_new] = results.emplace(rank.store.specs()[static_cast<std::size_t>(param)].name, own);
      CHECK(at->second == own);  // copies of the table are equal
    }
  });
  return results;
}

}  // namespace

TEST_CASE("tied embedding: with both uses on one stage, sums over replicas and updates have the bits of two copies") {
  for (bool shards : {false, true}) {
    const Results expected = results_of(ScheduleKind::one_forward_one_backward, shards, false);
    CHECK(expected.size() == 1 + 1 + 4 * 12 + 2);
    for (bool overlap : {false, true}) {
      CAPTURE(shards);
      CAPTURE(overlap);
      const Results found = results_of(ScheduleKind::zero_bubble_v, shards, overlap);
      CHECK(found.size() == expected.size());
      for (const auto& [name, values] : expected) {
        CAPTURE(name);
        CHECK(found.at(name) == values);
      }
    }
  }
}

TEST_CASE("tied embedding: the head's gradient needs memory for one more gradient of the table, and nothing else") {
  for (bool shards : {false, true}) {
    const BufferUse before = buffer_use();
    RankStage own(shape_of(ScheduleKind::zero_bubble_v, 0, shards));
    const std::size_t allocated = buffer_use().bytes - before.bytes;
    const ParamMemory& store = own.store;
    const Tensor head = store.head_grad(), table = store.value(test::param_index(store, kTable));
    CHECK(head.shape() == table.shape());
    CHECK(head.raw() != store.grad(test::param_index(store, kTable)).raw());
    CHECK(store.bytes(kGradients) == store.bytes(kValues) + table.bytes());
    std::size_t listed = 0;
    for (std::size_t row = 0; row < store.table().size(); ++row) listed += store.bytes(row);
    CHECK(listed == allocated);
    CHECK(store.buckets().back().owned_grads().numel() == table.numel() / (shards ? kReplicas : 1));
    CHECK_FALSE(RankStage(shape_of(ScheduleKind::zero_bubble_v, kReplicas)).store.head_grad().exists());
    CHECK_FALSE(RankStage(shape_of(ScheduleKind::one_forward_one_backward, 0)).store.head_grad().exists());
  }
}

TEST_CASE("tied embedding: a step without the head's gradient is an error") {
  RankStage own(shape_of(ScheduleKind::zero_bubble_v, 0));
  for (int step = 0; step < 2; ++step) {
    own.store.begin_step();
    write_gradients(own.stage.chunks[0], 0, 0);
    own.stage.chunks[1].params([](Param& param, const ParamSpec& spec) {
      if (!spec.ownership.on_end_stages) param.take_grad();
    });
    CHECK_THROWS_WITH_AS(own.store.check_all_written(), doctest::Contains("the head"), Error);
    write_gradients(own.stage.chunks[1], 0, 0);
    CHECK_NOTHROW(own.store.check_all_written());
  }
}

TEST_CASE("tied embedding: a head's gradient that is not finite is attributed to its rank, and no rank updates") {
  std::mutex mutex;
  std::map<int, std::vector<std::string>> named;
  run_ranks(shape_of(ScheduleKind::zero_bubble_v, 0).layout, [&](int number, const ProcessGroups& groups) {
    RankStage rank(shape_of(ScheduleKind::zero_bubble_v, number, true));
    Optimizer optimizer(rank.store, {.overlap = {.reduce = true}}, rank.stream, groups);
    Arena scratch(Device::cpu, "scratch", 1 << 16);
    StepState state;
    state.step = 1;
    const float bad = number == 1 ? INFINITY : 0;
    optimizer.set_factors(state);
    optimizer.begin_step();
    run_backward(rank, optimizer.traffic(), bad);
    optimizer.step(scratch, &state);
    optimizer.traffic().begin_repetition(scratch);
    run_backward(rank, optimizer.traffic(), bad);
    std::lock_guard lock(mutex);
    CHECK(state.found_inf != 0);
    named[number] = optimizer.traffic().nonfinite_gradients(scratch);
  });
  CHECK(named.size() == kReplicas * kStages);
  for (const auto& [number, names] : named)
    CHECK(names == (number == 1 ? std::vector<std::string>{kTable} : std::vector<std::string>{}));
}
