// The z-loss and its gradient, compared with PyTorch's float64: of given logits, and in a model.
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

void check_model(const Json& expected) {
  const SafetensorsFile batch("golden/z_loss/batch_llama.safetensors");
  const std::vector<double> tokens = read_tensor(batch, "tokens");
  const auto& shape = batch.find("tokens")->shape;
  const std::size_t rows = shape[0], length = shape[1] - 1;
  RunShape run{.micro_batch = static_cast<std::int64_t>(rows),
               .seq_length = static_cast<std::int64_t>(length),
               .padded_vocab = 640,
               .z_loss = static_cast<float>(expected.at("coefficient").as_number()),
               .layout = {}};
  GoldenModel model("llama_model/llama", run);
  std::vector<double> inputs, labels;
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t t = 0; t < length; ++t) {
      inputs.push_back(tokens[row * (length + 1) + t]);
      labels.push_back(tokens[row * (length + 1) + t + 1]);
    }
  }
  const std::vector<double> weights = mean_weights(read_tensor(batch, "loss_mask.varied"));
  model.fill(0, inputs, labels, weights);
  model.train_step();
  CHECK(weighted(model.losses(0), weights) == doctest::Approx(expected.at("loss").as_number()).epsilon(1e-6));
  CHECK(weighted(on_host<float>(model.buffers.batch(0).z_loss.losses), weights) ==
        doctest::Approx(expected.at("z_loss").as_number()).epsilon(1e-6));
  CHECK(model.grad_norm() == doctest::Approx(expected.at("grad_norm").as_number()).epsilon(3e-6));
}

}  // namespace

TEST_CASE("z-loss: losses and gradients equal PyTorch's float64, of logits and in a model") {
  const SafetensorsFile file("golden/z_loss/cases.safetensors");
  int models = 0, logits = 0;
  for (const Json& expected : golden_lines("golden/z_loss/cases.jsonl")) {
    CAPTURE(expected.at("id").as_string());
    const bool has_model = expected.find("model") != nullptr;
    (has_model ? models : logits) += 1;
    if (has_model)
      check_model(expected);
    else
      check_logits(expected, file);
  }
  CHECK(models == 2);
  CHECK(logits == 4);
}
