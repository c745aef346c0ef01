// Complete GPT-2 models, compared with PyTorch's float64: losses, logits, activations, every gradient.
#include "base/json.h"
#include "tests/engine/golden_model.h"
#include "tests/param_index.h"

using namespace mtl;
using namespace mtl::test;

namespace {

struct Case {
  const char* name;
  std::int64_t padded_vocab;
};

RunShape shape_of(const Case& model) {
  return golden_shape(std::string("gpt2_model/") + model.name, model.padded_vocab);
}

}  // namespace

// Runs model a with and without padding rows in the vocabulary. They must not change any result.
static const Case kCases[] = {{"a", 512}, {"a", 640}, {"b", 1024}};

TEST_CASE("GPT-2: token losses, loss and gradients equal PyTorch's float64") {
  for (const Case& golden_case : kCases) {
    CAPTURE(golden_case.name);
    GoldenModel model(std::string("gpt2_model/") + golden_case.name, shape_of(golden_case));
    SafetensorsFile golden(model.folder + "/golden.safetensors");
    train_golden_step(model, equal_weights(model));
    check_losses(model, golden);
    int compared = 0;
    for (int p = 0; p < model.params.size(); ++p) {
      const std::string& name = model.params.specs()[static_cast<std::size_t>(p)].name;
      std::string stored = "grad.transformer." + hf_name(name);
      CAPTURE(stored);
      if (golden.find(stored) == nullptr) continue;
      ++compared;
      CHECK(max_relative(model.gradient(p).data(), from_hf_layout(name, read_tensor(golden, stored), model.config)) <
            golden_bounds(DType::f32).gradient);
    }
    CHECK(compared >= 4);
  }
}

TEST_CASE("GPT-2: gradients of b's layers equal PyTorch's norms and sampled elements") {
  GoldenModel model("gpt2_model/b", shape_of(kCases[2]));
  train_golden_step(model, equal_weights(model));
  Json probes = Json::read(model.folder + "/grad_probes.json");
  for (int p = 0; p < model.params.size(); ++p) {
    const std::string& name = model.params.specs()[static_cast<std::size_t>(p)].name;
    const Json* probe = probes.find("grad.transformer." + hf_name(name));
    if (probe == nullptr) continue;
    CAPTURE(name);
    // hf_index[i] is the position of element i in the flattened Hugging Face tensor.
    std::vector<double> hf_index(static_cast<std::size_t>(model.params.grad(p).numel()));
    for (std::size_t i = 0; i < hf_index.size(); ++i) hf_index[i] = static_cast<double>(i);
    hf_index = from_hf_layout(name, hf_index, model.config);
    const std::vector<float> gradient = model.gradient(p);
    const double bound = golden_bounds(DType::f32).gradient;
    std::vector<float> in_hf_order(hf_index.size());
    double squares = 0;
    for (std::size_t i = 0; i < hf_index.size(); ++i) {
      in_hf_order[static_cast<std::size_t>(hf_index[i])] = gradient[i];
      squares += static_cast<double>(gradient[i]) * gradient[i];
    }
    CHECK(std::sqrt(squares) == doctest::Approx(probe->at("norm").as_number()).epsilon(bound));
    auto stride = static_cast<std::size_t>(probe->at("stride").as_int());
    const Json::Array& samples = probe->at("samples").as_array();
    for (std::size_t i = 0; i < samples.size(); ++i) {
      CHECK(std::abs(in_hf_order[i * stride] - samples[i].as_number()) < bound * probe->at("max_abs").as_number());
    }
  }
}

TEST_CASE("GPT-2: a loss mask weights tokens") {
  GoldenModel model("gpt2_model/a", shape_of(kCases[0]));
  SafetensorsFile golden(model.folder + "/golden.safetensors"), batch(model.folder + "/batch.safetensors");
  std::vector<double> mask = read_tensor(batch, "loss_mask"), weights = mask;
  double unmasked = 0, loss = 0;
  for (double m : mask) unmasked += m;
  for (double& w : weights) w /= unmasked;
  train_golden_step(model, weights);
  const std::vector<float> losses = model.losses(0);
  const GoldenBounds bounds = golden_bounds(DType::f32);
  for (std::size_t i = 0; i < mask.size(); ++i) loss += weights[i] * static_cast<double>(losses[i]);
  CHECK(loss == doctest::Approx(read_tensor(golden, "masked_loss")[0]).epsilon(bounds.loss));
  CHECK(model.grad_norm() == doctest::Approx(read_tensor(golden, "masked_grad_norm")[0]).epsilon(bounds.grad_norm));
}

TEST_CASE("GPT-2: logits equal PyTorch's float64") {
  for (const Case& golden_case : kCases) {
    CAPTURE(golden_case.name);
    GoldenModel model(std::string("gpt2_model/") + golden_case.name, shape_of(golden_case));
    SafetensorsFile golden(model.folder + "/golden.safetensors");
    // The golden file contains the logits for the first rows only.
    CHECK(max_relative(golden_logits(model).data(), read_tensor(golden, "logits")) <
          golden_bounds(DType::f32).activation);
  }
}

TEST_CASE("GPT-2: activations of a equal PyTorch's float64") {
  GoldenModel model("gpt2_model/a", shape_of(kCases[0]));
  SafetensorsFile golden(model.folder + "/activations.safetensors"), batch(model.folder + "/batch.safetensors");
  model.fill(0, read_tensor(batch, "input_ids"), read_tensor(batch, "labels"), equal_weights(model));
  Arena slot(model.shape.device, "slot", model.plan.entry(Category::slots).bytes);
  Ctx ctx{model.stream, &slot, model.pipeline.scratch(), model.groups, true};
  Chunk::Cache cache = model.stage.chunks[0].make_cache();
  model.params.begin_step();
  model.stage.chunks[0].forward(ctx, {}, model.buffers.batch(0), cache);
  auto check = [&](const std::string& name, const Tensor& got) {
    CAPTURE(name);
    CHECK(max_relative(on_host<float>(got).data(), read_tensor(golden, name)) < golden_bounds(DType::f32).activation);
  };
  std::vector<Block::Cache> blocks;
  for (const Chunk::UnitSlot& unit : cache.units) {
    if (const auto* block = std::get_if<Block::Cache>(&unit.cache)) blocks.push_back(*block);
  }
  REQUIRE(static_cast<std::int64_t>(blocks.size()) == model.config.num_layers);
  check("embedding", blocks[0].norm1.x);
  for (std::size_t layer = 0; layer < blocks.size(); ++layer) {
    const Block::Cache& block = blocks[layer];
    std::string prefix = cat("h.", layer, ".");
    check(prefix + "ln_1", block.attention.x);
    check(prefix + "attn_heads", block.attention.attended);
    check(prefix + "resid_mid", block.norm2.x);
    check(prefix + "ln_2", block.mlp.x);
    check(prefix + "mlp_pre", block.mlp.pre);
    check(prefix + "mlp_act", block.mlp.act);
    check(prefix + "block_out",
          layer + 1 < blocks.size() ? blocks[layer + 1].norm1.x : std::get<Head::Cache>(cache.units.back().cache).x);
  }
}

TEST_CASE("a step repeats bit for bit, and uses exactly the planned memory") {
  GoldenModel model("gpt2_model/a", shape_of(kCases[0]), {.hidden = 0.1f, .attention = 0.1f, .seed = 7});
  train_golden_step(model, equal_weights(model));
  std::vector<std::vector<float>> first;
  for (int p = 0; p < model.params.size(); ++p) first.push_back(model.gradient(p));
  train_golden_step(model, equal_weights(model));
  for (int p = 0; p < model.params.size(); ++p) {
    const std::vector<float> again = model.gradient(p);
    CHECK(std::memcmp(first[static_cast<std::size_t>(p)].data(), again.data(), again.size() * sizeof(float)) == 0);
  }
  CHECK(model.pipeline.slot_peak() == model.plan.entry(Category::slots).bytes);
  CHECK(model.stream.counters().flops > 0);
}

TEST_CASE("with dropout, gradients equal finite differences of the loss through the whole model") {
  GoldenModel model("gpt2_model/a",
                    {.micro_batch = 1,
                     .seq_length = 8,
                     .micro_batches = 1,
                     .padded_vocab = 512,
                     .documents = false,
                     .threads = 1,
                     .layout = {}},
                    {.hidden = 0.2f, .attention = 0.2f, .seed = 11});
  std::vector<double> tokens = {5, 9, 2, 77, 400, 2, 31, 8}, labels = {9, 2, 77, 400, 2, 31, 8, 1}, weights(8, 1.0);
  auto loss = [&] {
    model.fill(0, tokens, labels, weights);
    model.train_step();
    double sum = 0;
    for (float token : model.losses(0)) sum += static_cast<double>(token);
    return sum;
  };
  loss();
  for (const char* name :
       {"embedding.tokens.weight", "embedding.positions.weight", "layers.0.attention.qkv.weight",
        "layers.0.norm2.weight", "layers.1.attention.out.bias", "layers.1.mlp.up.weight", "layers.1.mlp.down.weight"}) {
    CAPTURE(name);
    int p = test::param_index(model.params, name);
    const std::vector<float> before = model.value(p);
    loss();
    const std::vector<float> direction = model.gradient(p);
    double norm = 0;
    for (float d : direction) norm += static_cast<double>(d) * d;
    norm = std::sqrt(norm);
    auto shifted = [&](double by) {
      std::vector<float> moved = before;
      for (std::size_t i = 0; i < moved.size(); ++i) moved[i] += static_cast<float>(by * direction[i] / norm);
      write(model.params.value(p), moved);
      double result = loss();
      write(model.params.value(p), before);
      return result;
    };
    double step = 1e-2;
    CHECK((shifted(step) - shifted(-step)) / (2 * step) == doctest::Approx(norm).epsilon(5e-3));
  }
}
