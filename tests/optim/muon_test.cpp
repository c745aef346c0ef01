// Muon: Newton-Schulz iterations and single updates, compared with float64 runs of Megatron-LM's; the same bits in
// every layout.
#include "optim/muon.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>

#include "base/enum_index.h"
#include "base/json.h"
#include "tests/comm/thread_group.h"
#include "tests/engine/golden_model.h"
#include "tests/golden_lines.h"
#include "tests/optim/rank_params.h"
#include "tests/relative_error.h"
#include "tests/scratch_folder.h"

using namespace mtl;
using namespace mtl::test;

namespace {

constexpr std::size_t kScratch = 1 << 20;

std::vector<float> floats(const SafetensorsFile& file, const std::string& name) {
  const std::vector<double> values = read_tensor(file, name);
  return {values.begin(), values.end()};
}

double largest_of(const std::vector<double>& values) {
  double largest = 0;
  for (double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

double largest_difference(const std::vector<float>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = larger_or_nan(largest, std::abs(double{a[i]} - b[i]));
  return largest;
}

}  // namespace

TEST_CASE("Newton-Schulz: equals float64 for every list of numbers, shape and kind of matrix") {
  const SafetensorsFile file("golden/muon/newton_schulz.safetensors");
  Stream stream(Device::cpu, 2);
  Arena scratch(Device::cpu, "scratch", kScratch);
  int cases = 0;
  std::map<std::string, int> lists;
  for (const Json& golden : golden_lines("golden/muon/newton_schulz.jsonl")) {
    const std::string id = golden.at("id").as_string(), kind = golden.at("kind").as_string(),
                      name = golden.at("coefficients").as_string();
    CAPTURE(id);
    const std::vector<double> expected = read_tensor(file, id + ".out");
    const std::vector<QuinticStep> steps = quintic_steps(name, golden.at("steps").as_int());
    for (const DType compute : {DType::f32, DType::bf16}) {
      std::vector<float> x = floats(file, id + ".x");
      const Tensor matrix(x.data(), DType::f32, {golden.at("rows").as_int(), golden.at("cols").as_int()});
      orthogonalize(stream, scratch, matrix, steps, 1, compute);
      const bool is_deficient = kind == "rank_deficient" || kind == "duplicate_rows";
      const double difference = largest_difference(x, expected), largest = largest_of(expected);
      if (kind == "zero") CHECK(difference == 0);
      // Rounding noise in null directions grows with every step; in bf16 to the size of the signal.
      if (compute == DType::f32)
        CHECK(difference <= (is_deficient ? 3e-3 : 1e-4) * largest);
      else if (const Json& reference = golden.at("bf16_max_rel"); !is_deficient && !reference.is_null())
        CHECK(difference <= std::max(0.03, 3 * reference.as_number()) * largest);
    }
    ++lists[name];
    ++cases;
  }
  CHECK(cases == 41);
  CHECK(lists.size() == kQuinticNames.size());
}

TEST_CASE("Newton-Schulz: lists that are too short start over or repeat their last numbers") {
  const auto a_of = [](const char* name, int steps) {
    std::vector<float> out;
    for (const QuinticStep& step : quintic_steps(name, steps)) out.push_back(step.a);
    return out;
  };
  CHECK(a_of("aol", 6) == std::vector{4.0098f, 3.4585f, 2.7573f, 2.7215f, 4.0098f, 3.4585f});
  CHECK(a_of("cans", 7) == std::vector{8.4703f, 4.1828f, 3.9619f, 3.2866f, 2.2737f, 2.2737f, 2.2737f});
  CHECK(a_of("deepseekv4", 10).at(7) == 3.4445f);
  CHECK(a_of("deepseekv4", 10).at(9) == 2.0f);
}

TEST_CASE("Muon: single updates equal float64, with queries, keys and values apart or not") {
  const SafetensorsFile file("golden/muon/updates.safetensors");
  Stream stream(Device::cpu, 2);
  Arena scratch(Device::cpu, "scratch", kScratch);
  const ProcessGroups alone;
  int cases = 0, split = 0;
  for (const Json& golden : golden_lines("golden/muon/updates.jsonl")) {
    if (golden.at("shards").as_int() > 1) continue;  // blockwise
    const std::string id = golden.at("id").as_string();
    CAPTURE(id);
    MuonRuleOptions options;
    options.momentum = golden.at("momentum").as_number();
    options.nesterov = golden.at("nesterov").as_bool();
    options.scale = *enum_named<MuonScale>(kMuonScales, golden.at("scale_mode").as_string());
    options.extra_scale = golden.at("extra_scale_factor").as_number();
    options.coefficients = golden.at("coefficient_type").as_string();
    options.steps = golden.at("num_ns_steps").as_int();
    const std::int64_t rows = golden.at("rows").as_int(), columns = golden.at("cols").as_int();
    ParamSpec spec{.name = "w", .shape = {rows, columns}};
    if (const Json& shapes = golden.at("split_shapes"); !shapes.is_null()) {
      const std::int64_t queries = shapes.as_array()[0].as_int(), dim = shapes.as_array()[1].as_int();
      spec.shape = {rows / (queries + 2 * dim), queries / dim + 2, dim, columns};
      spec.use = ParamUse::qkv;
      ++split;
    }
    std::vector<float> p = floats(file, id + ".p"), m = floats(file, id + ".m"), g = floats(file, id + ".g");
    const std::vector<float> before = p;
    const auto flat = [](std::vector<float>& of) { return Tensor(of.data(), DType::f32, {std::ssize(of)}); };
    const Muon rule(options);
    StepState state{
        {.step = 1, .lr = golden.at("lr").as_number(), .weight_decay = golden.at("weight_decay").as_number()}, {}};
    state.grad_factor = 1;
    state.factors[0] = rule.factors(state);
    rule.prepare(stream, {.param = {}, .grad = flat(g), .states = {flat(m)}}, &state);
    rule.transform(stream, scratch, alone, spec, flat(g));
    rule.update(stream, {.param = flat(p), .grad = flat(g), .states = {}}, &state);
    const std::vector<double> expected = read_tensor(file, id + ".p_new");
    double move = 0;
    for (std::size_t i = 0; i < p.size(); ++i) move = std::max(move, std::abs(expected[i] - double{before[i]}));
    CHECK(move > 0);
    CHECK(largest_difference(p, expected) <= 2e-5 * move);
    CHECK(largest_difference(m, read_tensor(file, id + ".m_new")) <=
          1e-6 * largest_of(read_tensor(file, id + ".m_new")));
    ++cases;
  }
  CHECK(cases == 18);
  CHECK(split == 3);
}

namespace {

RuleSet muon_rules(const MuonRuleOptions& options = {}) {
  RuleSet rules = single_rule<AdamW>();
  rules.rules.push_back(std::make_shared<Muon>(options));
  return rules;
}

/// Writes gradients that are functions of the elements' places in the whole tensors, divided by the replicas.
void write_gradients(RankParams& own, ParamTraffic& traffic, float step, int replicas) {
  std::map<int, std::vector<Param*>> units;
  own.chunk.params([&](Param& param, const ParamSpec& spec) { units[spec.unit].push_back(&param); });
  for (auto unit = units.rbegin(); unit != units.rend(); ++unit) {
    const Lease lease = traffic.acquire(Role::gradients, unit->first, {});
    for (Param* param : unit->second) {
      const Tensor grad = param->take_grad().tensor;
      std::fill_n(static_cast<std::byte*>(grad.raw()), grad.bytes(), std::byte{});
      const ParamSpec& spec = own.store.specs()[static_cast<std::size_t>(param->index)];
      for_each_overlap(own.store.slice(param->index), whole_slice(spec.shape), [&](const Overlap& overlap) {
        for (std::int64_t i = 0; i < overlap.count; ++i)
          grad.data<float>()[overlap.in_a + i] =
              std::sin(static_cast<float>(overlap.in_b + i) + step) * 0x1p-6f / static_cast<float>(replicas);
      });
    }
    traffic.gradients_done(unit->first, true);
  }
}

/// The whole weights after three updates with gradients that all replicas have alike.
std::map<std::string, std::vector<float>> after_updates(const Grid& grid, const Precision& precision,
                                                        const std::string& folder, const GptConfig& config) {
  std::map<std::string, std::vector<float>> out;
  std::mutex mutex;
  run_ranks(layout_of(grid, 0).grid, [&](int rank, const ProcessGroups& groups) {
    RankParams own(layout_of(grid, rank), config, precision, muon_rules(),
                   {.bucket_elements = 600, .optimizer_folder = folder});
    own.store.initialize(7);
    Optimizer optimizer(own.store, {.clip_grad = 0, .overlap = {}}, own.stream, groups);
    Arena scratch(Device::cpu, "scratch", kScratch);
    StepState state;
    state.lr = 0.01;
    state.weight_decay = 0.1;
    for (state.step = 1; state.step <= 3; ++state.step) {
      optimizer.set_factors(state);
      optimizer.begin_step();
      write_gradients(own, optimizer.traffic(), static_cast<float>(state.step), grid.data);
      optimizer.step(scratch, &state);
    }
    for (int param = 0; param < own.store.size(); ++param) {
      const ParamSpec& spec = own.store.specs()[static_cast<std::size_t>(param)];
      const Lease lease = optimizer.traffic().acquire(Role::values, spec.unit, {});
      const std::lock_guard lock(mutex);
      std::vector<float>& whole = out[spec.name];
      whole.resize(static_cast<std::size_t>(spec.numel()));
      const float* value = own.store.value(param).data<float>();
      for_each_overlap(own.store.slice(param), whole_slice(spec.shape), [&](const Overlap& overlap) {
        std::copy_n(value + overlap.in_a, overlap.count, whole.begin() + overlap.in_b);
      });
    }
  });
  return out;
}

}  // namespace

TEST_CASE("Muon: the same bits in every layout, and with its state in files") {
  GptConfig gated = tiny_gpt(2, false);
  gated.gated_mlp = true;
  gated.activation = Activation::silu;
  for (const GptConfig& config : {tiny_gpt(), gated}) {
    const auto expected = after_updates({}, kPrecisionFp32, "", config);
    REQUIRE(expected.size() > 4);
    for (const Grid& grid : {Grid{.tensor = 2}, Grid{.data = 2}, Grid{.data = 2, .zero = 1}, Grid{.data = 4, .zero = 2},
                             Grid{.data = 2, .zero = 3}, Grid{.tensor = 2, .data = 2, .zero = 1}}) {
      CAPTURE(grid.tensor);
      CAPTURE(grid.data);
      CAPTURE(grid.zero);
      for (const auto& [name, values] : after_updates(grid, kPrecisionFp32, "", config)) {
        CAPTURE(name);
        CHECK(values == expected.at(name));
      }
    }
    const ScratchFolder folder;
    CHECK(after_updates({.data = 2, .zero = 1}, kPrecisionFp32, folder.path(), config) == expected);
  }
}

TEST_CASE("Muon: matrices keep one state, and the parameters of AdamW two") {
  RankParams own(layout_of({.data = 2, .zero = 1}, 1), tiny_gpt(), kPrecisionFp32, muon_rules());
  const auto& table = own.store.table();
  REQUIRE(table.size() == kFirstState + 3);
  int matrices = 0;
  for (int param = 0; param < own.store.size(); ++param) {
    const ParamSpec& spec = own.store.specs()[static_cast<std::size_t>(param)];
    CAPTURE(spec.name);
    const bool is_matrix = spec.use != ParamUse::vector && spec.use != ParamUse::token_table;
    matrices += is_matrix ? 1 : 0;
    CHECK(own.store.holds(param, kFirstState) == !is_matrix);
    CHECK(own.store.holds(param, kFirstState + 1) == !is_matrix);
    CHECK(own.store.holds(param, kFirstState + 2) == is_matrix);
    for (std::size_t row = kFirstState; row < table.size(); ++row)
      CHECK(own.store.row_slice(param, row).count() ==
            (own.store.holds(param, row) ? own.store.owned_slice(param).count() : 0));
  }
  CHECK(matrices == 1 + 2 * 4);  // positions; queries, keys and values, out, up, down
}
