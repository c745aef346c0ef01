// Puts golden models into the memory of the device under test, and converts Hugging Face's tensors to mtl's layouts.
// Tests that use only this header can run on any device.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "ckpt/open_model.h"
#include "device/copy.h"
#include "engine/pipeline.h"
#include "formats/safetensors.h"
#include "models/model_source.h"
#include "optim/optimizer.h"
#include "tests/engine/golden_bounds.h"
#include "tests/relative_error.h"

namespace mtl::test {

/// Returns a tensor from a safetensors file in fp64.
inline std::vector<double> read_tensor(const SafetensorsFile& file, const std::string& name) {
  const StoredTensor* stored = file.find(name);
  require(stored != nullptr, file.path(), " has no ", name);
  auto bytes = file.data(*stored);
  std::vector<double> out;
  auto read_as = [&]<class T>(T) {
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(T)) {
      T value;
      std::memcpy(&value, bytes.data() + at, sizeof value);
      out.push_back(static_cast<double>(value));
    }
  };
  switch (stored->dtype) {
    case StoredDType::f32:
      read_as(float{});
      break;
    case StoredDType::f64:
      read_as(double{});
      break;
    case StoredDType::i64:
      read_as(std::int64_t{});
      break;
    case StoredDType::i32:
      read_as(std::int32_t{});
      break;
    case StoredDType::u8:
      read_as(std::uint8_t{});
      break;
    default:
      fail(Exit::failure, name, ": a dtype that this test does not read");
  }
  return out;
}

/// Returns Hugging Face's name for a GPT-2 tensor.
inline std::string hf_name(const std::string& canonical) {
  static const std::vector<std::pair<std::string, std::string>> kNames = {{"embedding.tokens", "wte"},
                                                                          {"embedding.positions", "wpe"},
                                                                          {"final_norm", "ln_f"},
                                                                          {"layers.", "h."},
                                                                          {"norm1", "ln_1"},
                                                                          {"norm2", "ln_2"},
                                                                          {"attention.qkv", "attn.c_attn"},
                                                                          {"attention.out", "attn.c_proj"},
                                                                          {"mlp.up", "mlp.c_fc"},
                                                                          {"mlp.down", "mlp.c_proj"}};
  std::string name = canonical;
  for (const auto& [part, hf_part] : kNames) {
    std::size_t at = name.find(part);
    if (at != std::string::npos) name.replace(at, part.size(), hf_part);
  }
  return name;
}

/// Returns a Hugging Face tensor's elements in canonical order. Conv1D weights are (in, out), canonical weights are
/// (out, in). c_attn's out axis is (3, heads, head_dim), the canonical axis is (heads, 3, head_dim).
inline std::vector<double> from_hf_layout(const std::string& canonical, const std::vector<double>& hf_values,
                                          const GptConfig& config) {
  bool is_linear = canonical.find("attention.") != std::string::npos || canonical.find("mlp.") != std::string::npos;
  if (!is_linear) return hf_values;
  bool is_bias = canonical.ends_with(".bias");
  std::size_t in =
      is_bias ? 1
              : static_cast<std::size_t>(canonical.find("mlp.down") != std::string::npos ? config.ffn_hidden_size
                                                                                         : config.hidden_size);
  std::size_t out = hf_values.size() / in;
  auto heads = static_cast<std::size_t>(config.num_heads), width = static_cast<std::size_t>(config.head_dim);
  std::vector<double> values(hf_values.size());
  for (std::size_t o = 0; o < out; ++o) {
    std::size_t from = o;
    if (canonical.find("qkv") != std::string::npos) {
      std::size_t head = o / (3 * width), part = o / width % 3;
      from = (part * heads + head) * width + o % width;
    }
    for (std::size_t i = 0; i < in; ++i) values[o * in + i] = hf_values[i * out + from];
  }
  return values;
}

/// Returns all elements of a tensor on the device under test.
template <class T>
std::vector<T> on_host(const Tensor& tensor) {
  HostView view(device_under_test(), tensor);
  view.receive();
  const T* first = view.tensor().data<T>();
  return std::vector<T>(first, first + tensor.numel());
}

/// Writes `values` to the start of a tensor on the device under test.
template <class T>
void write(const Tensor& tensor, const std::vector<T>& values) {
  HostView view(device_under_test(), tensor);
  view.receive();
  std::copy(values.begin(), values.end(), view.tensor().data<T>());
  view.send();
}

/// A golden model with gradients and the memory for a training step.
struct GoldenModel {
  std::string folder;
  Console console{"test"};
  ModelSource source;
  GptConfig config;
  RunShape shape;
  DropoutOptions dropout;
  Stage stage;
  ParamMemory params;
  MemoryPlan plan;
  Stream stream;
  ProcessGroups groups;
  StepState state;  // the step's state, on the host
  StepMemory step;  // the same, on the device
  Pipeline pipeline;
  BatchBuffers buffers;

  /// `path` is relative to golden/.
  GoldenModel(const std::string& path, RunShape run_shape, DropoutOptions dropout_options = {})
      : folder("golden/" + path),
        source(open_model(folder, console)),
        config(source.config()),
        shape(on_device(run_shape)),
        dropout(dropout_options),
        stage(make_stage(config, dropout, shape)),
        params(shape.device, shape.precision, shape.rules, [&](const ParamVisitor& visit) { stage.params(visit); }),
        plan(plan_training(config, dropout, shape)),
        stream(shape.device, shape.threads),
        step(shape.device),
        pipeline(stage, stream, groups, rank_schedule(shape.layout, static_cast<int>(shape.micro_batches)), plan,
                 nullptr, step.on_device()),
        buffers(shape.device, shape) {
    source.load_values(params);
  }

  std::vector<float> losses(int micro_batch) const { return on_host<float>(buffers.losses(micro_batch)); }
  std::vector<float> value(int param) const { return on_host<float>(params.value(param)); }

  /// Fills a micro-batch. Positions count from 0 in each sequence.
  void fill(int micro_batch, const std::vector<double>& tokens, const std::vector<double>& labels,
            const std::vector<double>& weights) {
    const Batch& batch = buffers.batch(micro_batch);
    std::vector<std::int64_t> samples;
    for (std::int64_t row = 0; row < shape.micro_batch; ++row) samples.push_back(micro_batch * shape.micro_batch + row);
    std::vector<std::int32_t> positions;
    for (std::size_t i = 0; i < tokens.size(); ++i)
      positions.push_back(static_cast<std::int32_t>(i % static_cast<std::size_t>(shape.seq_length)));
    write(batch.samples, samples);
    write(batch.tokens, std::vector<std::int32_t>(tokens.begin(), tokens.end()));
    write(batch.labels, std::vector<std::int32_t>(labels.begin(), labels.end()));
    write(batch.positions, positions);
    write(batch.loss_weights, std::vector<float>(weights.begin(), weights.end()));
  }

  /// Computes the gradients over the micro-batches.
  void train_step() {
    step.send(stream, state);
    params.begin_step();
    pipeline.train(buffers);
  }

  /// Runs the optimizer's part of a step and stores the report in `state`.
  void update(Optimizer& optimizer) {
    optimizer.set_factors(state);
    step.send(stream, state);
    optimizer.step(pipeline.scratch(), step.on_device());
    static_cast<StepReport&>(state) = step.receive(stream);
  }

  /// Returns a parameter's gradient in fp32, divided by the loss scale.
  std::vector<float> gradient(int param) const {
    std::vector<float> out;
    with_float_type(params.grad(param).dtype(), [&]<class T>(T) {
      for (T grad : on_host<T>(params.grad(param))) out.push_back(widen(grad) / static_cast<float>(state.loss_scale));
    });
    return out;
  }

  /// Returns the gradient norm. This includes padding, where gradients must be zero.
  double grad_norm() const {
    double sum = 0;
    for (int p = 0; p < params.size(); ++p) {
      for (float g : gradient(p)) sum += static_cast<double>(g) * g;
    }
    return std::sqrt(sum);
  }

 private:
  static RunShape on_device(RunShape shape) {
    shape.device = device_under_test();
    return shape;
  }
};

/// Returns the shape of a run with one micro-batch, which is as large as the golden batch. `path` is relative to
/// golden/. `padded_vocab` must be at least the model's vocabulary size.
inline RunShape golden_shape(const std::string& path, std::int64_t padded_vocab,
                             const Precision& precision = kPrecisionFp32) {
  const SafetensorsFile batch("golden/" + path + "/batch.safetensors");
  const auto& shape = batch.find("input_ids")->shape;
  return {.micro_batch = static_cast<std::int64_t>(shape[0]),
          .seq_length = static_cast<std::int64_t>(shape[1]),
          .micro_batches = 1,
          .padded_vocab = padded_vocab,
          .documents = false,
          .threads = 2,
          .layout = {},
          .precision = precision};
}

/// Returns equal loss weights for all tokens in a golden batch, so that the loss is the mean.
inline std::vector<double> equal_weights(const GoldenModel& model) {
  const auto count = static_cast<std::size_t>(model.shape.micro_batch * model.shape.seq_length);
  return std::vector<double>(count, 1.0 / static_cast<double>(count));
}

/// Computes the golden batch's gradients with these loss weights.
inline void train_golden_step(GoldenModel& model, const std::vector<double>& weights) {
  const SafetensorsFile batch(model.folder + "/batch.safetensors");
  model.fill(0, read_tensor(batch, "input_ids"), read_tensor(batch, "labels"), weights);
  model.train_step();
}

/// Returns the golden batch's logits, (B T, V).
inline std::vector<float> golden_logits(GoldenModel& model) {
  const SafetensorsFile batch(model.folder + "/batch.safetensors");
  model.fill(0, read_tensor(batch, "input_ids"), read_tensor(batch, "labels"), equal_weights(model));
  const std::int64_t rows = model.shape.micro_batch * model.shape.seq_length;
  Buffer memory(model.shape.device, static_cast<std::size_t>(rows * model.config.vocab_size) * sizeof(float));
  Tensor logits = memory.tensor(DType::f32, {rows, model.config.vocab_size});
  Arena slot(model.shape.device, "slot", model.plan.entry(Category::slots).bytes);
  Ctx ctx{model.stream, &slot, model.pipeline.scratch(), model.groups, false};
  Chunk::Cache cache = model.stage.chunks[0].make_cache();
  model.stage.chunks[0].logits(ctx, logits, model.buffers.batch(0), cache);
  return on_host<float>(logits);
}

/// Checks each token's loss, the mean loss and the gradient norm. Call it after train_golden_step() with equal loss
/// weights.
inline void check_losses(GoldenModel& model, const SafetensorsFile& golden) {
  const GoldenBounds bounds = golden_bounds(DType::f32);
  const std::vector<double> expected = read_tensor(golden, "token_losses");
  const std::vector<float> losses = model.losses(0);
  double sum = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) sum += losses[i];
  CHECK(max_relative(losses.data(), expected) < bounds.token_loss);
  CHECK(sum / static_cast<double>(expected.size()) ==
        doctest::Approx(read_tensor(golden, "loss")[0]).epsilon(bounds.loss));
  CHECK(model.grad_norm() == doctest::Approx(read_tensor(golden, "grad_norm")[0]).epsilon(bounds.grad_norm));
}

}  // namespace mtl::test
