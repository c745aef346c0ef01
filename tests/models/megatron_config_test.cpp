// Megatron-LM's arguments: rejects those that would make mtl compute something else, and reports their names.
#include "models/megatron_config.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "formats/pickle_writer.h"
#include "formats/torch_globals.h"
#include "tests/error_of.h"

using namespace mtl;

namespace {

using AddArgs = std::function<void(PickleWriter& pickle)>;

/// Returns a pickled Namespace. `add` writes its arguments.
std::string namespace_with(const AddArgs& add) {
  PickleWriter pickle;
  pickle.global("argparse", "Namespace");
  pickle.begin_tuple();
  pickle.end_tuple();
  pickle.new_object();
  pickle.begin_dict();
  add(pickle);
  pickle.end_dict();
  pickle.build();
  return pickle.finish();
}

/// Returns the configuration of a two-layer GPT-2. `add` writes additional arguments into its Namespace.
GptConfig config_with(const AddArgs& add) {
  const std::string stream = namespace_with([&](PickleWriter& pickle) {
    pickle.text("num_attention_heads"), pickle.integer(2);
    add(pickle);
  });
  const Pickle args(stream, torch_global_use);
  MegatronShapes shapes;
  shapes.layers = 2;
  shapes.vocabulary_rows = 11;
  shapes.hidden = 8;
  shapes.up_rows = 32;
  shapes.positions = 6;
  shapes.has_norm_bias = true;
  std::vector<std::string> notes;
  return megatron_config(args.root(), 3, shapes, {}, notes);
}

void add_window(PickleWriter& pickle, std::int64_t left, std::int64_t right) {
  pickle.text("window_size");
  pickle.begin_tuple();
  pickle.integer(left), pickle.integer(right);
  pickle.end_tuple();
}

std::string problem_with(const AddArgs& add) {
  return test::error_of([&] { config_with(add); }, Exit::bad_data);
}

}  // namespace

TEST_CASE("megatron config: a window of n positions to the left is a sliding window of n + 1, -1 is none") {
  CHECK(config_with([](PickleWriter&) {}).sliding_window == 0);
  CHECK(config_with([](PickleWriter& pickle) { add_window(pickle, 3, 0); }).sliding_window == 4);
  CHECK(config_with([](PickleWriter& pickle) { add_window(pickle, 3, -1); }).sliding_window == 4);
  CHECK(config_with([](PickleWriter& pickle) { add_window(pickle, 0, 0); }).sliding_window == 1);
  CHECK(config_with([](PickleWriter& pickle) { add_window(pickle, -1, 0); }).sliding_window == 0);
  CHECK(config_with([](PickleWriter& pickle) { add_window(pickle, -1, -1); }).sliding_window == 0);
  CHECK(test::contains(problem_with([](PickleWriter& pickle) { add_window(pickle, -2, 0); }), "args.window_size"));
  CHECK(test::contains(problem_with([](PickleWriter& pickle) { add_window(pickle, INT32_MAX, 0); }), "window_size"));
  CHECK(test::contains(problem_with([](PickleWriter& pickle) { pickle.text("window_size"), pickle.text("3,0"); }),
                       "args.window_size"));
}

TEST_CASE("megatron config: arguments that change the computation are refused by name, their defaults are not") {
  CHECK_NOTHROW(config_with([](PickleWriter& pickle) {
    pickle.text("softmax_type"), pickle.text("vanilla");
    pickle.text("glu_linear_offset"), pickle.number(0);
    pickle.text("qk_l2_norm"), pickle.boolean(false);
    pickle.text("no_rope_freq"), pickle.none();
    pickle.text("window_attn_skip_freq"), pickle.none();
    pickle.text("num_experts"), pickle.none();
  }));
  for (const char* name : {"qk_l2_norm", "attention_output_gate", "apply_layernorm_1p", "multi_latent_attention"}) {
    CAPTURE(name);
    const std::string error = problem_with([&](PickleWriter& pickle) { pickle.text(name), pickle.boolean(true); });
    CHECK(test::contains(error, cat("args.", name, " is on; ")));
  }
  for (const char* name : {"num_experts", "window_attn_skip_freq", "no_rope_freq"}) {
    CAPTURE(name);
    const std::string error = problem_with([&](PickleWriter& pickle) { pickle.text(name), pickle.integer(4); });
    CHECK(test::contains(error, cat("args.", name, " is given; ")));
  }
  CHECK(
      test::contains(problem_with([](PickleWriter& pickle) { pickle.text("softmax_type"), pickle.text("off-by-one"); }),
                     "args.softmax_type is 'off-by-one'"));
  CHECK(test::contains(problem_with([](PickleWriter& pickle) { pickle.text("glu_linear_offset"), pickle.number(1); }),
                       "args.glu_linear_offset is 1, which is not supported; load another model, or copy all"));
  for (const char* name : {"layernorm_epsilon", "norm_epsilon"}) {
    CAPTURE(name);
    const std::string error = problem_with([&](PickleWriter& pickle) { pickle.text(name), pickle.number(2); });
    CHECK(test::contains(error, cat("args.", name, " is 2, ")));
  }
}

TEST_CASE("megatron config: yarn has Megatron-LM's defaults, and rotates entire heads whatever rotary_percent says") {
  const auto rotary_with = [](const AddArgs& add) {
    return config_with([&](PickleWriter& pickle) {
             pickle.text("position_embedding_type"), pickle.text("yarn");
             pickle.text("max_position_embeddings"), pickle.integer(32);
             pickle.text("rotary_percent"), pickle.number(0.5);
             add(pickle);
           })
        .rotary;
  };
  using Scaling = RotaryOptions::Scaling;
  CHECK(rotary_with([](PickleWriter&) {}) == RotaryOptions{.scaling = Scaling::yarn, .original_positions = 4096});
  const RotaryOptions scaled = rotary_with([](PickleWriter& pickle) {
    pickle.text("rotary_scaling_factor"), pickle.number(16);
    pickle.text("mscale"), pickle.number(0.707);
    pickle.text("yarn_beta_fast"), pickle.none();
    pickle.text("yarn_correction_range_round_to_int"), pickle.boolean(false);
  });
  CHECK(scaled.factor == 16);
  CHECK(scaled.attention_factor == 0.1 * 0.707 * std::log(16.0) + 1);  // mscale_all_dim is 0
  CHECK(scaled.beta_fast == 32);
  CHECK_FALSE(scaled.round_pairs);
}

TEST_CASE("megatron config: args.vocab_size counts where it is the number of tokens") {
  struct Case {
    const char* tokenizer;  // null: none is named, as in mtl's own checkpoints
    std::int64_t vocab_size;
    bool has_eod_argument;
    std::optional<std::int64_t> tokens;
  };
  const Case cases[] = {
      {nullptr, 9, false, 9},           {nullptr, 11, false, 11},        {nullptr, 12, false, {}},
      {nullptr, 0, false, {}},          {"TikTokenizer", 9, false, 9},   {"NullTokenizer", 9, true, 9},
      {"NullTokenizer", 9, false, 10},  {"NullTokenizer", 11, true, 11}, {"NullTokenizer", 11, false, {}},
      {"GPT2BPETokenizer", 9, true, {}}};  // counts its file's tokens
  for (const Case& one : cases) {
    CAPTURE(one.tokenizer);
    CAPTURE(one.vocab_size);
    CAPTURE(one.has_eod_argument);
    const AddArgs add = [&](PickleWriter& pickle) {
      if (one.tokenizer != nullptr) pickle.text("tokenizer_type"), pickle.text(one.tokenizer);
      pickle.text("vocab_size"), pickle.integer(one.vocab_size);
      if (one.has_eod_argument) pickle.text("null_tokenizer_eod_id"), pickle.none();
    };
    const std::string stream = namespace_with(add);
    const Pickle args(stream, torch_global_use);
    CHECK(megatron_vocabulary(args.root(), 11) == one.tokens);
    CHECK(config_with(add).vocab_size == one.tokens.value_or(11));
  }
  CHECK(!megatron_vocabulary(std::nullopt, 11));
}

TEST_CASE("megatron config: an interpolation factor of 1 is linear scaling, as written for such a model") {
  for (const bool is_given : {false, true}) {
    const GptConfig config = config_with([&](PickleWriter& pickle) {
      pickle.text("position_embedding_type"), pickle.text("rope");
      pickle.text("max_position_embeddings"), pickle.integer(32);
      pickle.text("rotary_seq_len_interpolation_factor"), is_given ? pickle.number(1) : pickle.none();
    });
    using Scaling = RotaryOptions::Scaling;
    CHECK(config.rotary.scaling == (is_given ? Scaling::linear : Scaling::none));
    CHECK(config.rotary.factor == 1);
  }
}

TEST_CASE("megatron config: every argument that is read, and its default") {
  const auto rope = [](const AddArgs& add) {
    return config_with([&](PickleWriter& pickle) {
      pickle.text("position_embedding_type"), pickle.text("rope");
      pickle.text("max_position_embeddings"), pickle.integer(32);
      add(pickle);
    });
  };
  using Scaling = RotaryOptions::Scaling;
  GptConfig expected = rope([](PickleWriter&) {});
  CHECK(expected.rotary == RotaryOptions{.base = 10000, .percent = 1});
  CHECK(expected.num_query_groups == 2);
  CHECK(expected.head_dim == 4);
  CHECK(expected.norm_eps == 1e-5);
  CHECK(expected.init_std == 0.02);
  CHECK(expected.activation == Activation::gelu_erf);
  const GptConfig read = rope([](PickleWriter& pickle) {
    for (const auto& [name, value] : {std::pair("rope_theta", 500.0), std::pair("rotary_percent", 0.5),
                                      std::pair("init_method_std", 0.5), std::pair("norm_epsilon", 0.25)})
      pickle.text(name), pickle.number(value);
    for (const char* name : {"rotary_interleaved", "use_rope_scaling", "swiglu", "group_query_attention"})
      pickle.text(name), pickle.boolean(true);
    for (const char* name : {"num_query_groups", "num_key_value_heads"}) pickle.text(name), pickle.integer(1);
    pickle.text("kv_channels"), pickle.integer(8);
    pickle.text("normalization"), pickle.text("layernorm");
  });
  expected.rotary = {.base = 500, .percent = 0.5, .interleaved = true, .scaling = Scaling::llama3, .factor = 8};
  expected.init_std = 0.5;
  expected.norm_eps = 0.25;
  expected.gated_mlp = true;
  expected.activation = Activation::silu;
  expected.ffn_hidden_size = 16;
  expected.num_query_groups = 1;
  expected.head_dim = 8;
  CHECK(read == expected);
  for (const auto& [glu, activation] :
       {std::pair("geglu", Activation::gelu_erf), {"reglu", Activation::relu}, {"swiglu", Activation::silu}}) {
    const GptConfig config = config_with([&](PickleWriter& p) { p.text("glu_activation"), p.text(glu); });
    CHECK(config.gated_mlp);
    CHECK(config.activation == activation);
  }
  for (const auto& [name, activation] : {std::pair("squared_relu", Activation::squared_relu),
                                         {"openai_gelu", Activation::gelu_tanh},
                                         {"onnx_safe", Activation::gelu_erf}})
    CHECK(config_with([&](PickleWriter& p) { p.text(name), p.boolean(true); }).activation == activation);
  CHECK(config_with([&](PickleWriter& p) {
          for (const char* name : {"openai_gelu", "onnx_safe"}) p.text(name), p.boolean(true);
        }).activation == Activation::gelu_erf);
}

TEST_CASE("megatron config: arguments that contradict the tensors or are out of range are named") {
  const std::pair<const char*, double> wrong[] = {{"num_layers", 3},
                                                  {"hidden_size", 9},
                                                  {"padded_vocab_size", 10},
                                                  {"ffn_hidden_size", 31},
                                                  {"num_layers", -1},
                                                  {"num_layers", 1e10},
                                                  {"max_position_embeddings", 7},
                                                  {"hidden_size", 7},
                                                  {"init_method_std", -1},
                                                  {"init_method_std", 1e3},
                                                  {"norm_epsilon", 0},
                                                  {"mtp_num_layers", 1},
                                                  {"softmax_scale", 1},
                                                  {"rotary_base_per_layer", 1},
                                                  {"hybrid_override_pattern", 1},
                                                  {"heterogeneous_layers_config_path", 1},
                                                  {"heterogeneous_layers_config_encoded_json", 1}};
  for (const auto& [name, value] : wrong) {
    CAPTURE(name);
    CAPTURE(value);
    const std::string problem = problem_with([&, name = name, value = value](PickleWriter& pickle) {
      pickle.text(name);
      value == std::int64_t(value) ? pickle.integer(std::int64_t(value)) : pickle.number(value);
    });
    CHECK(test::contains(problem, cat("args.", name, " is ")));
    CHECK(test::contains(problem, ", but must be from 0 to") == (value == 1e10 || (value < 0 && *name != 'i')));
  }
  const auto add_list = [](PickleWriter& pickle, const char* name, std::initializer_list<int> values) {
    pickle.text(name), pickle.begin_list();
    for (int value : values) pickle.integer(value);
    pickle.end_list();
  };
  CHECK_NOTHROW(config_with([&](PickleWriter& p) { add_list(p, "num_experts", {1, 1}); }));
  CHECK(test::contains(problem_with([&](PickleWriter& p) { add_list(p, "num_experts", {1, 2}); }), "num_experts"));
  CHECK(test::contains(problem_with([&](PickleWriter& p) { add_list(p, "window_size", {3, 0, 0}); }), "window_size"));
  CHECK(config_with([&](PickleWriter& p) { add_list(p, "window_size", {3, 0}); }).sliding_window == 4);
  CHECK(config_with([](PickleWriter& p) { p.text("num_key_value_heads"), p.integer(1); }).num_query_groups == 1);
  CHECK(config_with([](PickleWriter& p) { p.text("normalization"), p.text("rmsnorm"); }).norm == Norm::rmsnorm);
  for (const char* name : {"embed_layernorm", "apply_residual_connection_post_layernorm", "quick_geglu"})
    CHECK(test::contains(problem_with([&](PickleWriter& p) { p.text(name), p.boolean(true); }), cat(name, " is on")));
  for (const char* name : {"normalization", "glu_activation", "position_embedding_type"})
    CHECK(test::contains(problem_with([&](PickleWriter& p) { p.text(name), p.text("other"); }), cat("args.", name)));
  CHECK(test::contains(
      problem_with([](PickleWriter& p) { p.text("untie_embeddings_and_output_weights"), p.boolean(true); }),
      "args.untie_embeddings_and_output_weights is "));
}

TEST_CASE("megatron config: one missing dropout is Megatron-LM's default, and sizes of ranks have an older name") {
  const auto pickled = [](const char* name, double value) {
    return namespace_with(
        [&](PickleWriter& p) { p.text(name), value < 1 ? p.number(value) : p.integer(std::int64_t(value)); });
  };
  const std::string hidden = pickled("hidden_dropout", 0.5), attention = pickled("attention_dropout", 0.25),
                    older = pickled("model_parallel_size", 4), newer = pickled("tensor_model_parallel_size", 2),
                    stages = pickled("pipeline_model_parallel_size", 3);
  const auto dropout = [](const std::string& text) { return *megatron_dropout(Pickle(text, torch_global_use).root()); };
  CHECK(dropout(hidden) == ModelDropout{.hidden = 0.5, .attention = 0.1, .embedding = 0.5});
  CHECK(dropout(attention) == ModelDropout{.hidden = 0.1, .attention = 0.25, .embedding = 0.1});
  const auto sizes = [](const std::string& text) {
    return megatron_parallel_sizes(Pickle(text, torch_global_use).root());
  };
  using Sizes = std::pair<std::int64_t, std::int64_t>;
  CHECK(sizes(older) == Sizes(4, 0));
  CHECK(sizes(newer) == Sizes(2, 0));
  CHECK(sizes(stages) == Sizes(0, 3));
}
