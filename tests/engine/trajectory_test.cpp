// Thirty optimizer steps, compared with a float64 PyTorch run that follows Megatron's semantics.
#include "tests/engine/golden_run.h"
#include "tests/golden_lines.h"

using namespace mtl;
using namespace mtl::test;

namespace {

/// The golden run in another precision, with scaled learning rates.
class Run : public GoldenRun {
 public:
  explicit Run(const Precision& precision = kPrecisionFp32, double lr_scale = 1)
      : Run(Json::read("golden/train_trajectory/hyper.json"), precision, lr_scale) {}

 private:
  Run(const Json& hyper, const Precision& precision, double lr_scale)
      : GoldenRun("gpt2_model/a", "golden/train_trajectory/batches.safetensors", hyper,
                  {.padded_vocab = 512,
                   .layout = {},
                   .precision = precision,
                   .rules = single_rule<AdamW>(AdamWOptions{.beta1 = hyper.at("beta1").as_number(),
                                                            .beta2 = hyper.at("beta2").as_number(),
                                                            .eps = hyper.at("eps").as_number()})},
                  lr_scale) {}
};

}  // namespace

TEST_CASE("thirty steps: losses, norms, final weights and moments equal PyTorch's float64") {
  const SafetensorsFile final("golden/train_trajectory/final.safetensors");
  Run run;
  GoldenModel& model = run.model;
  const GoldenBounds bounds = golden_bounds(DType::f32);
  std::size_t step = 0;
  for (const Json& expected : golden_lines("golden/train_trajectory/trajectory.jsonl")) {
    const double loss = run.step();
    CAPTURE(step);
    CHECK(model.state.lr == doctest::Approx(expected.at("lr").as_number()).epsilon(1e-12));
    CHECK(loss == doctest::Approx(expected.at("loss").as_number()).epsilon(bounds.loss));
    CHECK(model.state.grad_norm == doctest::Approx(expected.at("grad_norm").as_number()).epsilon(bounds.grad_norm));
    ++step;
  }
  CHECK(step == 30);
  for (int p = 0; p < model.params.size(); ++p) {
    const std::string& name = model.params.specs()[static_cast<std::size_t>(p)].name;
    std::string stored = "transformer." + hf_name(name);
    auto expected = [&](const char* kind) {
      return from_hf_layout(name, read_tensor(final, kind + stored), model.config);
    };
    compare(name, model.value(p), expected("param."), model.config, bounds.weights, bounds.weights / 10);
    if (final.find("exp_avg." + stored) == nullptr) continue;
    compare(name, on_host<float>(model.params.row_part(p, kFirstState)), expected("exp_avg."), model.config, 0,
            bounds.weights);
    compare(name, on_host<float>(model.params.row_part(p, kFirstState + 1)), expected("exp_avg_sq."), model.config, 0,
            bounds.weights);
  }
}

namespace {

/// Returns the record of PyTorch's run in this mode, with scaled learning rates. There is one line per step.
std::vector<Json> golden_steps(const std::string& mode, double lr_scale) {
  std::vector<Json> out;
  for (const Json& line : golden_lines("golden/train_trajectory/precision.jsonl")) {
    if (line.at("mode").as_string() == mode && line.at("lr_scale").as_number() == lr_scale) out.push_back(line);
  }
  REQUIRE(out.size() == 30);
  return out;
}

Precision mixed(DType compute) {
  Precision precision;
  precision.compute = precision.residual = compute;
  return precision;
}

Precision all_bf16() {
  Precision precision = mixed(DType::bf16);
  precision.main_params = precision.main_grads = precision.exp_avg = precision.exp_avg_sq = DType::bf16;
  return precision;
}

}  // namespace

TEST_CASE("thirty 16-bit steps with fp32 main weights follow the fp32 run, and no update is lost") {
  for (DType compute : {DType::bf16, DType::f16}) {
    for (double lr_scale : {1.0, 0.1}) {
      CAPTURE(std::string(name_of(compute)));
      CAPTURE(lr_scale);
      const std::vector<Json> fp32 = golden_steps("fp32", lr_scale), bf16 = golden_steps("bf16_fp32_master", lr_scale);
      Run run(mixed(compute), lr_scale);
      if (compute == DType::f16) run.model.state.loss_scale = 65536;
      double early = 0, late = 0, copies = 0;
      for (std::size_t step = 0; step < fp32.size(); ++step) {
        const double loss = run.step();
        double& furthest = step < 10 ? early : late;
        furthest = larger_or_nan(furthest, std::abs(loss - fp32[step].at("loss").as_number()));
        if (compute == DType::bf16)
          copies = larger_or_nan(copies,
                                 std::abs(run.lost_copy_share() - bf16[step].at("lost_in_compute_copy").as_number()));
        CHECK(run.lost_share() < 0.01);
      }
      // The golden weights are exact in fp16. An early update below half a unit in the last place does not change the
      // fp16 copy.
      CHECK(early < 0.006);
      CHECK(late < (compute == DType::bf16 ? 0.004 : 0.001));
      CHECK(copies < 0.03);
    }
  }
}

TEST_CASE("thirty bf16 steps without main weights lose updates and fall behind, as PyTorch's do") {
  for (double lr_scale : {1.0, 0.1}) {
    CAPTURE(lr_scale);
    const std::vector<Json> pytorch = golden_steps("bf16_all", lr_scale), fp32 = golden_steps("fp32", lr_scale);
    Run run(all_bf16(), lr_scale);
    double loss = 0, furthest = 0, lost = 0, mean = 0;
    for (const Json& expected : pytorch) {
      loss = run.step();
      furthest = larger_or_nan(furthest, std::abs(loss - expected.at("loss").as_number()));
      lost = larger_or_nan(lost, std::abs(run.lost_share() - expected.at("lost").as_number()));
      mean += run.lost_share() / 30;
    }
    CHECK(furthest < 0.05);
    CHECK(lost < 0.1);
    CHECK(mean > (lr_scale == 1 ? 0.4 : 0.8));
    CHECK(loss > fp32.back().at("loss").as_number() + (lr_scale == 1 ? 0.02 : 0.2));
  }
}

TEST_CASE("stochastic rounding brings bf16 without main weights back to the fp32 run") {
  Precision precision = all_bf16();
  precision.stochastic_rounding = true;
  for (double lr_scale : {1.0, 0.1}) {
    CAPTURE(lr_scale);
    const double fp32 = golden_steps("fp32", lr_scale).back().at("loss").as_number(),
                 nearest = golden_steps("bf16_all", lr_scale).back().at("loss").as_number();
    Run run(precision, lr_scale);
    double loss = 0;
    for (int step = 0; step < 30; ++step) loss = run.step();
    CHECK(std::abs(loss - fp32) < std::abs(nearest - fp32) / 2);
  }
}
