// The arguments that mtl writes into checkpoints of Megatron-LM: all of them, for four models, and which models they do
// not describe.
#include "models/megatron_args.h"

#include <doctest/doctest.h>

#include <functional>

#include "formats/torch_file.h"
#include "formats/torch_writer.h"
#include "tests/ckpt/ckpt_fixtures.h"

using namespace mtl;
using namespace mtl::test;

namespace {

std::string text_of(PickleValue value) {
  switch (value.kind()) {
    case PickleKind::none:
      return "None";
    case PickleKind::boolean:
      return value.as_bool() ? "on" : "off";
    case PickleKind::integer:
      return cat(value.as_int());
    case PickleKind::real:
      return cat(value.as_number(), "f");
    case PickleKind::text:
      return std::string(value.as_text());
    case PickleKind::tuple:
      return cat("(", text_of(value.at(0)), ", ", text_of(value.at(1)), ")");
    default:
      return value.global();
  }
}

/// Returns the arguments that are written for a model, as "name value" lines without those in `left_out`.
std::string written_args(const GptConfig& config, const MegatronWriteOptions& options, const MegatronProgress& progress,
                         const std::string& left_out = "") {
  const ScratchFolder scratch;
  const TestParams model(config);
  const ModelSource source =
      open_quietly(save_alone(SaveDirectory(scratch / "saved"), config, model.params, state_at(1)));
  OutputFile out(scratch / "args.pt");
  TorchWriter writer(out, "args");
  writer.pickle().begin_dict(), writer.pickle().text("args");
  write_megatron_args(writer, source, options, StoredDType::f16, progress);
  writer.pickle().end_dict();
  writer.finish();
  out.close();
  const TorchFile file(scratch / "args.pt");
  const PickleValue state = file.root().find("args")->state();
  std::string text;
  for (std::size_t i = 0; i < state.size(); ++i) {
    const std::string line = cat(state.key(i).as_text(), " ", text_of(state.value(i)), "\n");
    if (left_out.find("\n" + line) == std::string::npos) text += line;
  }
  return "\n" + text;
}

}  // namespace

TEST_CASE("megatron args: the arguments of a model with rotary positions, and of GPT-2") {
  using Scaling = RotaryOptions::Scaling;
  GptConfig config = llama_of_size({.vocab = 11, .layers = 4, .hidden = 8, .heads = 2, .positions = 5});
  config.num_query_groups = 1;
  config.head_dim = 8;
  config.norm_eps = 0.25;
  config.init_std = 0.125;
  config.qk_norm = true;
  config.bias.qkv = true;
  config.sliding_window = 3;
  config.tied_embeddings = false;
  config.rotary = {.base = 500, .percent = 0.5, .interleaved = true, .scaling = Scaling::llama3, .factor = 4};
  const std::string rope = written_args(
      config, {.tensor_parallel = 2, .pipeline_parallel = 2, .virtual_stages = 2, .make_vocab_size_divisible_by = 3},
      {.ckpt_format = "torch_dist",
       .has_optimizer = true,
       .iteration = 4,
       .consumed_samples = 32,
       .consumed_valid_samples = 3});
  CHECK(rope == R"(
num_layers 4
hidden_size 8
ffn_hidden_size 32
num_attention_heads 2
kv_channels 8
group_query_attention on
num_query_groups 1
max_position_embeddings 5
seq_length 5
vocab_size 11
make_vocab_size_divisible_by 3
padded_vocab_size 12
tensor_model_parallel_size 2
pipeline_model_parallel_size 2
virtual_pipeline_model_parallel_size 2
num_layers_per_virtual_pipeline_stage 1
context_parallel_size 1
expert_model_parallel_size 1
num_experts None
position_embedding_type rope
use_rotary_position_embeddings on
add_position_embedding on
rotary_base 500f
rotary_percent 0.5f
rotary_interleaved on
use_rope_scaling on
rope_scaling_factor 4f
normalization RMSNorm
layernorm_epsilon 0.25f
norm_epsilon 0.25f
init_method_std 0.125f
swiglu on
squared_relu off
bias_gelu_fusion off
openai_gelu off
add_bias_linear off
add_qkv_bias on
qk_layernorm on
untie_embeddings_and_output_weights on
apply_layernorm_1p off
apply_residual_connection_post_layernorm off
transformer_impl transformer_engine
use_mcore_models on
ckpt_format torch_dist
use_distributed_optimizer on
no_save_optim off
no_save_rng on
iteration 4
consumed_train_samples 32
consumed_valid_samples 3
window_size (2, 0)
fp16 on
bf16 off
params_dtype torch.float16
)");
  config.rotary = {.base = 500,
                   .scaling = Scaling::yarn,
                   .factor = 4,
                   .beta_fast = 16,
                   .beta_slow = 2,
                   .round_pairs = false,
                   .attention_factor = 1.25,
                   .original_positions = 64};
  CHECK(written_args(config, {}, {}, rope) == R"(
make_vocab_size_divisible_by 128
padded_vocab_size 128
tensor_model_parallel_size 1
pipeline_model_parallel_size 1
virtual_pipeline_model_parallel_size None
position_embedding_type yarn
use_rotary_position_embeddings off
rotary_percent 1f
rotary_interleaved off
use_rope_scaling off
rotary_scaling_factor 4f
yarn_original_max_position_embeddings 64
yarn_beta_fast 16f
yarn_beta_slow 2f
yarn_correction_range_round_to_int off
mscale 1.8033688011112043f
mscale_all_dim 0f
ckpt_format torch
use_distributed_optimizer off
no_save_optim on
iteration 0
consumed_train_samples 0
consumed_valid_samples 0
)");
  config.rotary = {.scaling = Scaling::linear, .factor = 2};
  CHECK(written_args(config, {}, {}, rope) == R"(
make_vocab_size_divisible_by 128
padded_vocab_size 128
tensor_model_parallel_size 1
pipeline_model_parallel_size 1
virtual_pipeline_model_parallel_size None
rotary_base 10000f
rotary_percent 1f
rotary_interleaved off
rotary_seq_len_interpolation_factor 2f
use_rope_scaling off
ckpt_format torch
use_distributed_optimizer off
no_save_optim on
iteration 0
consumed_train_samples 0
consumed_valid_samples 0
)");
  GptConfig gpt2 = tiny_config();
  for (const bool has_biases : {true, false}) {
    gpt2.bias = {.qkv = has_biases, .out = has_biases, .mlp = has_biases};
    CHECK(written_args(gpt2, {.transformer_engine = false}, {}, rope) == (has_biases ? R"(
num_layers 1
kv_channels 4
group_query_attention off
num_query_groups 2
make_vocab_size_divisible_by 128
padded_vocab_size 128
tensor_model_parallel_size 1
pipeline_model_parallel_size 1
virtual_pipeline_model_parallel_size None
position_embedding_type learned_absolute
use_rotary_position_embeddings off
normalization LayerNorm
layernorm_epsilon 1e-05f
norm_epsilon 1e-05f
init_method_std 0.02f
swiglu off
bias_gelu_fusion on
add_bias_linear on
add_qkv_bias off
qk_layernorm off
untie_embeddings_and_output_weights off
transformer_impl local
ckpt_format torch
use_distributed_optimizer off
no_save_optim on
iteration 0
consumed_train_samples 0
consumed_valid_samples 0
)"
                                                                                     : R"(
num_layers 1
kv_channels 4
group_query_attention off
num_query_groups 2
make_vocab_size_divisible_by 128
padded_vocab_size 128
tensor_model_parallel_size 1
pipeline_model_parallel_size 1
virtual_pipeline_model_parallel_size None
position_embedding_type learned_absolute
use_rotary_position_embeddings off
normalization LayerNorm
layernorm_epsilon 1e-05f
norm_epsilon 1e-05f
init_method_std 0.02f
swiglu off
openai_gelu on
add_qkv_bias off
qk_layernorm off
untie_embeddings_and_output_weights off
transformer_impl local
ckpt_format torch
use_distributed_optimizer off
no_save_optim on
iteration 0
consumed_train_samples 0
consumed_valid_samples 0
)"));
  }
}

TEST_CASE("megatron args: models that Megatron-LM's arguments do not describe are problems") {
  struct Case {
    const char* problem;
    std::function<void(GptConfig&)> change;
  };
  using Scaling = RotaryOptions::Scaling;
  const Case llamas[] = {
      {"parallel residual", [](GptConfig& c) { c.parallel_residual = true; }},
      {"biases", [](GptConfig& c) { c.bias.out = true; }},
      {"biases", [](GptConfig& c) { c.bias.out = c.bias.mlp = true; }},
      {"", [](GptConfig& c) { c.bias.qkv = true; }},
      {"activation", [](GptConfig& c) { c.activation = Activation::gelu_erf; }},
      {"activation", [](GptConfig& c) { c.gated_mlp = false; }},  // SiLU
      {"activation", [](GptConfig& c) { c.gated_mlp = false, c.activation = Activation::relu; }},
      {"", [](GptConfig& c) { c.gated_mlp = false, c.activation = Activation::squared_relu; }},
      {"", [](GptConfig& c) { c.qk_norm = true; }},
      {"normalization", [](GptConfig& c) { c.qk_norm = true, c.norm = Norm::layernorm; }},
      {"starts at a later layer", [](GptConfig& c) { c.first_window_layer = 1; }},
      {"query groups 3", [](GptConfig& c) { c.num_query_groups = 3; }},
      {"feed-forward size", [](GptConfig& c) { c.ffn_hidden_size = 9; }},
      {"", [](GptConfig& c) { c.rotary.scaling = Scaling::llama3, c.rotary.factor = 2; }},
      {"low_freq_factor", [](GptConfig& c) { c.rotary.scaling = Scaling::llama3, c.rotary.low_freq_factor = 2; }},
      {"low_freq_factor", [](GptConfig& c) { c.rotary.scaling = Scaling::llama3, c.rotary.high_freq_factor = 2; }},
      {"low_freq_factor", [](GptConfig& c) { c.rotary.scaling = Scaling::llama3, c.rotary.original_positions = 2; }},
      {"no attention factor",
       [](GptConfig& c) { c.rotary.scaling = Scaling::yarn, c.rotary.factor = 1, c.rotary.attention_factor = 2; }},
  };
  for (const Case& one : llamas) {
    GptConfig config = llama_of_size({.vocab = 11, .layers = 1, .hidden = 8, .heads = 2, .positions = 5});
    one.change(config);
    CAPTURE(one.problem);
    const std::vector<std::string> problems = megatron_problems(config, {.tensor_parallel = 2});
    CAPTURE(join(problems, "; "));
    CHECK(problems.size() == (*one.problem == '\0' ? 0 : 1));
    CHECK(contains(join(problems, "; "), one.problem));
  }
}
