// Gradients of ranks that are threads: who is named when one of them is broken, and what overlap leaves unchanged.
#include "optim/grad_sync.h"

#include <doctest/doctest.h>

#include <cmath>
#include <mutex>

#include "nn/chunk.h"
#include "optim/optimizer.h"
#include "tests/comm/thread_group.h"

using namespace mtl;
using namespace mtl::test;

namespace {

GptConfig tiny() {
  GptConfig config;
  config.vocab_size = 40;
  config.num_layers = 2;
  config.hidden_size = 16;
  config.num_heads = 2;
  config.max_positions = 8;
  config.complete();
  return config;
}

/// One rank's parameters, with gradients that depend on the rank.
struct RankParams {
  Stream stream{Device::cpu};
  Chunk chunk{tiny(), {}, {}, {0, 2, true, true}, 48};
  ParamStore store;

  RankParams(int rank, const ProcessGroups& groups)
      : store(
            Device::cpu, kPrecisionFp32, true, [&](const ParamVisitor& visit) { chunk.params(visit); },
            store_layout(groups, 600)) {
    store.initialize(7);
    for (int param = 0; param < store.size(); ++param) {
      float* grad = store.grad(param).data<float>();
      for (std::int64_t i = 0; i < store.grad(param).numel(); ++i)
        grad[i] = std::sin(static_cast<float>(i + 31 * param + 7 * rank));
    }
  }
};

/// Each parameter's gradient is complete in the order in which backward finishes them.
void announce_gradients(RankParams& rank, GradSync& sync) {
  sync.begin_step();
  rank.chunk.params([&](Param& param, const ParamSpec&) { param.take_grad(); });
  for (int param = rank.store.size(); param-- > 0;) sync.gradients_final(param, param + 1);
}

}  // namespace

TEST_CASE("a gradient that is not finite is pinned on its rank and tensor, and nobody updates") {
  for (bool shard : {false, true}) {
    for (float bad : {INFINITY, -INFINITY, NAN}) {
      std::mutex mutex;
      std::map<int, std::vector<std::string>> named;
      run_ranks(RankGrid({1, 1, 1, 3, 1}), shard, [&](int rank, const ProcessGroups& groups) {
        RankParams own(rank, groups);
        int broken = own.store.find("layers.1.mlp.up.weight");
        if (rank == 1) own.store.grad(broken).data<float>()[100] = bad;
        std::vector<float> before(own.store.value(broken).data<float>(),
                                  own.store.value(broken).data<float>() + own.store.value(broken).numel());
        Optimizer optimizer(own.store, {{}, 1.0, {true, shard}}, own.stream, groups);
        announce_gradients(own, optimizer.sync());
        Arena scratch(Device::cpu, "scratch", 1 << 16);
        StepState state;
        state.step = 1;
        state.lr = 0.1;
        optimizer.step(scratch, &state);
        optimizer.sync().finish_gathering();
        std::lock_guard lock(mutex);
        CHECK(state.found_inf != 0);
        CHECK(std::equal(before.begin(), before.end(), own.store.value(broken).data<float>()));
        named[rank] = optimizer.sync().broken_gradients();
      });
      CHECK(named[0].empty());
      CHECK(named[1] == std::vector<std::string>{"layers.1.mlp.up.weight"});
      CHECK(named[2].empty());
    }
  }
}

TEST_CASE("sharing out the state, and overlap, change no bit of an update") {
  std::vector<float> first;
  for (bool shard : {false, true}) {
    for (bool overlap : {false, true}) {
      std::mutex mutex;
      run_ranks(RankGrid({1, 1, 1, 4, 1}), shard, [&](int rank, const ProcessGroups& groups) {
        RankParams own(rank, groups);
        Optimizer optimizer(own.store, {{}, 0.0, {overlap, overlap && shard}}, own.stream, groups);
        announce_gradients(own, optimizer.sync());
        Arena scratch(Device::cpu, "scratch", 1 << 16);
        StepState state;
        state.step = 1;
        state.lr = 0.1;
        optimizer.step(scratch, &state);
        optimizer.sync().finish_gathering();
        std::vector<float> values;
        for (int param = 0; param < own.store.size(); ++param) {
          const float* value = own.store.value(param).data<float>();
          values.insert(values.end(), value, value + own.store.value(param).numel());
        }
        std::lock_guard lock(mutex);
        if (first.empty()) first = values;
        CHECK(values == first);
      });
    }
  }
}
