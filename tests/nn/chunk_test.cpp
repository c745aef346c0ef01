// Chunks: their parameter leases in multiple architectures, with immediate and deferred weight gradients, and with
// activations kept or recomputed.
#include "nn/chunk.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "device/profile.h"
#include "optim/param_memory.h"
#include "tests/gpt_of_size.h"
#include "tests/param_index.h"

using namespace mtl;

namespace {

constexpr std::int64_t kHidden = 16;
const test::GptSizes kSizes{.vocab = 40, .layers = 3, .hidden = kHidden, .heads = 4, .positions = 8};
const DropoutOptions kDropout{.hidden = 0.1f, .attention = 0.1f, .seed = 3};

struct Architecture {
  Architecture(std::string label, const GptConfig& base) : name(std::move(label)), config(base) { config.head_dim = 8; }
  std::string name;
  GptConfig config;
};
const std::vector<Architecture> kArchitectures = {{"gpt", test::gpt_of_size(kSizes)},
                                                  {"gpt without biases", test::gpt_of_size(kSizes, false)},
                                                  {"llama", test::llama_of_size(kSizes)},
                                                  {"qwen", test::qwen_of_size(kSizes)},
                                                  {"neox", test::neox_of_size(kSizes)}};

// first_layer, num_layers, first, last
const ChunkRange kRanges[] = {{0, 3, true, true}, {0, 1, true, false}, {1, 1, false, false}, {2, 1, false, true}};

using Granularity = Recompute::Granularity;
const Recompute kRecomputes[] = {{},
                                 {Granularity::selective},
                                 {Granularity::full, Recompute::Method::uniform, 2},
                                 {Granularity::full, Recompute::Method::block, 1}};

/// A chunk, and how it is computed.
struct Plan {
  const GptConfig& config;
  ChunkRange range;
  bool defers = false;
  Recompute recompute = {};
};

/// Calls check(plan) for every combination of architecture, chunk and recomputation, with and without deferred weight
/// gradients.
template <class Check>
void for_each_plan(const Check& check) {
  for (const Architecture& architecture : kArchitectures) {
    CAPTURE(architecture.name);
    for (ChunkRange range : kRanges) {
      for (bool defers : {false, true}) {
        for (const Recompute& recompute : kRecomputes) {
          CAPTURE(range.first_layer);
          CAPTURE(defers);
          CAPTURE(static_cast<int>(recompute.granularity));
          CAPTURE(recompute.num_layers);
          check(Plan{architecture.config, range, defers, recompute});
        }
      }
    }
  }
}

/// For each unit, counts how often it was acquired and how often its gradients were finished.
struct Recorder final : ParamOwner {
  Lease acquire(Role role, int unit, std::optional<int>) override {
    ++(role == Role::values ? values : gradients)[unit];
    return {};
  }
  void gradients_done(int unit, bool is_last) override {
    if (is_last) ++ended[unit];
  }
  std::map<int, int> values, gradients, ended;
};

/// Maps each of a chunk's units to `count`.
std::map<int, int> units_of(const ParamMemory& store, int count) {
  std::map<int, int> units;
  for (const ParamSpec& spec : store.specs()) units[spec.unit] = count;
  return units;
}

/// Checks that the store has exactly the parameters for this chunk of the model.
void check_params(const GptConfig& config, ChunkRange range, const ParamMemory& store) {
  const bool has_layernorm = config.norm == Norm::layernorm;
  const std::pair<const char*, bool> of_layer[] = {{".norm1.weight", true},
                                                   {".norm1.bias", has_layernorm},
                                                   {".attention.qkv.bias", config.bias.qkv},
                                                   {".attention.q_norm.weight", config.qk_norm},
                                                   {".attention.k_norm.weight", config.qk_norm},
                                                   {".attention.out.bias", config.bias.out},
                                                   {".mlp.up.bias", config.bias.mlp},
                                                   {".mlp.down.bias", config.bias.mlp}};
  for (const auto& [name, expected] : of_layer) {
    CAPTURE(name);
    CHECK((test::param_index(store, cat("layers.", range.first_layer, name)) >= 0) == expected);
  }
  CHECK((test::param_index(store, "embedding.tokens.weight") >= 0) ==
        (range.has_embedding || (range.has_head && config.tied_embeddings)));
  CHECK((test::param_index(store, "embedding.positions.weight") >= 0) ==
        (range.has_embedding && config.position_embedding == PositionEmbedding::learned));
  CHECK((test::param_index(store, "output.weight") >= 0) == (range.has_head && !config.tied_embeddings));
}

Batch meta_batch() {
  Batch batch;
  batch.tokens = batch.positions = batch.labels = Tensor(nullptr, DType::i32, {1, 8});
  batch.loss_weights = Tensor(nullptr, DType::f32, {1, 8});
  return batch;
}

Tensor meta_dout(const Chunk& chunk, const Batch& batch) {
  return {nullptr, chunk.hidden_dtype(), chunk.hidden_shape({}, batch.tokens.numel())};
}

/// Runs a chunk's micro-batch on the meta device and checks how many leases it takes.
void check_leases(const Plan& plan) {
  const auto& [config, range, defers, recompute] = plan;
  Chunk chunk({.config = config, .padded_vocab = 48, .recompute = recompute}, range);
  ParamMemory store(Device::meta, kPrecisionFp32, single_rule<AdamW>(),
                    [&](const ParamVisitor& visit) { chunk.params(visit); });
  REQUIRE(store.size() > 0);
  check_params(config, range, store);
  Recorder owner;
  Stream stream(Device::meta);
  Arena slot(Device::meta, "slot", 0), scratch(Device::meta, "scratch", 0);
  ProcessGroups groups;
  const Batch batch = meta_batch();
  Ctx ctx{stream, &slot, scratch, groups, true, &owner};
  ctx.ends_gradients = true;
  ctx.defers_weights = defers;
  Chunk::Cache cache = chunk.make_cache();
  Tensor input = range.has_embedding ? Tensor() : chunk.make_hidden(ctx, batch);
  store.begin_step();
  Tensor output = chunk.forward(ctx, input, batch, cache);
  CHECK(output.exists() == !range.has_head);
  std::map<int, int> once = units_of(store, 1);
  if (range.has_embedding && range.has_head && config.tied_embeddings) ++once[0];  // the LM head uses it too
  CHECK(owner.values == once);
  CHECK(owner.gradients.empty());
  CHECK(owner.ended.empty());
  Tensor dinput = chunk.backward(ctx, meta_dout(chunk, batch), batch.loss_weights, batch, cache);
  CHECK(dinput.exists() == !range.has_embedding);
  std::map<int, int> values = once;  // again for backward, a third time to recompute
  for (auto& [unit, count] : values) count *= 2;
  for (const LayerGroup& group : recompute_groups(recompute, range.num_layers)) {
    for (std::int64_t layer = group.first; group.is_recomputed && layer < group.first + group.count; ++layer)
      ++values[static_cast<int>(range.first_layer + layer + 1)];
  }
  CHECK(owner.values == values);
  CHECK(owner.gradients == once);
  CHECK(owner.ended.empty() == defers);
  if (defers) chunk.weights(ctx, cache);
  CHECK(owner.ended == units_of(store, 1));
  CHECK_NOTHROW(store.check_all_written());
}

}  // namespace

TEST_CASE("every unit with parameters is acquired before it runs, and its gradients finish once") {
  for_each_plan(check_leases);
}

namespace {

/// A micro-batch on the meta device, in bf16: its passes from the residual stream's gradient to the branches', the
/// bytes that these read and write, and the slot's size.
struct BranchGradients {
  int passes = 0;
  double bytes = 0;
  std::size_t slot_bytes = 0;

  BranchGradients(const GptConfig& config, const DropoutOptions& dropout, ChunkRange range) {
    Chunk chunk({.config = config, .dropout = dropout, .padded_vocab = 48, .residual = DType::bf16}, range);
    ParamMemory store(Device::meta, {.compute = DType::bf16, .residual = DType::bf16}, single_rule<AdamW>(),
                      [&](const ParamVisitor& visit) { chunk.params(visit); });
    store.begin_step();
    Stream stream(Device::meta);
    Profile profile(Device::meta);
    Arena slot(Device::meta, "slot", 0), scratch(Device::meta, "scratch", 0);
    ProcessGroups groups;
    Batch batch = meta_batch();
    batch.samples = Tensor(nullptr, DType::i64, {1});
    Ctx ctx{stream, &slot, scratch, groups, true};
    Chunk::Cache cache = chunk.make_cache();
    chunk.forward(ctx, range.has_embedding ? Tensor() : chunk.make_hidden(ctx, batch), batch, cache);
    stream.set_profile(&profile);
    chunk.backward(ctx, meta_dout(chunk, batch), batch.loss_weights, batch, cache);
    stream.set_profile(nullptr);
    for (const ProfileEntry& entry : profile.entries()) {
      if (entry.name != "residual_backward") continue;
      ++passes;
      bytes += entry.work.bytes;
    }
    slot_bytes = slot.peak();
  }
};

}  // namespace

TEST_CASE("without dropout, branches read the residual stream's gradient where it is, and norms sum it for biases") {
  constexpr double kHiddenBytes = 8 * kHidden * 2, kBiasBytes = kHidden * 4;
  const ChunkRange whole{0, 3, true, true}, middle{1, 1, false, false};
  struct Expected {
    GptConfig config;
    int biases, copies;  // in a layer; copies: of what a stage receives and overwrites before the queue is computed
    int sums;            // passes for a bias alone: of two parallel branches, the norm sums the gradient for one
  };
  for (const auto& [config, biases, copies, sums] : {Expected{kArchitectures[0].config, 2, 1, 0},
                                                     {kArchitectures[2].config, 0, 1, 0},
                                                     {kArchitectures[4].config, 2, 2, 1}}) {
    CAPTURE(copies);
    const BranchGradients gradients(config, {}, whole), dropped(config, kDropout, whole);
    CHECK(gradients.passes == 3 * sums);
    CHECK(gradients.bytes == 3 * sums * (kHiddenBytes + kBiasBytes));  // a bias only reads
    CHECK(dropped.passes == 3 * 2);
    CHECK(dropped.bytes == 3 * (2 * 2 * kHiddenBytes + biases * kBiasBytes));
    CHECK(gradients.slot_bytes < dropped.slot_bytes);
    CHECK(BranchGradients(config, {}, middle).bytes == copies * (2 * kHiddenBytes + (biases == 0 ? 0 : kBiasBytes)));
  }
}

namespace {

/// Emulates sharded parameters on a rank that holds all of them: values and gradients are NaN while not leased.
class Lender final : public ParamOwner {
 public:
  explicit Lender(ParamMemory& store) : store_(store) {
    for (Role role : {Role::values, Role::gradients}) {
      for (int param = 0; param < store.size(); ++param) hide(role, param);
    }
  }
  Lease acquire(Role role, int unit, std::optional<int>) override {
    if (std::pair(role, unit) == forgotten) return {};
    if (leases_[{role, unit}]++ == 0) {
      for_params(unit, [&](int param) {
        const std::vector<float>& kept = kept_[{role, param}];
        std::copy(kept.begin(), kept.end(), memory(role, param).data<float>());
      });
    }
    return Lease(this, {role, unit});
  }
  void gradients_done(int unit, bool) override { ended_without_lease_ |= leases_[{Role::gradients, unit}] == 0; }
  bool ended_without_lease() const { return ended_without_lease_; }
  std::vector<float> gradient(int param) { return kept_[{Role::gradients, param}]; }
  bool all_ended() const {
    return std::all_of(leases_.begin(), leases_.end(), [](const auto& lease) { return lease.second == 0; });
  }

  std::optional<std::pair<Role, int>> forgotten;  // its acquire() does nothing, as if the call were missing

 private:
  void release(Role role, int unit) noexcept override {
    if (--leases_[{role, unit}] == 0) for_params(unit, [&](int param) { hide(role, param); });
  }
  Tensor memory(Role role, int param) const { return role == Role::values ? store_.value(param) : store_.grad(param); }
  void hide(Role role, int param) {
    float* data = memory(role, param).data<float>();
    std::vector<float>& kept = kept_[{role, param}];
    kept.assign(data, data + memory(role, param).numel());
    std::fill_n(data, kept.size(), NAN);
  }
  template <class Do>
  void for_params(int unit, const Do& action) const {
    for (int param = 0; param < store_.size(); ++param) {
      if (store_.specs()[static_cast<std::size_t>(param)].unit == unit) action(param);
    }
  }

  ParamMemory& store_;
  bool ended_without_lease_ = false;
  std::map<std::pair<Role, int>, int> leases_;
  std::map<std::pair<Role, int>, std::vector<float>> kept_;
};

struct Pass {
  std::vector<float> losses, held_out, dinput;
  std::vector<std::vector<float>> gradients;
  bool operator==(const Pass&) const = default;  // false with any NaN
};

/// Trains on a micro-batch and evaluates it, twice. The parameters are leased if `lends`, and resident otherwise.
Pass run(const Plan& plan, bool lends, std::optional<std::pair<Role, int>> forgotten = {},
         const DropoutOptions& dropout = kDropout) {
  const auto& [config, range, defers, recompute] = plan;
  Chunk chunk({.config = config, .dropout = dropout, .padded_vocab = 48, .recompute = recompute}, range);
  ParamMemory store(Device::cpu, kPrecisionFp32, single_rule<AdamW>(),
                    [&](const ParamVisitor& visit) { chunk.params(visit); });
  store.initialize(7);
  std::optional<Lender> lender;
  if (lends) lender.emplace(store).forgotten = forgotten;
  Stream stream(Device::cpu);
  Arena slot(Device::cpu, "slot", 1 << 18), scratch(Device::cpu, "scratch", 1 << 18);
  ProcessGroups groups;
  Ctx ctx{stream, &slot, scratch, groups, true, lends ? &*lender : nullptr};
  ctx.defers_weights = defers;
  std::vector<std::int32_t> tokens = {1, 2, 3, 4}, positions = {0, 1, 2, 3}, labels = {2, 3, 4, 5};
  std::vector<float> weights(4, 0.25f), input(4 * kHidden), dout(4 * kHidden);
  std::int64_t sample = 5;
  Batch batch;
  batch.samples = Tensor(&sample, DType::i64, {1});
  batch.tokens = Tensor(tokens.data(), DType::i32, {1, 4});
  batch.positions = Tensor(positions.data(), DType::i32, {1, 4});
  batch.labels = Tensor(labels.data(), DType::i32, {1, 4});
  batch.loss_weights = Tensor(weights.data(), DType::f32, {1, 4});
  Pass pass;
  pass.losses.resize(4), pass.held_out.resize(4);
  auto hidden = [&](std::vector<float>& values) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
    return Tensor(values.data(), DType::f32, {4, kHidden});
  };
  Tensor losses(pass.losses.data(), DType::f32, {1, 4}), held_out(pass.held_out.data(), DType::f32, {1, 4});
  Chunk::Cache cache = chunk.make_cache();
  store.begin_step();
  for (bool is_last : {false, true}) {
    slot.clear();
    ctx.training = true;
    ctx.ends_gradients = is_last;
    chunk.forward(ctx, range.has_embedding ? Tensor() : hidden(input), batch, cache);
    Tensor dinput = chunk.backward(ctx, hidden(dout), losses, batch, cache);
    if (defers) chunk.weights(ctx, cache);
    if (dinput.exists()) pass.dinput.assign(dinput.data<float>(), dinput.data<float>() + dinput.numel());
    slot.clear();
    ctx.training = false;
    Tensor output = chunk.evaluate(ctx, range.has_embedding ? Tensor() : hidden(input), held_out, batch, cache);
    if (output.exists()) pass.held_out.assign(output.data<float>(), output.data<float>() + output.numel());
  }
  for (int param = 0; param < store.size(); ++param) {
    const float* grad = store.grad(param).data<float>();
    pass.gradients.push_back(lends ? lender->gradient(param)
                                   : std::vector<float>(grad, grad + store.grad(param).numel()));
  }
  if (lends) {
    CHECK(lender->all_ended());
    CHECK(lender->ended_without_lease() == (forgotten && forgotten->first == Role::gradients));
  }
  return pass;
}

}  // namespace

TEST_CASE("a unit uses values and gradients only under leases, and a missing lease is detected") {
  for_each_plan([](const Plan& plan) {
    const ChunkRange& range = plan.range;
    const Pass resident = run(plan, false);
    CHECK(resident == resident);  // no NaN
    CHECK(run(plan, true) == resident);
    // Recomputing and deferring change no bit, also without dropout, where branches read the stream's gradient in
    // place.
    CHECK(run({plan.config, range}, false) == resident);
    CHECK(run({plan.config, range}, false, {}, {}) == run(plan, true, {}, {}));
    const int first = static_cast<int>(range.first_layer) + (range.has_embedding ? 0 : 1);
    const int units = static_cast<int>(range.num_layers) + (range.has_embedding ? 1 : 0) + (range.has_head ? 1 : 0);
    for (int unit = first; unit < first + units; ++unit) {
      for (Role role : {Role::values, Role::gradients}) {
        CAPTURE(unit);
        CHECK(run(plan, true, std::pair(role, unit)) != resident);
      }
    }
  });
}
