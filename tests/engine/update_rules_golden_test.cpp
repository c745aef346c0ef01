// Steps of update rules other than AdamW, compared with float64 runs of Megatron-LM's optimizers.
#include "base/enum_index.h"
#include "optim/muon.h"
#include "tests/engine/golden_run.h"
#include "tests/golden_lines.h"

using namespace mtl;
using namespace mtl::test;

namespace {

/// Returns how many elements are key biases, whose gradient is 0 up to rounding, and so may be 0.
std::int64_t key_biases(const GoldenModel& model) {
  std::int64_t count = 0;
  for (const ParamSpec& spec : model.params.specs())
    for (std::int64_t i = 0; i < spec.numel(); ++i)
      count += is_key_bias(spec.name, static_cast<std::size_t>(i), model.config);
  return count;
}

/// Runs all steps, and compares each with a line of `path`.
void check_steps(GoldenRun& run, const std::string& path, double loss_limit, double norm_limit) {
  int steps = 0;
  for (const Json& expected : golden_lines(path)) {
    const double loss = run.step();
    CAPTURE(steps);
    CHECK(run.model.state.lr == doctest::Approx(expected.at("lr").as_number()).epsilon(1e-12));
    CHECK(loss == doctest::Approx(expected.at("loss").as_number()).epsilon(loss_limit));
    if (const Json* rate = expected.find("decoupled_lr"); rate != nullptr && !rate->is_null())
      CHECK(run.model.state.decoupled_lr == doctest::Approx(rate->as_number()).epsilon(1e-12));
    CHECK(run.model.state.grad_norm == doctest::Approx(expected.at("grad_norm").as_number()).epsilon(norm_limit));
    if (const Json* zeros = expected.find("num_zeros")) {
      CHECK(run.model.state.zero_gradients >= zeros->as_int());
      CHECK(run.model.state.zero_gradients <= zeros->as_int() + key_biases(run.model));
    }
    if (const Json* norm = expected.find("params_norm"))
      CHECK(std::sqrt(run.model.state.params_squares) == doctest::Approx(norm->as_number()).epsilon(3e-6));
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

namespace {

/// The rules of a run in golden/muon/hyper.json.
RuleSet muon_rules(const Json& hyper, bool takes_positions) {
  MuonRuleOptions muon;
  muon.momentum = hyper.at("muon_momentum").as_number();
  muon.nesterov = hyper.at("muon_nesterov").as_bool();
  muon.splits_qkv = hyper.at("muon_split_qkv").as_bool();
  muon.takes_positions = takes_positions;
  muon.scale = *enum_named<MuonScale>(kMuonScales, hyper.at("muon_scale_mode").as_string());
  muon.extra_scale = hyper.at("muon_extra_scale_factor").as_number();
  muon.coefficients = hyper.at("muon_coefficient_type").as_string();
  muon.steps = hyper.at("muon_num_ns_steps").as_int();
  RuleSet rules = single_rule<AdamW>(AdamWOptions{.beta1 = hyper.at("beta1").as_number(),
                                                  .beta2 = hyper.at("beta2").as_number(),
                                                  .eps = hyper.at("eps").as_number()});
  rules.rules.push_back(std::make_shared<Muon>(muon));
  return rules;
}

}  // namespace

TEST_CASE("Muon: twenty steps equal Megatron-LM's float64, with other parameters in AdamW") {
  struct Golden {
    std::string name, model, batches;
    std::int64_t padded_vocab;
    bool takes_positions;
  };
  for (const Golden& golden : {Golden{"llama_split", "llama_model/llama", "batches_llama", 640, true},
                               {"llama_fused", "llama_model/llama", "batches_llama", 640, true},
                               {"gpt2", "gpt2_model/a", "batches_gpt2", 512, true},
                               {"gpt2_positions_adam", "gpt2_model/a", "batches_gpt2", 512, false}}) {
    CAPTURE(golden.name);
    const Json hyper = Json::read("golden/muon/hyper.json").at(golden.name);
    GoldenRun run(
        golden.model, cat("golden/muon/", golden.batches, ".safetensors"), hyper,
        {.padded_vocab = golden.padded_vocab, .layout = {}, .rules = muon_rules(hyper, golden.takes_positions)});
    check_steps(run, cat("golden/muon/trajectory_", golden.name, ".jsonl"), 1e-5, 1e-5);
    if (golden.name != "gpt2") continue;
    const SafetensorsFile final("golden/muon/final_gpt2.safetensors");
    const GoldenModel& model = run.model;
    for (int p = 0; p < model.params.size(); ++p) {
      const std::string& name = model.params.specs()[static_cast<std::size_t>(p)].name;
      const std::vector<double> expected = read_tensor(final, "param.transformer." + hf_name(name));
      compare(name, model.value(p), from_hf_layout(name, expected, model.config), model.config, 0, 3e-5);
    }
  }
}

TEST_CASE("SGD: eight steps equal PyTorch's float64, also with decoupled rates and a loss per token") {
  struct Golden {
    std::string name, model;
    std::int64_t padded_vocab;
  };
  for (const Golden& golden : {Golden{"llama", "llama_model/llama", 640},
                               {"llama_decoupled", "llama_model/llama", 640},
                               {"gpt2", "gpt2_model/a", 512}}) {
    CAPTURE(golden.name);
    const std::string path = "golden/sgd/" + golden.name;
    const Json hyper = Json::read("golden/sgd/hyper.json").at(golden.name);
    GoldenRun run(golden.model, path + "_batches.safetensors", hyper,
                  {.padded_vocab = golden.padded_vocab,
                   .layout = {},
                   .rules = single_rule<Sgd>(hyper.at("sgd_momentum").as_number())});
    check_steps(run, path + ".jsonl", 1e-6, 3e-6);
    if (golden.name == "llama") check_llama(run.model, path + ".safetensors", 3e-6);
  }
}
