// GPT-NeoX's settings: the configuration that they give, and what contradicts the tensors or is not supported.
#include "models/neox_config.h"

#include <doctest/doctest.h>

#include "base/files.h"
#include "formats/pickle_writer.h"
#include "formats/torch_globals.h"
#include "tests/error_of.h"
#include "tests/gpt_of_size.h"
#include "tests/scratch_folder.h"

using namespace mtl;
using namespace mtl::test;

namespace {

const std::string kNeoxSettings =
    "num_layers: 2\nhidden_size: 16\nnum_attention_heads: 4\nmax_position_embeddings: 8\npos_emb: rotary\n"
    "norm: layernorm\nactivation: gelu\n";

NeoxShapes neox_shapes() {
  return {.common = {.layers = 2,
                     .vocabulary_rows = 32,
                     .hidden = 16,
                     .up_rows = 64,
                     .has_norm_bias = true,
                     .has_head = true,
                     .bias = {true, true, true}},
          .qkv_rows = 48,
          .down_columns = 64};
}

/// Returns the configuration of kNeoxSettings.
GptConfig neox_config_of_settings() {
  GptConfig config = neox_of_size({.vocab = 32, .layers = 2, .hidden = 16, .heads = 4, .positions = 8});
  config.rotary.percent = 1;
  config.parallel_residual = false;
  config.activation = Activation::gelu_erf;
  return config;
}

struct NeoxCase {
  const char* settings;  // after those of kNeoxSettings: the last of a name counts
  void (*change)(GptConfig& config);
  void (*change_shapes)(NeoxShapes& shapes) = [](NeoxShapes&) {};
  ModelSupplement given = {};
};

GptConfig config_of_neox(const std::string& settings, const NeoxShapes& shapes, const ModelSupplement& given = {}) {
  std::vector<std::string> notes;
  return neox_config(parse_yaml_settings(settings), shapes, given, notes);
}

}  // namespace

TEST_CASE("neox config: settings give exactly this configuration") {
  const auto gated = [](NeoxShapes& shapes) { shapes.common.up_rows = 128; };
  const auto learned = [](NeoxShapes& shapes) { shapes.common.positions = 9; };
  const auto rms = [](NeoxShapes& shapes) { shapes.common.has_norm_bias = false; };
  const auto is_learned = [](GptConfig& config) {
    config.position_embedding = PositionEmbedding::learned;
    config.rotary = {};
    config.max_positions = 9;
  };
  const auto is_rms = [](GptConfig& config) { config.norm = Norm::rmsnorm, config.norm_eps = 1e-8; };
  const auto same = [](GptConfig&) {};
  const auto parallel = [](GptConfig& config) { config.parallel_residual = true; };
  const NeoxCase cases[] = {
      {"", same},
      {"rotary_pct: 0.5\nrotary_emb_base: 500\ninit_method_std: 0\nlayernorm_epsilon: 0.25\nrms_norm_epsilon: 0.5",
       [](GptConfig& config) {
         config.rotary.percent = 0.5, config.rotary.base = 500;
         config.init_std = 0, config.norm_eps = 0.25;
       }},
      {"rotary_pct: ~\nrotary_emb_base: None\ninit_method_std: null\nlayernorm_epsilon:", same},
      {"gpt_j_residual: TRUE", parallel},
      {"gpt_j_residual: Yes", parallel},
      {"gpt_j_residual: on", parallel},
      {"gpt_j_residual: 1", parallel},
      {"gpt_j_residual: false", same},
      {"gpt_j_residual: nO", same},
      {"gpt_j_residual: off", same},
      {"gpt_j_residual: 0", same},
      {"bias_gelu_fusion: true", [](GptConfig& config) { config.activation = Activation::gelu_tanh; }},
      {"activation: relu", [](GptConfig& config) { config.activation = Activation::relu; }},
      {"activation: swish", [](GptConfig& config) { config.activation = Activation::silu; }},
      {"activation: silu", [](GptConfig& config) { config.activation = Activation::silu; }},
      {"activation: geglu\nbias_gelu_fusion: true", [](GptConfig& config) { config.gated_mlp = true; }, gated},
      {"activation: reglu", [](GptConfig& config) { config.gated_mlp = true, config.activation = Activation::relu; },
       gated},
      {"activation: swiglu", [](GptConfig& config) { config.gated_mlp = true, config.activation = Activation::silu; },
       gated},
      {"activation: null", [](GptConfig& config) { config.gated_mlp = true, config.activation = Activation::silu; },
       [](NeoxShapes& shapes) { shapes.has_gate_matrix = true; }},
      {"norm: te_layernorm", same},
      {"norm: rmsnorm\nlayernorm_epsilon: 0.5", is_rms, rms},
      {"norm: te_rmsnorm", is_rms, rms},
      {"norm: null", is_rms, rms},
      {"norm: rmsnorm\nrms_norm_epsilon: 0.25",
       [](GptConfig& config) { config.norm = Norm::rmsnorm, config.norm_eps = 0.25; }, rms},
      {"pos_emb: learned\nmax_position_embeddings: 9", is_learned, learned},
      {"pos_emb: null\nmax_position_embeddings: null", is_learned, learned},
      {"max_position_embeddings: null\nseq_length: 6", [](GptConfig& config) { config.max_positions = 6; }},
      {"seq_length: 6", same},
      {"num_kv_heads: 2", [](GptConfig& config) { config.num_query_groups = 2; },
       [](NeoxShapes& shapes) { shapes.qkv_rows = 32; }},
      {"num_kv_heads: 0", same},
      {"no_weight_tying: true", same},
      {"no_weight_tying: false", [](GptConfig& config) { config.tied_embeddings = true; },
       [](NeoxShapes& shapes) { shapes.common.has_head = false; }},
      {"padded_vocab_size: 32\nattention_config: [[[\"global\", \"flash\"], 1], [\"all\", 1]]", same},
      {"padded_vocab_size: 40", same, [](NeoxShapes& shapes) { shapes.common.has_stripped_vocabulary = true; }},
      {"num_attention_heads: null", same, [](NeoxShapes&) {}, {.num_attention_heads = 4}},
      {"",
       [](GptConfig& config) { config.vocab_size = 30; },
       [](NeoxShapes&) {},
       {.vocab_size = 30, .num_attention_heads = 2}},
      {"gpt_j_tied: false\nuse_mup: off\nsparsity: none\ntrain_impl: kto\nmoe_num_experts: 1\nnum_experts: 1", same}};
  for (const NeoxCase& test : cases) {
    CAPTURE(test.settings);
    GptConfig expected = neox_config_of_settings();
    test.change(expected);
    NeoxShapes shapes = neox_shapes();
    test.change_shapes(shapes);
    CHECK(config_of_neox(kNeoxSettings + test.settings, shapes, test.given) == expected);
  }
}

TEST_CASE("neox config: what contradicts the tensors, is out of range or not supported is refused by name") {
  const std::pair<const char*, const char*> cases[] = {
      {"num_layers: 2147483648", "setting num_layers is 2147483648, but the tensors have 2"},
      {"num_layers: 2147483649", "setting num_layers is '2147483649', but must be an integer from 0 to 2147483648"},
      {"hidden_size: -1", "setting hidden_size is '-1', but must be an integer"},
      {"hidden_size: many", "setting hidden_size is 'many', but must be an integer"},
      {"padded_vocab_size: 33", "setting padded_vocab_size is 33, but the tensors have 32"},
      {"num_attention_heads: 0", "setting num_attention_heads, 0, does not divide"},
      {"num_kv_heads: 3", "4 heads and 3 groups"},
      {"gpt_j_residual: maybe", "setting gpt_j_residual is 'maybe', but must be true or false"},
      {"rotary_pct: \"null\"", "setting rotary_pct is 'null', but must be a number"},
      {"layernorm_epsilon: 0", "the norms' epsilon is 0"},
      {"layernorm_epsilon: 1", "the norms' epsilon is 1"},
      {"init_method_std: -0.5", "setting init_method_std is -0.5"},
      {"init_method_std: 1000", "setting init_method_std is 1000"},
      {"no_weight_tying: false", "but the output layer's weight is stored"},
      {"pos_emb: learned", "setting pos_emb is 'learned', which the tensors do not have"},
      {"pos_emb: sinusoidal", "setting pos_emb is 'sinusoidal', which is not supported"},
      {"max_position_embeddings: null", "no setting max_position_embeddings states"},
      {"max_position_embeddings: 0", "no setting max_position_embeddings states"},
      {"activation: geglu", "has 64 outputs, but the setting activation, 'geglu', needs 128"},
      {"attention_config: [[[\"flash\", \"a_z\"], 2]]", "layers of kind 'a_z'"},
      {"activation: mish", "setting activation is 'mish'"},
      {"rotary_pct: 2", "rotary"},  // a problem of the model itself
      {"use_mup: maybe", "setting use_mup is 'maybe', but must be true or false"},
      {"sliding_window_width: 4", "setting sliding_window_width is '4'"},
      {"sliding_window_width: false", "setting sliding_window_width is 'false'"},
      {"moe_num_experts: 2", "setting moe_num_experts is '2'"},
      {"norm: te_rmsnorm", "but the norms have biases"}};
  for (const auto& [settings, message] : cases) {
    CAPTURE(settings);
    CHECK(
        contains(error_of([&, one = settings] { config_of_neox(kNeoxSettings + one, neox_shapes()); }, Exit::bad_data),
                 message));
  }
  NeoxShapes shapes = neox_shapes();
  shapes.common.has_head = shapes.common.has_norm_bias = false;
  shapes.common.positions = 9;
  const std::string several = error_of([&] {
    config_of_neox(kNeoxSettings + "no_weight_tying: true\npos_emb: learned\nmax_position_embeddings: 8", shapes);
  });
  CHECK(contains(several, "but the output layer's weight is missing"));
  CHECK(contains(several, "setting norm is 'layernorm', but the norms have no biases; "));
  CHECK(contains(several, "setting max_position_embeddings is 8, but the tensors have 9"));

  const std::string without_heads = kNeoxSettings + "num_attention_heads: null";
  const auto usage = [&](const ModelSupplement& given) {
    return error_of([&] { config_of_neox(without_heads, neox_shapes(), given); }, Exit::usage);
  };
  CHECK(contains(usage({}), "is required, because neither the checkpoint's configs nor its args state"));
  CHECK(contains(usage({.num_attention_heads = 3}), "does not divide the hidden size 16"));
  CHECK(contains(usage({.num_attention_heads = 0}), "does not divide the hidden size 16"));
  CHECK(contains(usage({.vocab_size = 33, .num_attention_heads = 4}), "exceeds the 32 rows"));
  CHECK(usage({.vocab_size = 32, .num_attention_heads = 4}).empty());
}

TEST_CASE("neox config: notes say what is assumed, and any of the run's own settings tells that it was found") {
  const auto notes_of = [](const std::string& settings, bool has_gate_matrix = false) {
    NeoxShapes shapes = neox_shapes();
    shapes.has_gate_matrix = has_gate_matrix;
    std::vector<std::string> notes;
    neox_config(parse_yaml_settings("num_attention_heads: 4\nmax_position_embeddings: 8\n" + settings), shapes, {},
                notes);
    return notes;
  };
  for (const bool has_gate_matrix : {false, true}) {  // without the configs, that note is enough
    REQUIRE(notes_of("", has_gate_matrix).size() == 1);
    CHECK(contains(notes_of("", has_gate_matrix)[0],
                   "has no configs/*.yml, in which GPT-NeoX states its model; mtl "
                   "assumes rotary positions of whole heads"));
  }
  for (const char* setting : {"pos_emb: rotary", "norm: layernorm", "gpt_j_residual: false", "seq_length: 8",
                              "hidden_dropout: 0", "attention_dropout: 0"})
    CHECK(notes_of(setting).empty());
  CHECK(notes_of("norm: layernorm\nactivation: silu", true).empty());
  std::string many = "norm: layernorm\n";
  for (int i = 10; i < 30; ++i) many += cat("x", i, ": 1\n");
  CHECK(ends_with(notes_of("norm: layernorm\n" + std::string(61, 'x') + ": 1").at(0), " " + std::string(60, 'x')));
  CHECK(ends_with(notes_of(many).at(0), "x28, x29"));
  CHECK(ends_with(notes_of(many + "x30: 1").at(0), "x28, x29 and 1 more"));

  const auto dropout_of = [](const char* settings) { return neox_dropout(parse_yaml_settings(settings)); };
  CHECK_FALSE(dropout_of("num_layers: 2"));
  CHECK(dropout_of("norm: rmsnorm") == ModelDropout{0, 0, 0});
  CHECK(dropout_of("hidden_dropout: 0.25\nattention_dropout: 0.5") == ModelDropout{0.25, 0.5, 0.25});
  CHECK(contains(error_of([&] { dropout_of("hidden_dropout: x"); }, Exit::bad_data), "hidden_dropout is 'x'"));
  CHECK(contains(error_of([&] { dropout_of("attention_dropout: 1"); }, Exit::bad_data), "attention_dropout is 1"));
}

TEST_CASE("neox config: the last file counts, and arguments only for what no file states") {
  const ScratchFolder scratch;
  write_file_atomic(scratch / "a", "num_layers: 2\nnorm: rmsnorm");
  write_file_atomic(scratch / "b", "num-layers: 3");
  PickleWriter pickle;
  pickle.begin_dict();
  pickle.integer(7), pickle.text("a name that is no text");
  pickle.text("num_layers"), pickle.integer(4);
  pickle.text("none"), pickle.none();
  pickle.text("hidden_size"), pickle.integer(16);
  pickle.text("activation"), pickle.text("relu");
  pickle.end_dict();
  const std::string stream = pickle.finish();
  const Pickle args(stream, torch_global_use);
  const auto texts = [](const NeoxSettings& read) {
    std::string out;
    for (const auto& [name, setting] : read) out += cat(name, "=", setting.text, " ");
    return out;
  };
  const std::vector<std::string> files = {scratch / "a", scratch / "b"};
  CHECK(texts(read_neox_settings(files, std::nullopt)) == "norm=rmsnorm num_layers=3 ");
  CHECK(texts(read_neox_settings(files, args.root())) == "activation=relu hidden_size=16 norm=rmsnorm num_layers=3 ");
  CHECK(read_neox_settings({}, args.root().find("activation")).empty());

  const std::string limit(1 << 20, '#');
  write_file_atomic(scratch / "b", limit);
  CHECK(texts(read_neox_settings(files, std::nullopt)) == "norm=rmsnorm num_layers=2 ");
  write_file_atomic(scratch / "b", limit + "#");
  const std::string too_large = error_of([&] { read_neox_settings(files, std::nullopt); }, Exit::bad_data);
  CHECK(contains(too_large, scratch / "b: the file is not a configuration"));
  CHECK(contains(error_of([&] { read_neox_settings({scratch.path()}, std::nullopt); }, Exit::bad_data),
                 "is not a configuration"));
}
