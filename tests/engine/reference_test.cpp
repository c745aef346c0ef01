// The fp64 reference model: it equals transformers' float64, and the real model equals it on random architectures.
// These go beyond the golden models and combine all norms, positions, groups, activations, biases, windows and
// documents.
#include "tests/param_index.h"
#include "tests/reference_gpt.h"

#include <random>

#include "models/canonical.h"
#include "tests/engine/golden_model.h"
#include "tests/kernels/activation_reference.h"

using namespace mtl;
using namespace mtl::test;

namespace {

/// Returns the canonical tensors. They are the first elements of each parameter, because padding rows come last in the
/// vocabulary.
Tensors canonical_values(const GptConfig& config, ParamMemory& params) {
  Tensors out;
  for (const CanonicalTensor& tensor : canonical_tensors(config)) {
    const float* values = params.value(test::param_index(params, tensor.name)).data<float>();
    out[tensor.name] = Array(values, values + whole_slice(tensor.shape).count());
  }
  return out;
}

/// Checks each gradient to within 1e-4 of the tensor's largest element. Some gradients are zero up to rounding, such as
/// for queries that attend to a single key. The scale is therefore at least a thousandth of the largest gradient in any
/// tensor.
void compare_gradients(const ParamMemory& params, const ReferenceStep& expected) {
  REQUIRE(static_cast<std::size_t>(params.size()) == expected.grads.size());
  const auto largest_of = [](const Array& values) {
    double largest = 0;
    for (double value : values) largest = larger_or_nan(largest, std::abs(value));
    return largest;
  };
  double floor = 0;
  for (const auto& [name, values] : expected.grads) floor = larger_or_nan(floor, largest_of(values) / 1000);
  for (int p = 0; p < params.size(); ++p) {
    const std::string& name = params.specs()[p].name;
    CAPTURE(name);
    Array errors = expected.grads.at(name);
    const double scale = larger_or_nan(floor, largest_of(errors));
    for (std::size_t i = 0; i < errors.size(); ++i) errors[i] -= params.grad(p).data<float>()[i];
    CHECK(largest_of(errors) < 1e-4 * scale);
  }
}

/// Sets one of the scalings whose frequencies depend on the sequence's length, or that scale cosines and sines. All act
/// within 24 positions.
void set_scaling(GptConfig& config, int which) {
  using Scaling = RotaryOptions::Scaling;
  RotaryOptions& rotary = config.rotary;
  const auto pairs = static_cast<std::size_t>(rotary.percent * double(config.head_dim) / 2);
  if (which == 0) {
    rotary.scaling = Scaling::yarn;
    rotary.factor = 4;
    rotary.attention_factor = 1.25;
    rotary.original_positions = 8;
  } else if (which == 1) {
    rotary.scaling = Scaling::longrope;
    rotary.short_factors.assign(pairs, 1.5);
    rotary.long_factors.assign(pairs, 3);
    rotary.attention_factor = 1.25;
    rotary.original_positions = 12;
  } else if (which == 2 && pairs > 1) {
    rotary.scaling = Scaling::dynamic;
    rotary.factor = 4;
    config.max_positions = 8;
  }
}

/// Returns a small model with randomly chosen options.
GptConfig random_config(std::mt19937& random) {
  const auto draw = [&](int below) { return static_cast<int>(random() % below); };
  GptConfig config;
  config.vocab_size = 30 + draw(20);
  config.num_layers = 1 + draw(3);
  config.num_query_groups = 1 + draw(2);
  config.num_heads = config.num_query_groups * (1 + draw(3));
  config.head_dim = 4 * (1 + draw(3));
  config.hidden_size = 4 * (2 + draw(6));
  config.ffn_hidden_size = 4 * (2 + draw(6));
  config.max_positions = 24;
  config.norm = draw(2) == 0 ? Norm::layernorm : Norm::rmsnorm;
  config.activation = kActivations[draw(std::size(kActivations))];
  config.gated_mlp = draw(2) == 0;
  config.bias = {draw(2) == 0, draw(2) == 0, draw(2) == 0};
  config.qk_norm = draw(2) == 0;
  config.parallel_residual = draw(2) == 0;
  config.tied_embeddings = draw(2) == 0;
  config.init_std = 0.2;
  if (draw(2) == 0) {
    config.sliding_window = 1 + draw(20);
    config.first_window_layer = draw(2);
  }
  if (draw(3) > 0) {
    config.position_embedding = PositionEmbedding::rotary;
    config.rotary.interleaved = draw(2) == 0;
    config.rotary.percent = draw(2) == 0 ? 1 : 0.5;
    config.rotary.base = draw(2) == 0 ? 10000 : 100;
    set_scaling(config, draw(6));
  }
  return config;
}

/// Returns random tokens, labels and weights in documents of random length. Positions count from the start of each
/// document.
ReferenceBatch random_batch(const GptConfig& config, const RunShape& shape, std::mt19937& random) {
  ReferenceBatch batch{.sequences = shape.micro_batch, .length = shape.seq_length};
  for (std::int64_t b = 0; b < shape.micro_batch; ++b) {
    std::int64_t start = 0;
    for (std::int64_t t = 0; t < shape.seq_length; ++t) {
      if (random() % 7 == 0) start = t;
      batch.tokens.push_back(random() % config.vocab_size);
      batch.labels.push_back(random() % config.vocab_size);
      batch.positions.push_back(t - start);
      batch.document_start.push_back(start);
      batch.loss_weights.push_back(static_cast<double>(random() % 4) / 8);
    }
  }
  return batch;
}

template <class To, class From>
void copy_to(const Tensor& to, const std::vector<From>& from) {
  std::transform(from.begin(), from.end(), to.data<To>(), [](From value) { return static_cast<To>(value); });
}

/// Checks one step of the real model against the reference, with the same weights and batch.
void check_model(const GptConfig& config, std::mt19937& random, std::uint64_t seed) {
  const RunShape shape{.micro_batch = 2,
                       .seq_length = 1 + static_cast<std::int64_t>(random() % 24),
                       .micro_batches = 1,
                       .padded_vocab = config.vocab_size + static_cast<std::int64_t>(random() % 9),
                       .documents = true,
                       .threads = 2,
                       .layout = {}};
  const DropoutOptions dropout;
  Stage stage = make_stage(config, dropout, shape);
  ParamMemory params(Device::cpu, shape.precision, single_rule<AdamW>(),
                     [&](const ParamVisitor& visit) { stage.params(visit); });
  params.initialize(seed);
  for (int p = 0; p < params.size(); ++p) {  // initial norms and biases would hide faults
    float* value = params.value(p).data<float>();
    for (std::int64_t i = 0; i < params.value(p).numel(); ++i)
      value[i] += static_cast<float>(static_cast<int>(random() % 201) - 100) / 1000;
  }
  const ReferenceBatch batch = random_batch(config, shape, random);
  const ReferenceStep expected = reference_step(config, canonical_values(config, params), batch);

  Stream stream(Device::cpu, shape.threads);
  const ProcessGroups groups;
  const StepState state;
  const MemoryPlan plan = plan_training(config, dropout, shape);
  Pipeline pipeline(stage, stream, groups, rank_schedule(shape.layout, 1), plan, nullptr, &state);
  const BatchBuffers buffers(Device::cpu, shape);
  const Batch& filled = buffers.batch(0);
  copy_to<std::int64_t>(filled.samples, std::vector<std::int64_t>{0, 1});
  copy_to<std::int32_t>(filled.tokens, batch.tokens);
  copy_to<std::int32_t>(filled.labels, batch.labels);
  copy_to<std::int32_t>(filled.positions, batch.positions);
  copy_to<std::int32_t>(filled.document_start, batch.document_start);
  copy_to<float>(filled.loss_weights, batch.loss_weights);
  params.begin_step();
  pipeline.train(buffers);
  CHECK(max_relative(buffers.losses(0).data<float>(), expected.losses) < 1e-5);
  compare_gradients(params, expected);
}

}  // namespace

TEST_CASE("the reference model: token losses and gradients equal transformers' float64") {
  for (const char* name : {"gpt2_model/a", "llama_model/llama", "llama_model/qwen2", "llama_model/mistral",
                           "llama_model/neox", "family_model/qwen3", "family_model/llama3", "family_model/gpt2_relu"}) {
    CAPTURE(name);
    GoldenModel model(name, golden_shape(name, 640));
    const SafetensorsFile golden(model.folder + "/golden.safetensors"), inputs(model.folder + "/batch.safetensors");
    const std::vector<double> tokens = read_tensor(inputs, "input_ids"), labels = read_tensor(inputs, "labels");
    ReferenceBatch batch{.sequences = model.shape.micro_batch, .length = model.shape.seq_length};
    batch.tokens.assign(tokens.begin(), tokens.end());
    batch.labels.assign(labels.begin(), labels.end());
    for (std::size_t i = 0; i < tokens.size(); ++i) batch.positions.push_back(i % batch.length);
    batch.document_start.resize(tokens.size());
    batch.loss_weights = equal_weights(model);
    const ReferenceStep step = reference_step(model.config, canonical_values(model.config, model.params), batch);
    const std::vector<double> expected = read_tensor(golden, "token_losses");
    CHECK(rms_relative(step.losses.data(), expected) < 1e-7);
    double squares = 0;
    for (const auto& [tensor, values] : step.grads)
      for (double value : values) squares += value * value;
    CHECK(std::sqrt(squares) == doctest::Approx(read_tensor(golden, "grad_norm")[0]).epsilon(1e-7));
  }
}

TEST_CASE("random architectures: token losses and gradients equal the reference model's") {
  std::mt19937 random(5);
  int models = 0;
  for (std::uint64_t seed = 0; models < 60; ++seed) {
    REQUIRE(seed < 1000);
    const GptConfig config = random_config(random);
    if (!config.problems().empty()) continue;
    CAPTURE(seed);
    check_model(config, random, seed);
    ++models;
  }
}
