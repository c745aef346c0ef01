// Gradient synchronization, with ranks as threads: a non-finite gradient is attributed to its rank, and overlap changes
// no bit.
#include "optim/param_traffic.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <mutex>

#include "tests/comm/thread_group.h"
#include "tests/optim/rank_params.h"
#include "tests/param_index.h"

using namespace mtl;
using namespace mtl::test;

namespace {

/// Computes each unit's gradients as backward does, from the last unit to the first: leases the unit, and lets
/// `term(param, i)` overwrite the elements or add to them. What the memory holds before a step's first term must not
/// matter.
template <class Term>
void run_units(RankParams& own, ParamTraffic& traffic, bool is_last, const Term& term) {
  for (int unit = unit_of(own.store, own.store.size() - 1); unit >= 0; --unit) {
    const Lease lease = traffic.acquire(Role::gradients, unit, {});
    own.chunk.params([&](Param& param, const ParamSpec& spec) {
      if (spec.unit != unit) return;
      const Grad grad = param.take_grad();
      float* to = grad.tensor.data<float>();
      if (grad.mode == GradMode::overwrite) std::fill_n(to, grad.tensor.numel(), NAN);
      for (std::int64_t i = 0; i < grad.tensor.numel(); ++i)
        to[i] = term(param.index, i) + (grad.mode == GradMode::overwrite ? 0 : to[i]);
    });
    traffic.gradients_done(unit, is_last);
  }
}

/// Sets gradients that depend on the rank and finishes them in backward order. Adds `bad` to one element of a tensor.
void run_backward(RankParams& own, ParamTraffic& traffic, float bad, const char* name = "layers.1.mlp.up.weight") {
  const ParamMemory& store = own.store;
  run_units(own, traffic, true, [&](int param, std::int64_t i) {
    const float value = std::sin(static_cast<float>(i + 31 * param + 7 * store.layout().rank));
    return param == test::param_index(store, name) && i == 100 ? value + bad : value;
  });
}

struct Setting {
  bool shard, overlap;
  double clip_grad;
};

/// Runs one update, and repeats the step twice, first with another non-finite gradient. Returns the names of the
/// gradients that are not finite in the end.
std::vector<std::string> update(RankParams& rank, const ProcessGroups& groups, Setting setting, StepState& state,
                                float bad = 0) {
  const ParamTraffic::Overlap overlap{.reduce = setting.overlap, .gather = setting.overlap && setting.shard};
  Optimizer optimizer(rank.store, {.clip_grad = setting.clip_grad, .overlap = overlap}, rank.stream, groups);
  Arena scratch(Device::cpu, "scratch", 1 << 16);
  state.step = 1;
  state.lr = 0.1;
  optimizer.set_factors(state);
  optimizer.begin_step();
  run_backward(rank, optimizer.traffic(), bad);
  optimizer.step(scratch, &state);
  optimizer.traffic().finish_gathering();
  optimizer.traffic().begin_repetition(scratch);
  run_backward(rank, optimizer.traffic(), NAN, "layers.0.mlp.down.weight");
  optimizer.traffic().begin_repetition(scratch);
  run_backward(rank, optimizer.traffic(), bad);
  return optimizer.traffic().nonfinite_gradients(scratch);
}

/// Returns all values in unit order. Leases them, because they may be sharded.
std::vector<float> values_of(RankParams& own, const ProcessGroups& groups) {
  ParamTraffic traffic(own.store, own.stream, groups, {});
  std::vector<float> values;
  const int last = unit_of(own.store, own.store.size() - 1);
  for (int unit = 0; unit <= last; ++unit) {
    const Lease lease = traffic.acquire(Role::values, unit, unit < last ? std::optional(unit + 1) : std::nullopt);
    for (int param = 0; param < own.store.size(); ++param) {
      if (unit_of(own.store, param) != unit) continue;
      const Tensor value = own.store.value(param);
      values.insert(values.end(), value.data<float>(), value.data<float>() + value.numel());
    }
  }
  return values;
}

}  // namespace

TEST_CASE("a non-finite gradient is attributed to its rank and tensor, and no rank updates") {
  for (const int stage : {0, 1, 2, 3}) {
    const bool shard = stage > 0;
    for (float bad : {INFINITY, -INFINITY, NAN}) {
      std::mutex mutex;
      std::map<int, std::vector<std::string>> named;
      run_ranks(RankGrid({.data = 3}), [&](int rank, const ProcessGroups& groups) {
        RankParams own(layout_of({.data = 3, .zero = stage}, rank));
        std::vector<float> before = values_of(own, groups);
        StepState state;
        std::vector<std::string> names =
            update(own, groups, {.shard = shard, .overlap = true, .clip_grad = 1.0}, state, rank == 1 ? bad : 0);
        const std::vector<float> after = values_of(own, groups);
        std::lock_guard lock(mutex);
        CHECK(state.found_inf != 0);
        CHECK(before == after);
        named[rank] = names;
      });
      CHECK(named[0].empty());
      CHECK(named[1] == std::vector<std::string>{"layers.1.mlp.up.weight"});
      CHECK(named[2].empty());
    }
  }
}

TEST_CASE("gradients and values that ranks exchange are in memory that is registered with their groups") {
  for (const int stage : {0, 1, 2, 3}) {
    CAPTURE(stage);
    std::mutex mutex;
    run_ranks(RankGrid({.data = 2}), [&](int rank, const ProcessGroups& groups) {
      RankParams own(layout_of({.data = 2, .zero = stage}, rank));
      StepState state;
      update(own, groups, {.shard = stage > 0, .overlap = true, .clip_grad = 1.0}, state);
      values_of(own, groups);
      std::lock_guard lock(mutex);
      CHECK(dynamic_cast<ThreadCommunicator&>(groups.over(kReplicaAxes)).unregistered() == 0);
    });
  }
}

TEST_CASE("values that are gathered late are complete when a forward pass reads them, with and without biases") {
  for (bool bias : {false, true}) {
    std::vector<float> reference;  // the second step's losses
    for (bool overlap : {false, true}) {
      std::mutex mutex;
      run_ranks(RankGrid({.data = 2}), [&](int rank, const ProcessGroups& groups) {
        RankParams own(layout_of({.data = 2, .zero = 1}, rank), tiny_gpt(2, bias));
        Optimizer optimizer(own.store, {.overlap = {.reduce = overlap, .gather = overlap}}, own.stream, groups);
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
          optimizer.set_factors(state);
          optimizer.begin_step();
          Ctx ctx{own.stream, &slot, scratch, groups, true, &optimizer.traffic()};
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

TEST_CASE("sharding the state, gradients or values, and overlap, change no bit of an update") {
  std::vector<float> first;
  for (const int stage : {0, 1, 2, 3}) {
    const bool shard = stage > 0;
    for (bool overlap : {false, true}) {
      std::mutex mutex;
      run_ranks(RankGrid({.data = 4}), [&](int rank, const ProcessGroups& groups) {
        RankParams own(layout_of({.data = 4, .zero = stage}, rank));
        StepState state;
        update(own, groups, {.shard = shard, .overlap = overlap, .clip_grad = 0}, state);
        std::vector<float> values = values_of(own, groups);
        std::lock_guard lock(mutex);
        if (first.empty()) first = values;
        CHECK(values == first);
      });
    }
  }
}

TEST_CASE("sharded gradients of several micro-batches and steps equal whole ones, in any number of groups") {
  constexpr int kMicroBatches = 3, kSteps = 2;
  for (const bool tied : {true, false}) {
    for (const std::int64_t elements : {1, 600, 5000, 1'000'000}) {  // groups take turns in two buffers
      CAPTURE(tied);
      CAPTURE(elements);
      run_ranks(RankGrid({.data = 3}), [&](int rank, const ProcessGroups& groups) {
        GptConfig config = tiny_gpt(3);
        config.tied_embeddings = tied;
        std::vector<std::vector<float>> sums;
        std::vector<std::size_t> bytes;
        for (const bool shards_gradients : {false, true}) {
          RankParams own(layout_of({.data = 3, .zero = shards_gradients ? 2 : 1}, rank), config, kPrecisionFp32,
                         {.bucket_elements = elements});
          ParamTraffic traffic(own.store, own.stream, groups, {});
          std::vector<float>& owned = sums.emplace_back();
          bytes.push_back(own.store.bytes(kGradients));
          for (int step = 0; step < kSteps; ++step) {
            traffic.begin_step();
            for (int m = 0; m < kMicroBatches; ++m) {  // integers, so that every order gives the same sum
              run_units(own, traffic, m + 1 == kMicroBatches, [&](int param, std::int64_t i) {
                return static_cast<float>((7 * i + 31 * param + 5 * rank + 3 * m + step) % 97);
              });
            }
            traffic.finish_reduction();
            for (int param = 0; param < own.store.size(); ++param) {
              const Tensor part = own.store.owned(param, kGradients);
              owned.insert(owned.end(), part.data<float>(), part.data<float>() + part.numel());
            }
          }
        }
        CHECK(!sums[0].empty());
        CHECK(sums[0] == sums[1]);
        CHECK(bytes[1] * 3 == bytes[0]);
      });
    }
  }
}

TEST_CASE("after the launch of a captured part, its sums are added to, and values that it gathered remain") {
  std::mutex mutex;
  run_ranks(RankGrid({.data = 2}), [&](int rank, const ProcessGroups& groups) {
    RankParams own(layout_of({.data = 2, .zero = 3}, rank));
    ParamTraffic traffic(own.store, own.stream, groups, {});
    const auto micro_batch = [&] {
      { const Lease lease = traffic.acquire(Role::values, 0, {}); }
      run_units(own, traffic, false, [](int, std::int64_t) { return 2; });
      return traffic.end_part();
    };
    traffic.begin_step();
    const ParamTraffic::PartState state = micro_batch();  // as during the capture
    traffic.begin_step();
    Tensor values, sum;
    for (const Bucket& bucket : own.store.buckets()) {
      if (bucket.group == own.store.group_of(0)) values = bucket.values();
      if (bucket.gradient_buffer) sum = bucket.owned_grads();
    }
    *values.data<float>() = 5;  // as launched commands could
    traffic.restore(state);
    micro_batch();
    std::lock_guard lock(mutex);
    CHECK(*values.data<float>() == 5);       // not gathered again
    CHECK(*sum.data<float>() == 2 * 2 * 2);  // two micro-batches of two ranks
  });
}

TEST_CASE("lost updates are counted alike with each ZeRO stage, and after a restart, where buckets have gaps") {
  constexpr int kMicroBatches = 2, kSteps = 3;
  constexpr Precision kMixed{.compute = DType::bf16, .residual = DType::bf16};
  const GptConfig config = gpt_of_size({.vocab = 40, .layers = 3, .hidden = 12, .heads = 2, .positions = 8});
  using Counts = std::vector<std::int64_t>;  // of every step: nonzero updates, lost ones, and those that copies lost
  Counts first;
  for (const int stage : {0, 1, 2, 3}) {
    for (const bool restarts : {false, true}) {
      CAPTURE(stage);
      CAPTURE(restarts);
      Counts sums(std::size_t{3} * kSteps);
      std::mutex mutex;
      run_ranks(RankGrid({.data = 4}), [&](int rank, const ProcessGroups& groups) {
        const auto make = [&] {
          return std::make_unique<RankParams>(layout_of({.data = 4, .zero = stage}, rank), config, kMixed);
        };
        std::unique_ptr<RankParams> own = make();
        StepState state;
        state.lr = 1e-4f;
        Counts counts;
        for (int step = 1; step <= kSteps; ++step) {
          if (restarts && step == kSteps) {
            const std::unique_ptr<RankParams> before = std::exchange(own, make());
            for (std::size_t row = 0; row < own->store.table().size(); ++row) {
              for (int param = 0; row != kGradients && param < own->store.size(); ++param) {
                const Tensor from = before->store.row_part(param, row), to = own->store.row_part(param, row);
                std::memcpy(to.raw(), from.raw(), to.bytes());
              }
            }
          }
          Optimizer optimizer(own->store, {.clip_grad = 0, .overlap = {}}, own->stream, groups);
          Arena scratch(Device::cpu, "scratch", 1 << 16);
          state.step = step;
          optimizer.set_factors(state);
          optimizer.begin_step();
          for (int m = 0; m < kMicroBatches; ++m) {  // integers, so that every order gives the same sum
            run_units(*own, optimizer.traffic(), m + 1 == kMicroBatches, [&](int param, std::int64_t i) {
              return static_cast<float>((7 * i + 31 * param + 5 * rank + 3 * m + step) % 97 - 48);
            });
          }
          optimizer.step(scratch, &state);
          counts.insert(counts.end(), {state.nonzero_updates, state.lost_updates, state.lost_copies});
        }
        std::lock_guard lock(mutex);
        for (std::size_t i = 0; i < counts.size(); ++i) sums[i] += stage == 0 && rank > 0 ? 0 : counts[i];
      });
      if (first.empty()) first = sums;
      CHECK(sums == first);
      CHECK(sums[2] > 0);
    }
  }
}

TEST_CASE("a lease waits for the values of its unit only") {
  std::mutex mutex;
  run_ranks(RankGrid({.data = 2}), [&](int rank, const ProcessGroups& groups) {
    const Grid grid{.data = 2, .zero = 1};
    RankParams own(layout_of(grid, rank), tiny_gpt(), kPrecisionFp32,
                   {.bucket_elements = 1});  // each unit is reduced and gathered separately
    RankParams reference(layout_of(grid, rank));
    StepState state;
    update(reference, groups, {.shard = true, .overlap = false, .clip_grad = 0}, state);
    Optimizer optimizer(own.store, {.clip_grad = 0, .overlap = {.reduce = true, .gather = true}}, own.stream, groups);
    Arena scratch(Device::cpu, "scratch", 1 << 16);
    optimizer.set_factors(state);
    optimizer.begin_step();
    run_backward(own, optimizer.traffic(), 0);
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
      Lease gradients = optimizer.traffic().acquire(Role::gradients, unit, {});
      before.push_back(count_old(unit));
      Lease values = optimizer.traffic().acquire(Role::values, unit, {});
      after.push_back(count_old(unit));
    }
    std::lock_guard lock(mutex);
    for (int old : before) CHECK(old > 0);
    CHECK(before.size() == 4);
    CHECK(after == std::vector<int>(4, 0));
  });
}
