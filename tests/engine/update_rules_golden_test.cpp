// Steps of update rules other than AdamW, compared with float64 runs of Megatron-LM's optimizers.
#include "tests/engine/golden_run.h"
#include "tests/golden_lines.h"

using namespace mtl;
using namespace mtl::test;

namespace {

/// Runs all steps, and compares each with a line of `path`.
void check_steps(GoldenRun& run, const std::string& path, double loss_limit, double norm_limit) {
  int steps = 0;
  for (const Json& expected : golden_lines(path)) {
    const double loss = run.step();
    CAPTURE(steps);
    CHECK(run.model.state.lr == doctest::Approx(expected.at("lr").as_number()).epsilon(1e-12));
    CHECK(loss == doctest::Approx(expected.at("loss").as_number()).epsilon(loss_limit));
    CHECK(run.model.state.grad_norm == doctest::Approx(expected.at("grad_norm").as_number()).epsilon(norm_limit));
    ++steps;
  }
  CHECK(steps > 0);
}

/// Returns the name under which Hugging Face's Llama has a parameter that both store alike; empty for the others.
std::string llama_name(const std::string& canonical) {
  static const std::vector<std::pair<std::string, std::string>> kParts = {{"embedding.tokens", "model.embed_tokens"},
                                                                          {"final_norm", "model.norm"},
                                                                          {"output", "lm_head"},
                                                                          {"layers.", "model.layers."},
                                                                          {"norm1", "input_layernorm"},
                                                                          {"norm2", "post_attention_layernorm"},
                                                                          {"attention.out", "self_attn.o_proj"},
                                                                          {"mlp.down", "mlp.down_proj"}};
  if (canonical.find("qkv") != std::string::npos || canonical.find("mlp.up") != std::string::npos) return "";
  std::string name = canonical;
  for (const auto& [part, hf_part] : kParts) {
    if (const std::size_t at = name.find(part); at != std::string::npos) {
      name.replace(at, part.size(), hf_part);
      if (part != "layers.") break;
    }
  }
  return name;
}

/// Compares the parameters and the first state with those of a file.
void check_llama(const GoldenModel& model, const std::string& path, double rms_limit) {
  const SafetensorsFile final(path);
  int compared = 0, states = 0;
  for (int p = 0; p < model.params.size(); ++p) {
    const std::string& name = model.params.specs()[static_cast<std::size_t>(p)].name;
    const std::string stored = llama_name(name), state = "momentum_buffer." + stored;
    if (stored.empty()) continue;
    compare(name, model.value(p), read_tensor(final, "param." + stored), model.config, 0, rms_limit);
    ++compared;
    if (final.find(state) == nullptr) continue;
    compare(name, on_host<float>(model.params.row_part(p, kFirstState)), read_tensor(final, state), model.config, 0,
            rms_limit * 10);
    ++states;
  }
  CHECK(compared == 3 + 2 * 4);
  CHECK(states >= 4);
}

}  // namespace

TEST_CASE("SGD: eight steps of a Llama equal PyTorch's float64") {
  const Json hyper = Json::read("golden/sgd/hyper.json").at("llama");
  GoldenRun run("llama_model/llama", "golden/sgd/llama_batches.safetensors", hyper,
                {.padded_vocab = 640, .layout = {}, .rules = single_rule<Sgd>(hyper.at("sgd_momentum").as_number())});
  check_steps(run, "golden/sgd/llama.jsonl", 1e-6, 3e-6);
  check_llama(run.model, "golden/sgd/llama.safetensors", 3e-6);
}
