// Llama-like models and GPT-2 variants, compared with transformers' float64: losses, logits, every gradient.
#include "models/hf_names.h"
#include "tests/engine/golden_model.h"

using namespace mtl;
using namespace mtl::test;

namespace {

/// Paths are relative to golden/.
const std::vector<std::string> kModels = {
    "llama_model/llama",      "llama_model/qwen2",          "llama_model/mistral",       "llama_model/neox",
    "family_model/llama3",    "family_model/qwen3",         "family_model/neox_serial",  "family_model/gpt2_gelu",
    "family_model/gpt2_relu", "rotary_model/yarn",          "rotary_model/yarn_mscale",  "rotary_model/yarn_factor",
    "rotary_model/longrope",  "rotary_model/dynamic_above", "rotary_model/dynamic_below"};

constexpr std::int64_t kVocabRows = 640;  // more than any of these models needs

/// Returns transformers' gradient for a parameter in canonical order. Fails the test if the file does not contain it.
std::vector<double> golden_gradient(const SafetensorsFile& golden, const ParamSpec& spec, const HfFamily& family) {
  std::vector<std::vector<double>> contents;
  std::vector<TensorPiece> pieces;
  for (const HfTensor& tensor : hf_tensors_of({spec.name, spec.shape}, family)) {
    pieces.push_back(tensor.piece);
    std::string name;
    for (const StoredTensor& stored : golden.tensors()) {
      if (stored.name.starts_with("grad.") && stored.name.ends_with(tensor.name)) name = stored.name;
    }
    REQUIRE_MESSAGE(!name.empty(), "no gradient of ", tensor.name);
    contents.push_back(read_tensor(golden, name));
  }
  std::vector<std::span<const std::byte>> files;
  for (const std::vector<double>& values : contents) files.push_back(std::as_bytes(std::span(values)));
  std::vector<double> out(static_cast<std::size_t>(spec.numel()));
  gather_slice(pieces, whole_slice(spec.shape), sizeof(double), files, std::as_writable_bytes(std::span(out)));
  return out;
}

}  // namespace

TEST_CASE("Llama-like models: token losses, loss and gradients equal transformers' float64") {
  for (const std::string& name : kModels) {
    CAPTURE(name);
    GoldenModel model(name, golden_shape(name, kVocabRows));
    SafetensorsFile golden(model.folder + "/golden.safetensors");
    train_golden_step(model, equal_weights(model));
    const HfFamily& family = *find_hf_family(model.source.hf_config().at("model_type").as_string());
    check_losses(model, golden);
    for (int p = 0; p < model.params.size(); ++p) {
      const ParamSpec& spec = model.params.specs()[static_cast<std::size_t>(p)];
      CAPTURE(spec.name);
      CHECK(max_relative(model.gradient(p).data(), golden_gradient(golden, spec, family)) <
            golden_bounds(DType::f32).gradient);
    }
    CHECK(model.pipeline.slot_peak() == model.plan.entry(Category::slots).bytes);
  }
}

TEST_CASE("Llama-like models: logits equal transformers' float64") {
  for (const std::string& name : kModels) {
    CAPTURE(name);
    GoldenModel model(name, golden_shape(name, kVocabRows));
    SafetensorsFile golden(model.folder + "/golden.safetensors");
    CHECK(max_relative(golden_logits(model).data(), read_tensor(golden, "logits")) <
          golden_bounds(DType::f32).activation);
  }
}

TEST_CASE("recomputing activations changes no bit of losses and gradients, and needs less memory") {
  using Granularity = Recompute::Granularity;
  using Method = Recompute::Method;
  for (const std::string name : {"llama_model/llama", "llama_model/qwen2", "llama_model/neox", "gpt2_model/a"}) {
    CAPTURE(name);
    RunShape shape{.micro_batch = 2,
                   .seq_length = 16,
                   .micro_batches = 1,
                   .padded_vocab = 640,
                   .documents = false,
                   .threads = 2,
                   .layout = {}};
    const DropoutOptions dropout{.hidden = 0.1f, .attention = 0.1f, .seed = 3};
    std::map<std::string, std::string> choices;  // of algorithms on a GPU: measured again, they could differ
    std::vector<double> tokens, labels, weights(32, 1.0 / 32);
    for (int i = 0; i < 32; ++i) tokens.push_back(i * 5 % 190), labels.push_back(i * 7 % 190);
    auto run = [&](const Recompute& recompute, std::size_t& slot_bytes) {
      shape.recompute = recompute;
      GoldenModel model(name, shape, dropout);
      model.stream.choices().add(choices);
      model.fill(0, tokens, labels, weights);
      model.train_step();
      choices = model.stream.choices().table();
      slot_bytes = model.plan.entry(Category::slots).bytes;
      CHECK(model.pipeline.slot_peak() == slot_bytes);
      std::vector<float> bits = model.losses(0);
      for (int p = 0; p < model.params.size(); ++p) {
        const std::vector<float> gradient = model.gradient(p);
        bits.insert(bits.end(), gradient.begin(), gradient.end());
      }
      return bits;
    };
    std::size_t kept_bytes = 0;
    const std::vector<float> kept = run({}, kept_bytes);
    for (const Recompute& recompute :
         {Recompute{Granularity::selective}, Recompute{Granularity::full},
          Recompute{Granularity::full, Method::uniform, 2}, Recompute{Granularity::full, Method::block, 1}}) {
      CAPTURE(static_cast<int>(recompute.granularity));
      CAPTURE(recompute.num_layers);
      std::size_t bytes = 0;
      CHECK(run(recompute, bytes) == kept);
      // If both layers form a single group, forward keeps nothing, but backward needs all the group's activations at
      // the same time.
      if (recompute.num_layers == 1) CHECK(bytes < kept_bytes);
    }
  }
}
