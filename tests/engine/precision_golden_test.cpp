// Complete models in bf16 and fp16, compared with float64: losses and gradients are within the dtype's bounds.
#include "tests/engine/golden_model.h"

using namespace mtl;
using namespace mtl::test;

namespace {

/// Paths are relative to golden/.
const std::vector<std::string> kPrecisionModels = {"gpt2_model/a",      "gpt2_model/b",        "llama_model/llama",
                                                   "llama_model/qwen2", "llama_model/mistral", "llama_model/neox",
                                                   "family_model/qwen3"};

constexpr std::int64_t kPaddedVocab = 1024;  // more than any of these models' vocabularies

/// Returns all parameters' gradients in order, without padding.
std::vector<float> all_gradients(const GoldenModel& model) {
  std::vector<float> out;
  for (int p = 0; p < model.params.size(); ++p) {
    const std::vector<float> gradient = model.gradient(p);
    out.insert(out.end(), gradient.begin(), gradient.begin() + model.params.slice(p).count());
  }
  return out;
}

}  // namespace

TEST_CASE("models in bf16 and fp16: losses and gradients are within the dtype's bounds of float64") {
  for (const std::string& name : kPrecisionModels) {
    CAPTURE(name);
    GoldenModel exact(name, golden_shape(name, kPaddedVocab, kPrecisionFp32));
    // Other golden tests check that the fp32 gradients are within 2e-5 of float64.
    train_golden_step(exact, equal_weights(exact));
    const std::vector<float> fp32 = all_gradients(exact);
    const std::vector<double> expected_gradients(fp32.begin(), fp32.end());
    const SafetensorsFile golden(exact.folder + "/golden.safetensors");
    const std::vector<double> expected = read_tensor(golden, "token_losses");
    for (DType dtype : {DType::bf16, DType::f16}) {
      const GoldenBounds bounds = golden_bounds(dtype);
      for (bool wide_residual : {false, true}) {
        CAPTURE(std::string(name_of(dtype)));
        CAPTURE(wide_residual);
        Precision precision;
        precision.compute = dtype;
        precision.residual = wide_residual ? DType::f32 : dtype;
        GoldenModel model(name, golden_shape(name, kPaddedVocab, precision));
        if (dtype == DType::f16) model.state.loss_scale = 4096;
        train_golden_step(model, equal_weights(model));
        const std::vector<float> losses = model.losses(0);
        double sum = 0;
        for (std::size_t i = 0; i < expected.size(); ++i) sum += losses[i];
        const double token_loss = max_relative(losses.data(), expected), mean = sum / double(expected.size()),
                     loss = std::abs(mean / read_tensor(golden, "loss")[0] - 1),
                     gradient = rms_relative(all_gradients(model).data(), expected_gradients);
        CHECK(token_loss < bounds.token_loss);
        CHECK(loss < bounds.loss);
        CHECK(gradient < bounds.gradient);
        CHECK(model.pipeline.slot_peak() == model.plan.entry(Category::slots).bytes);
        CHECK(model.pipeline.scratch_peak() <= model.plan.entry(Category::scratch).bytes);
      }
    }
  }
}

TEST_CASE("16-bit activations take about half the bytes, and less with a 16-bit residual stream") {
  const auto slots = [](DType compute, DType residual) {
    Precision precision;
    precision.compute = compute;
    precision.residual = residual;
    GoldenModel model("gpt2_model/a", golden_shape("gpt2_model/a", kPaddedVocab, precision));
    return static_cast<double>(model.plan.entry(Category::slots).bytes);
  };
  const double fp32 = slots(DType::f32, DType::f32), bf16 = slots(DType::bf16, DType::bf16);
  CHECK(bf16 / fp32 < 0.53);
  CHECK(bf16 / fp32 >= 0.5);
  CHECK(slots(DType::bf16, DType::f32) > bf16);
}
