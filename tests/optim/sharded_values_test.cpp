// Sharded values (ZeRO-3), with ranks as threads: units compute the same bits although values exist only during leases,
// and the next unit is known.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <set>

#include "tests/comm/thread_group.h"
#include "tests/optim/rank_params.h"

using namespace mtl;
using namespace mtl::test;

namespace {

constexpr int kRanks = 3, kMicroBatches = 2, kTokens = 4;

/// Passes leases on. While no unit leases values, discards them, and fills their memory with NaN.
class NanOutsideLeases final : public ParamOwner {
 public:
  NanOutsideLeases(ParamTraffic& traffic, ParamMemory& store) : traffic_(traffic), store_(store) {}

  Lease acquire(Role role, int unit, std::optional<int> next) override {
    if (role == Role::gradients) return traffic_.acquire(role, unit, next);
    if (leased_.empty() && next_ && *next_ != unit) surprises_.insert(unit);
    if (leased_.empty()) next_ = next;
    leased_.emplace(unit, traffic_.acquire(role, unit, next));
    return Lease(this, {role, unit});
  }
  void gradients_done(int unit, bool is_last) override { traffic_.gradients_done(unit, is_last); }
  const std::set<int>& surprises() const { return surprises_; }

 private:
  void release(Role, int unit) noexcept override {
    leased_.erase(leased_.find(unit));
    if (!leased_.empty()) return;
    traffic_.forget_values();
    for (const Bucket& bucket : store_.buckets())
      std::fill_n(bucket.values().data<float>(), bucket.values().numel(), NAN);
  }

  ParamTraffic& traffic_;
  ParamMemory& store_;
  std::multimap<int, Lease> leased_;
  std::optional<int> next_;
  std::set<int> surprises_;
};

struct Result {
  std::vector<float> losses, updated;              // the last micro-batch's losses; the owned values after two steps
  std::set<int> surprises = {};                    // units that were leased when another unit was expected
  bool operator==(const Result&) const = default;  // false with any NaN
};

struct Run {
  int zero;
  bool tied = false;
  Recompute recompute = {};
  std::int64_t bucket_elements = 1;
  bool hides = false;  // values are NaN outside leases
};

Result train(const Run& run, int rank, const ProcessGroups& groups) {
  GptConfig config = tiny_gpt(4);
  config.tied_embeddings = run.tied;
  Chunk chunk({.config = config, .padded_vocab = 48, .recompute = run.recompute}, {.first_layer = 0, .num_layers = 4});
  ParamMemory store(Device::cpu, kPrecisionFp32, single_rule<AdamW>(),
                    [&](const ParamVisitor& visit) { chunk.params(visit); },
                    layout_of({.data = kRanks, .zero = run.zero}, rank), {.bucket_elements = run.bucket_elements});
  store.initialize(7);
  Stream stream(Device::cpu);
  Optimizer optimizer(store, {.overlap = {}}, stream, groups);
  NanOutsideLeases hiding(optimizer.traffic(), store);
  Arena slot(Device::cpu, "slot", 1 << 20), scratch(Device::cpu, "scratch", 1 << 20);
  Result out;
  out.losses.resize(kTokens);
  std::vector<std::int32_t> tokens = {1, 2, 3, 4}, positions = {0, 1, 2, 3}, labels = {2, 3, 4, 5};
  std::vector<float> weights(kTokens, 0.25f);
  Batch batch;
  batch.tokens = Tensor(tokens.data(), DType::i32, {1, kTokens});
  batch.positions = Tensor(positions.data(), DType::i32, {1, kTokens});
  batch.labels = Tensor(labels.data(), DType::i32, {1, kTokens});
  batch.loss_weights = Tensor(weights.data(), DType::f32, {1, kTokens});
  const Tensor losses(out.losses.data(), DType::f32, {1, kTokens});
  Chunk::Cache cache = chunk.make_cache();
  StepState state;
  state.lr = 0.1;
  for (int step = 1; step <= 2; ++step) {
    state.step = step;
    optimizer.set_factors(state);
    optimizer.begin_step();
    ParamOwner& owner = run.hides ? static_cast<ParamOwner&>(hiding) : optimizer.traffic();
    Ctx ctx{stream, &slot, scratch, groups, true, &owner};
    for (int m = 0; m < kMicroBatches; ++m) {
      for (int i = 0; i < kTokens; ++i) tokens[static_cast<std::size_t>(i)] = (7 * i + 3 * m + 5 * rank + step) % 40;
      slot.clear();
      ctx.ends_gradients = m + 1 == kMicroBatches;
      chunk.forward(ctx, {}, batch, cache);
      chunk.backward(ctx, {}, losses, batch, cache);
    }
    optimizer.step(scratch, &state);
  }
  for (int param = 0; param < store.size(); ++param) {
    const Tensor owned = store.owned(param, kValues);
    out.updated.insert(out.updated.end(), owned.data<float>(), owned.data<float>() + owned.numel());
  }
  out.surprises = hiding.surprises();
  return out;
}

}  // namespace

TEST_CASE("values that exist only during leases give the bits of sharded gradients, and the next unit is known") {
  const Recompute layers{
      .granularity = Recompute::Granularity::full, .method = Recompute::Method::uniform, .num_layers = 2};
  for (const bool tied : {false, true}) {
    for (const Recompute& recompute : {Recompute{}, layers}) {
      for (const std::int64_t elements : {1, 5000, 1'000'000}) {
        CAPTURE(tied);
        CAPTURE(elements);
        std::mutex mutex;
        int equal = 0;
        run_ranks(RankGrid({.data = kRanks}), [&](int rank, const ProcessGroups& groups) {
          const Run run{.zero = 2, .tied = tied, .recompute = recompute, .bucket_elements = elements};
          Run sharded = run, hidden = run;
          sharded.zero = hidden.zero = 3;
          hidden.hides = true;
          const Result expected = train(run, rank, groups);
          const bool is_equal = train(sharded, rank, groups) == expected && train(hidden, rank, groups) == expected;
          std::lock_guard lock(mutex);
          equal += is_equal;
        });
        CHECK(equal == kRanks);
      }
    }
  }
}

TEST_CASE("working memory is two buffers for the largest groups, and one for a tied embedding") {
  for (const bool tied : {false, true}) {
    for (const int layers : {1, 4, 5}) {
      GptConfig config = tiny_gpt(layers);
      config.vocab_size = 4000;
      config.tied_embeddings = tied;
      Chunk chunk({.config = config, .padded_vocab = 4000}, {.first_layer = 0, .num_layers = layers});
      const ParamMemory store(Device::cpu, kPrecisionFp32, single_rule<AdamW>(),
                              [&](const ParamVisitor& visit) { chunk.params(visit); },
                              layout_of({.data = 2, .zero = 3}, 0), {.bucket_elements = 1});
      std::vector<std::int64_t> sizes;  // from the head, which is the first group, to the embedding
      for (const UnitGroup& group : store.groups()) sizes.push_back(group.elements);
      REQUIRE(sizes.size() == static_cast<std::size_t>(layers + 2));
      const std::int64_t head = sizes.front(), layer = sizes[1], embedding = sizes.back();
      CHECK(embedding > 4000 * 16);
      // The embedding shares a buffer with the head after an odd number of layers.
      const bool shares = layers % 2 == 1;
      const std::int64_t untied = std::max(head, embedding) + (shares ? layer : std::min(head, embedding));
      const std::int64_t in_ring = layers == 1 ? std::max(head, layer) + std::min(head, layer) : 2 * layer;
      const std::int64_t expected = tied ? in_ring + embedding : untied;
      CHECK(store.work_bytes(Role::values) == expected * sizeof(float));
      CHECK(store.work_bytes(Role::gradients) == expected * sizeof(float));
      CHECK(store.bytes(kValues) == store.bytes(kFirstState));
    }
  }
}
