// How losses are averaged, and the z-loss: compared with PyTorch's float64, of given logits and in models.
#include "kernels/cross_entropy.h"
#include "tests/engine/golden_model.h"
#include "tests/golden_lines.h"
#include "tests/kernels/reference.h"

using namespace mtl;
using namespace mtl::test;

namespace {

/// Returns mask / sum(mask).
std::vector<double> mean_weights(std::vector<double> mask) {
  double sum = 0;
  for (double value : mask) sum += value;
  for (double& value : mask) value /= sum;
  return mask;
}

double weighted(const std::vector<float>& losses, const std::vector<double>& weights) {
  REQUIRE(losses.size() == weights.size());
  double sum = 0;
  for (std::size_t i = 0; i < losses.size(); ++i) sum += static_cast<double>(losses[i]) * weights[i];
  return sum;
}

void check_logits(const Json& expected, const SafetensorsFile& file) {
  const std::string id = expected.at("id").as_string();
  const std::int64_t rows = expected.at("tokens").as_int(), vocab = expected.at("vocab").as_int();
  const auto floats = [](const std::vector<double>& values) {
    return std::vector<float>(values.begin(), values.end());
  };
  const std::vector<double> weights = mean_weights(read_tensor(file, id + ".mask")),
                            labels = read_tensor(file, id + ".labels");
  Stream stream(kDevice, 1);
  const Owned logits({rows, vocab}), of_labels(DType::i32, {rows}), of_weights({rows}), losses({rows}),
      z_losses({rows});
  write(logits, floats(read_tensor(file, id + ".logits")));
  write(of_labels, std::vector<std::int32_t>(labels.begin(), labels.end()));
  write(of_weights, floats(weights));
  cross_entropy_forward_backward(stream, losses, logits, logits, of_labels, of_weights, vocab, nullptr,
                                 {static_cast<float>(expected.at("coefficient").as_number()), z_losses});
  stream.synchronize();
  CHECK(weighted(on_host<float>(losses), weights) == doctest::Approx(expected.at("loss").as_number()).epsilon(1e-6));
  CHECK(weighted(on_host<float>(z_losses), weights) ==
        doctest::Approx(expected.at("z_loss").as_number()).epsilon(1e-6));
  CHECK(max_relative(on_host<float>(logits).data(), read_tensor(file, id + ".grad")) < 2e-5);
}

/// A model's step on golden rows, whose tokens have the same weight in each micro-batch, or in the step.
struct Step {
  double loss = 0, z_loss = 0;  // means over tokens
  double grad_norm = 0;
};

Step run_step(const Json& expected, bool per_token, double z_coefficient) {
  const std::string name = expected.at("model").as_string();
  const SafetensorsFile batch(cat("golden/objectives/batches_", name, ".safetensors"));
  const std::vector<double> tokens = read_tensor(batch, "tokens"),
                            mask = read_tensor(batch, "loss_mask." + expected.at("mask").as_string());
  const auto& shape = batch.find("tokens")->shape;
  const std::size_t rows = shape[0], length = shape[1] - 1;
  const std::int64_t micro_batches = expected.at("num_microbatches").as_int();
  GoldenModel model(name == "llama" ? "llama_model/llama" : "gpt2_model/a",
                    {.micro_batch = static_cast<std::int64_t>(rows) / micro_batches,
                     .seq_length = static_cast<std::int64_t>(length),
                     .micro_batches = micro_batches,
                     .padded_vocab = 640,
                     .per_token_loss = per_token,
                     .z_loss = static_cast<float>(z_coefficient),
                     .layout = {}});
  const std::size_t rows_at_once = rows / static_cast<std::size_t>(micro_batches);
  double all_unmasked = 0;
  for (std::size_t m = 0; m * rows_at_once < rows; ++m) {
    std::vector<double> inputs, labels, weights;
    double unmasked = 0;
    for (std::size_t row = m * rows_at_once; row < (m + 1) * rows_at_once; ++row) {
      for (std::size_t t = 0; t < length; ++t) {
        inputs.push_back(tokens[row * (length + 1) + t]);
        labels.push_back(tokens[row * (length + 1) + t + 1]);
        weights.push_back(mask[row * length + t]);
        unmasked += weights.back();
      }
    }
    all_unmasked += unmasked;
    const double divisor = per_token ? static_cast<double>(weights.size()) : std::max(unmasked, 1.0);
    for (double& weight : weights) weight /= divisor * static_cast<double>(micro_batches);
    model.fill(static_cast<int>(m), inputs, labels, weights);
  }
  if (per_token) model.state.token_share = all_unmasked / static_cast<double>(rows * length);
  model.step.send(model.stream, model.state);
  model.params.begin_step();
  model.pipeline.train(model.buffers, nullptr, nullptr, model.step.loss_sums());
  Optimizer optimizer(model.params, {.clip_grad = 1, .overlap = {}}, model.stream, model.groups);
  optimizer.set_factors(model.state);
  optimizer.step(model.pipeline.scratch(), model.step.on_device());
  const StepReport report = model.step.receive(model.stream);
  return {report.loss_sums[0] / all_unmasked, report.loss_sums[1] / all_unmasked, report.grad_norm};
}

}  // namespace

TEST_CASE("losses are averaged as Megatron-LM does, in float64: by micro-batch, and over the tokens of a step") {
  for (const Json& expected : golden_lines("golden/objectives/normalisation.jsonl")) {
    CAPTURE(expected.at("model").as_string());
    CAPTURE(expected.at("case").as_string());
    const Step step = run_step(expected, expected.at("per_token").as_bool(), 0);
    CHECK(step.loss == doctest::Approx(expected.at("logged_loss").as_number()).epsilon(1e-6));
    CHECK(step.grad_norm == doctest::Approx(expected.at("grad_norm").as_number()).epsilon(3e-6));
    CHECK(step.z_loss == 0);
  }
}

TEST_CASE("z-loss: losses and gradients equal PyTorch's float64, of logits and in a model") {
  const SafetensorsFile file("golden/objectives/z_loss.safetensors");
  int models = 0, logits = 0;
  for (const Json& expected : golden_lines("golden/objectives/z_loss.jsonl")) {
    CAPTURE(expected.at("id").as_string());
    const bool has_model = expected.find("model") != nullptr;
    (has_model ? models : logits) += 1;
    if (!has_model) {
      check_logits(expected, file);
      continue;
    }
    const Step step = run_step(expected, true, expected.at("coefficient").as_number());
    CHECK(step.loss == doctest::Approx(expected.at("loss").as_number()).epsilon(1e-6));
    CHECK(step.z_loss == doctest::Approx(expected.at("z_loss").as_number()).epsilon(1e-6));
    CHECK(step.grad_norm == doctest::Approx(expected.at("grad_norm").as_number()).epsilon(3e-6));
  }
  CHECK(models == 2);
  CHECK(logits == 4);
}
