// Thirty optimizer steps against PyTorch's float64 run with Megatron's semantics.
#include "base/json.h"
#include "optim/lr_schedule.h"
#include "optim/optimizer.h"
#include "tests/engine/golden_model.h"
#include "tests/golden_lines.h"

using namespace mtl;
using namespace mtl::test;

namespace {

constexpr int kMicroBatches = 2, kRows = 4;

/// Loads step `step`'s micro-batches; returns each one's number of unmasked tokens.
void fill_step(GoldenModel& model, const std::vector<double>& tokens, const std::vector<double>& mask,
               std::size_t step) {
  auto length = static_cast<std::size_t>(model.shape.seq_length);
  for (std::size_t m = 0; m < kMicroBatches; ++m) {
    std::vector<double> inputs, labels, weights;
    double unmasked = 0;
    for (std::size_t row = 0; row < kRows; ++row) {
      std::size_t at = (step * kMicroBatches + m) * kRows + row;
      for (std::size_t t = 0; t < length; ++t) {
        inputs.push_back(tokens[at * (length + 1) + t]);
        labels.push_back(tokens[at * (length + 1) + t + 1]);
        weights.push_back(mask[at * length + t]);
        unmasked += weights.back();
      }
    }
    for (double& weight : weights) weight /= unmasked * kMicroBatches;
    model.fill(static_cast<int>(m), inputs, labels, weights);
  }
}

/// The K part of the QKV bias of one head after another: its gradient is rounding noise.
bool is_noise(const std::string& name, std::size_t element, const GptConfig& config) {
  auto width = static_cast<std::size_t>(config.head_dim);
  return name.ends_with("qkv.bias") && element / width % 3 == 1;
}

void compare(const std::string& name, const float* got, std::vector<double> expected, const GptConfig& config,
             double max_limit, double rms_limit) {
  std::vector<float> mine(got, got + expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (is_noise(name, i, config)) mine[i] = 0, expected[i] = 0;
  }
  CAPTURE(name);
  if (max_limit > 0) CHECK(max_relative(mine.data(), expected) < max_limit);
  CHECK(rms_relative(mine.data(), expected) < rms_limit);
}

}  // namespace

TEST_CASE("thirty steps: losses, norms, final weights and moments equal PyTorch's float64") {
  SafetensorsFile batches("golden/train_trajectory/batches.safetensors"),
      final("golden/train_trajectory/final.safetensors");
  std::vector<double> tokens = read_tensor(batches, "tokens"), mask = read_tensor(batches, "loss_mask");
  Json hyper = Json::read("golden/train_trajectory/hyper.json");
  auto length = static_cast<std::int64_t>(batches.find("tokens")->shape[3]) - 1;
  GoldenModel model("gpt2_model/a", {.micro_batch = kRows,
                                     .seq_length = length,
                                     .micro_batches = kMicroBatches,
                                     .padded_vocab = 512,
                                     .documents = false,
                                     .threads = 2,
                                     .layout = {}});
  Optimizer::Options options{
      {{hyper.at("beta1").as_number(), hyper.at("beta2").as_number(), hyper.at("eps").as_number()}},
      hyper.at("clip_grad").as_number(),
      {}};
  Optimizer optimizer(model.params, options, model.stream, model.groups);
  LrScheduleFlags flags;
  flags.lr = hyper.at("lr").as_number();
  flags.min_lr = hyper.at("min_lr").as_number();
  flags.lr_warmup_iters = hyper.at("warmup_iters").as_int();
  flags.lr_decay_iters = hyper.at("decay_iters").as_int();
  flags.lr_decay_style = hyper.at("lr_decay_style").as_string();
  flags.weight_decay = hyper.at("weight_decay").as_number();
  std::int64_t global_batch = hyper.at("global_batch_size").as_int();
  LrScheduleOptions schedule = resolve_schedule(flags, {hyper.at("steps").as_int(), std::nullopt, global_batch});

  std::size_t step = 0;
  for (const Json& expected : golden_lines("golden/train_trajectory/trajectory.jsonl")) {
    fill_step(model, tokens, mask, step);
    model.state.step = static_cast<std::int64_t>(step) + 1;
    model.state.lr = learning_rate(schedule, static_cast<std::int64_t>(step) * global_batch);
    model.state.weight_decay = weight_decay(schedule, static_cast<std::int64_t>(step) * global_batch);
    model.train_step();
    optimizer.step(model.pipeline.scratch(), &model.state);
    double loss = 0;
    for (int m = 0; m < kMicroBatches; ++m) {
      for (std::int64_t i = 0; i < kRows * length; ++i) {
        loss += static_cast<double>(model.buffers.batch(m).loss_weights.data<float>()[i]) *
                static_cast<double>(model.losses(m)[i]);
      }
    }
    CAPTURE(step);
    CHECK(model.state.lr == doctest::Approx(expected.at("lr").as_number()).epsilon(1e-12));
    CHECK(loss == doctest::Approx(expected.at("loss").as_number()).epsilon(2e-6));
    CHECK(model.state.grad_norm == doctest::Approx(expected.at("grad_norm").as_number()).epsilon(3e-6));
    ++step;
  }
  CHECK(step == 30);
  for (int p = 0; p < model.params.size(); ++p) {
    const std::string& name = model.params.specs()[static_cast<std::size_t>(p)].name;
    std::string stored = "transformer." + hf_name(name);
    auto expected = [&](const char* kind) { return our_layout(name, read_tensor(final, kind + stored), model.config); };
    compare(name, model.params.value(p).data<float>(), expected("param."), model.config, 3e-5, 3e-6);
    if (final.find("exp_avg." + stored) == nullptr) continue;
    compare(name, model.params.held(p, kFirstState).data<float>(), expected("exp_avg."), model.config, 0, 3e-5);
    compare(name, model.params.held(p, kFirstState + 1).data<float>(), expected("exp_avg_sq."), model.config, 0, 3e-5);
  }
}
