// 16-bit weights in multiple layouts: with fp32 main weights, and with stochastic rounding instead.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <mutex>

#include "tests/comm/thread_group.h"
#include "tests/optim/rank_params.h"

using namespace mtl;
using namespace mtl::test;

namespace {

constexpr Precision kMixed{.compute = DType::bf16, .residual = DType::bf16};
constexpr Precision kNoMainWeights{
    .compute = DType::bf16, .residual = DType::bf16, .main_params = DType::bf16, .stochastic_rounding = true};

std::vector<float> widened(const Tensor& tensor) {
  std::vector<float> out;
  with_float_type(tensor.dtype(), [&]<class T>(T) {
    for (const T *at = tensor.data<T>(), *end = at + tensor.numel(); at < end; ++at) out.push_back(widen(*at));
  });
  return out;
}

/// Whole tensors by name, assembled from all ranks' parts.
using WholeTensors = std::map<std::string, std::vector<float>>;

void add_part(WholeTensors& whole, const ParamSpec& spec, const Slice& slice, const std::vector<float>& values) {
  std::vector<float>& to = whole[spec.name];
  to.resize(static_cast<std::size_t>(spec.numel()), NAN);
  for_each_overlap(slice, whole_slice(spec.shape), [&](const Overlap& overlap) {
    for (std::int64_t i = 0; i < overlap.count; ++i)
      to[static_cast<std::size_t>(overlap.in_b + i)] = values[static_cast<std::size_t>(overlap.in_a + i)];
  });
}

/// Sets gradients. Summed over the ranks, they depend only on the element's index in the whole tensor, up to rounding.
void set_gradients(RankParams& own) {
  const auto ranks = static_cast<float>(own.store.layout().size(Axis::data));
  own.chunk.params([&](Param& param, const ParamSpec& spec) {
    param.take_grad();
    float* grad = own.store.grad(param.index).data<float>();
    std::fill(grad, grad + own.store.grad(param.index).numel(), 0.0f);
    for_each_overlap(own.store.slice(param.index), whole_slice(spec.shape), [&](const Overlap& overlap) {
      for (std::int64_t i = 0; i < overlap.count; ++i)
        grad[overlap.in_a + i] = std::sin(static_cast<float>(overlap.in_b + i + 31 * param.index)) / ranks + 2 / ranks;
    });
  });
}

/// The weights after three updates: values and, if present, main weights.
struct Weights {
  WholeTensors values, main;
};

Weights after_updates(const Precision& precision, const Grid& grid) {
  Weights out;
  std::mutex mutex;
  run_ranks(layout_of(grid, 0).grid, [&](int rank, const ProcessGroups& groups) {
    RankParams own(layout_of(grid, rank), tiny_gpt(), precision);
    Optimizer optimizer(own.store, {.clip_grad = 0, .overlap = {}, .seed = 99}, own.stream, groups);
    Arena scratch(Device::cpu, "scratch", 1 << 16);
    StepState state;
    state.lr = 1e-4;
    for (state.step = 1; state.step <= 3; ++state.step) {
      optimizer.set_factors(state);
      optimizer.begin_step();
      set_gradients(own);
      optimizer.step(scratch, &state);
    }
    std::lock_guard lock(mutex);
    CHECK(state.nonzero_updates > 0);
    for (int param = 0; param < own.store.size(); ++param) {
      const ParamSpec& spec = own.store.specs()[static_cast<std::size_t>(param)];
      add_part(out.values, spec, own.store.slice(param), widened(own.store.value(param)));
      const std::size_t row = own.store.main_row();
      if (row != kValues)
        add_part(out.main, spec, own.store.row_slice(param, row), widened(own.store.row_part(param, row)));
    }
  });
  return out;
}

}  // namespace

TEST_CASE("main weights start as the fp32 run's weights, and values as their roundings") {
  const RankParams fp32(layout_of({}, 0));
  for (const Grid& grid :
       {Grid{}, Grid{.data = 3, .zero = 1}, Grid{.tensor = 2}, Grid{.tensor = 2, .data = 2, .zero = 1}}) {
    WholeTensors main;
    for (int rank = 0; rank < grid.tensor * grid.data; ++rank) {
      const RankParams own(layout_of(grid, rank), tiny_gpt(), kMixed);
      REQUIRE(own.store.table()[own.store.main_row()].role == StorageRole::main_weights);
      for (int param = 0; param < own.store.size(); ++param) {
        const std::size_t row = own.store.main_row();
        const ParamSpec& spec = own.store.specs()[static_cast<std::size_t>(param)];
        add_part(main, spec, own.store.row_slice(param, row), widened(own.store.row_part(param, row)));
        WholeTensors values, expected;
        add_part(values, spec, own.store.slice(param), widened(own.store.value(param)));
        add_part(expected, spec, fp32.store.slice(param), widened(fp32.store.value(param)));
        for (std::size_t i = 0; i < values[spec.name].size(); ++i) {
          const float value = values[spec.name][i];
          if (!std::isnan(value)) CHECK(value == widen(narrow<Bf16>(expected[spec.name][i])));
        }
      }
    }
    for (int param = 0; param < fp32.store.size(); ++param)
      CHECK(main[fp32.store.specs()[static_cast<std::size_t>(param)].name] ==
            widened(fp32.store.value(param).flat(0, fp32.store.slice(param).count())));
  }
}

TEST_CASE("weights loaded in bf16 start rounded to bf16, main weights too") {
  Precision loaded = kMixed;
  loaded.load = DType::bf16;
  const RankParams own(layout_of({}, 0), tiny_gpt(), loaded);
  for (int param = 0; param < own.store.size(); ++param)
    CHECK(widened(own.store.row_part(param, own.store.main_row())) == widened(own.store.row_part(param, kValues)));
}

TEST_CASE("a bf16 store takes 18 bytes per parameter with fp32 gradients, 16 with bf16 gradients") {
  for (auto [grads, expected] : {std::pair<DType, std::size_t>{DType::f32, 18}, {DType::bf16, 16}}) {
    Precision precision = kMixed;
    precision.main_grads = grads;
    const RankParams own(layout_of({}, 0), tiny_gpt(), precision);
    std::size_t bytes = 0, elements = 0;
    for (std::size_t row = 0; row < own.store.table().size(); ++row) bytes += own.store.bytes(row);
    for (const Bucket& bucket : own.store.buckets()) elements += static_cast<std::size_t>(bucket.count);
    CHECK(bytes == expected * elements);
  }
}

TEST_CASE("updates of main weights equal an fp32 run's bit for bit, and values are their roundings") {
  const Weights fp32 = after_updates(kPrecisionFp32, {});
  for (const Grid& grid :
       {Grid{}, Grid{.data = 3, .zero = 1}, Grid{.tensor = 2}, Grid{.tensor = 2, .data = 2, .zero = 1}}) {
    const Weights mixed = after_updates(kMixed, grid);
    REQUIRE(mixed.main.size() == fp32.values.size());
    if (grid.data != 3) CHECK(mixed.main == fp32.values);  // thirds of gradients are rounded
    for (const auto& [name, main] : mixed.main) {
      CAPTURE(name);
      std::vector<float> rounded;
      for (float weight : main) rounded.push_back(widen(narrow<Bf16>(weight)));
      CHECK(mixed.values.at(name) == rounded);
    }
  }
}

TEST_CASE("stochastic rounding produces the same weights in every layout") {
  const Weights single_rank = after_updates(kNoMainWeights, {});
  Precision nearest = kNoMainWeights;
  nearest.stochastic_rounding = false;
  CHECK(after_updates(nearest, {}).values != single_rank.values);
  for (const Grid& grid : {Grid{.data = 2, .zero = 1}, Grid{.tensor = 2}, Grid{.tensor = 2, .data = 2, .zero = 1}}) {
    const Weights other = after_updates(kNoMainWeights, grid);
    REQUIRE(other.values.size() == single_rank.values.size());
    for (const auto& [name, values] : single_rank.values) {
      CAPTURE(name);
      CHECK(other.values.at(name) == values);
    }
  }
}
