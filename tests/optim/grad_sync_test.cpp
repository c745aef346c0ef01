// Gradient synchronization, with ranks as threads: a non-finite gradient is attributed to its rank, and overlap changes
// no bit.
#include "optim/grad_sync.h"

#include <doctest/doctest.h>

#include <cmath>
#include <mutex>

#include "tests/comm/thread_group.h"
#include "tests/optim/rank_params.h"

using namespace mtl;
using namespace mtl::test;

namespace {

/// Sets gradients that depend on the rank and finishes them in backward order. Adds `bad` to one element.
void run_backward(RankParams& own, GradSync& sync, float bad) {
  ParamStore& store = own.store;
  own.chunk.params([&](Param& param, const ParamSpec&) { param.take_grad(); });
  for (int param = store.size(); param-- > 0;) {
    float* grad = store.grad(param).data<float>();
    for (std::int64_t i = 0; i < store.grad(param).numel(); ++i)
      grad[i] = std::sin(static_cast<float>(i + 31 * param + 7 * store.layout().rank));
    if (param == store.find("layers.1.mlp.up.weight")) grad[100] += bad;
    if (param == 0 || unit_of(store, param) != unit_of(store, param - 1)) sync.gradients_ready(unit_of(store, param));
  }
}

struct Setting {
  bool shard, overlap;
  double clip_grad;
};

/// Runs one update and repeats the step. Returns the names of the non-finite gradients.
std::vector<std::string> update(RankParams& rank, const ProcessGroups& groups, Setting setting, StepState& state,
                                float bad = 0) {
  const GradSync::Overlap overlap{.reduce = setting.overlap, .gather = setting.overlap && setting.shard};
  Optimizer optimizer(rank.store, {.rule = {}, .clip_grad = setting.clip_grad, .overlap = overlap}, rank.stream,
                      groups);
  Arena scratch(Device::cpu, "scratch", 1 << 16);
  state.step = 1;
  state.lr = 0.1;
  optimizer.begin_step();
  run_backward(rank, optimizer.sync(), bad);
  optimizer.step(scratch, &state);
  optimizer.sync().finish_gathering();
  optimizer.sync().begin_repetition();
  run_backward(rank, optimizer.sync(), bad);
  return optimizer.sync().nonfinite_gradients(scratch);
}

std::vector<float> values_of(const ParamStore& store) {
  std::vector<float> values;
  for (int param = 0; param < store.size(); ++param) {
    const float* value = store.value(param).data<float>();
    values.insert(values.end(), value, value + store.value(param).numel());
  }
  return values;
}

}  // namespace

TEST_CASE("a non-finite gradient is attributed to its rank and tensor, and no rank updates") {
  for (bool shard : {false, true}) {
    for (float bad : {INFINITY, -INFINITY, NAN}) {
      std::mutex mutex;
      std::map<int, std::vector<std::string>> named;
      run_ranks(RankGrid({.data = 3}), [&](int rank, const ProcessGroups& groups) {
        RankParams own(layout_of({.data = 3, .shards = shard}, rank));
        std::vector<float> before = values_of(own.store);
        StepState state;
        std::vector<std::string> names =
            update(own, groups, {.shard = shard, .overlap = true, .clip_grad = 1.0}, state, rank == 1 ? bad : 0);
        std::lock_guard lock(mutex);
        CHECK(state.found_inf != 0);
        CHECK(before == values_of(own.store));
        named[rank] = names;
      });
      CHECK(named[0].empty());
      CHECK(named[1] == std::vector<std::string>{"layers.1.mlp.up.weight"});
      CHECK(named[2].empty());
    }
  }
}

TEST_CASE("values that are gathered late are complete when a forward pass reads them, with and without biases") {
  for (bool bias : {false, true}) {
    std::vector<float> reference;  // the second step's losses
    for (bool overlap : {false, true}) {
      std::mutex mutex;
      run_ranks(RankGrid({.data = 2}), [&](int rank, const ProcessGroups& groups) {
        RankParams own(layout_of({.data = 2, .shards = true}, rank), tiny_gpt(2, bias));
        Optimizer optimizer(own.store, {.rule = {}, .overlap = {.reduce = overlap, .gather = overlap}}, own.stream,
                            groups);
        Arena slot(Device::cpu, "slot", 1 << 20), scratch(Device::cpu, "scratch", 1 << 20);
        std::vector<std::int32_t> tokens = {1, 2, 3, 4}, positions = {0, 1, 2, 3}, labels = {2, 3, 4, 5};
        std::vector<float> weights(4, 0.25f), losses(4);
        Batch batch;
        batch.tokens = Tensor(tokens.data(), DType::i32, {1, 4});
        batch.positions = Tensor(positions.data(), DType::i32, {1, 4});
        batch.labels = Tensor(labels.data(), DType::i32, {1, 4});
        batch.loss_weights = Tensor(weights.data(), DType::f32, {1, 4});
        Tensor out(losses.data(), DType::f32, {1, 4});
        Chunk::Cache cache = own.chunk.make_cache();
        StepState state;
        state.lr = 0.1;
        for (int step = 1; step <= 2; ++step) {
          state.step = step;
          slot.clear();
          optimizer.begin_step();
          Ctx ctx{own.stream, &slot, scratch, groups, true, &optimizer.sync()};
          ctx.ends_gradients = true;
          own.chunk.forward(ctx, {}, batch, cache);
          own.chunk.backward(ctx, {}, out, batch, cache);
          optimizer.step(scratch, &state);
        }
        std::lock_guard lock(mutex);
        if (reference.empty()) reference = losses;
        CHECK(losses == reference);
        CHECK(losses[0] > 0);
      });
    }
  }
}

TEST_CASE("sharding the state and overlap change no bit of an update") {
  std::vector<float> first;
  for (bool shard : {false, true}) {
    for (bool overlap : {false, true}) {
      std::mutex mutex;
      run_ranks(RankGrid({.data = 4}), [&](int rank, const ProcessGroups& groups) {
        RankParams own(layout_of({.data = 4, .shards = shard}, rank));
        StepState state;
        update(own, groups, {.shard = shard, .overlap = overlap, .clip_grad = 0}, state);
        std::vector<float> values = values_of(own.store);
        std::lock_guard lock(mutex);
        if (first.empty()) first = values;
        CHECK(values == first);
      });
    }
  }
}

TEST_CASE("a lease waits for the values of its unit only") {
  std::mutex mutex;
  run_ranks(RankGrid({.data = 2}), [&](int rank, const ProcessGroups& groups) {
    const Grid grid{.data = 2, .shards = true};
    RankParams own(layout_of(grid, rank, 1));  // each unit is reduced and gathered separately
    RankParams reference(layout_of(grid, rank));
    StepState state;
    update(reference, groups, {.shard = true, .overlap = false, .clip_grad = 0}, state);
    Optimizer optimizer(own.store, {.rule = {}, .clip_grad = 0, .overlap = {.reduce = true, .gather = true}},
                        own.stream, groups);
    Arena scratch(Device::cpu, "scratch", 1 << 16);
    optimizer.begin_step();
    run_backward(own, optimizer.sync(), 0);
    optimizer.step(scratch, &state);
    auto count_old = [&](int unit) {  // counts parameters whose other half is not gathered yet
      int old = 0;
      for (int param = 0; param < own.store.size(); ++param) {
        const float *a = own.store.value(param).data<float>(), *b = reference.store.value(param).data<float>();
        if (unit_of(own.store, param) == unit && !std::equal(a, a + own.store.value(param).numel(), b)) ++old;
      }
      return old;
    };
    std::vector<int> before, after;
    for (int unit = 0; unit < 4; ++unit) {
      Lease gradients = optimizer.sync().acquire(Role::gradients, unit);
      before.push_back(count_old(unit));
      Lease values = optimizer.sync().acquire(Role::values, unit);
      after.push_back(count_old(unit));
    }
    std::lock_guard lock(mutex);
    for (int old : before) CHECK(old > 0);
    CHECK(before.size() == 4);
    CHECK(after == std::vector<int>(4, 0));
  });
}
