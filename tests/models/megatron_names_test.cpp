// Megatron-LM's names of parameters, in all of its releases, and of the folders of ranks.
#include "models/megatron_names.h"

#include <doctest/doctest.h>

#include "base/str.h"
#include "models/megatron_folder.h"
#include "tests/ckpt/ckpt_fixtures.h"

using namespace mtl;
using namespace mtl::test;

namespace {

/// Returns "CANONICAL LAYER SPLIT" of a name, or "-".
std::string parsed_name(const std::string& name) {
  const std::optional<MegatronName> found = parse_megatron_name(name);
  if (!found) return "-";
  const char* splits[] = {"whole", "rows", "columns"};
  return cat(found->canonical, found->layer ? cat(" ", *found->layer) : "", " ",
             splits[static_cast<int>(found->split)]);
}

}  // namespace

TEST_CASE("megatron names: every release's name of every parameter") {
  std::string text = "\n";
  const auto add = [&](const std::string& name) { text += cat(name, ": ", parsed_name(name), "\n"); };
  for (const char* module :
       {"input_layernorm.", "input_norm.", "self_attention.linear_qkv.layer_norm_", "attention.query_key_value.",
        "self_attention.query_key_value.", "self_attention.linear_qkv.", "self_attention.q_layernorm.",
        "self_attention.k_layernorm.", "attention.dense.", "self_attention.dense.", "self_attention.linear_proj.",
        "post_attention_layernorm.", "post_attention_norm.", "pre_mlp_layernorm.", "mlp.linear_fc1.layer_norm_",
        "mlp.dense_h_to_4h.", "mlp.linear_fc1.", "mlp.dense_4h_to_h.", "mlp.linear_fc2."})
    for (const char* kind : {"weight", "bias"}) add(cat("layers.1.", module, kind));
  for (const char* module : {"embedding.word_embeddings.", "embedding.position_embeddings.", "final_layernorm.",
                             "final_norm.", "output_layer.", "word_embeddings_for_head."})
    add(cat(module, "weight"));
  for (const char* name :
       {"module.language_model.transformer.layers.0.input_layernorm.bias", "encoder.final_layernorm.bias",
        "decoder.layers.123456789.input_norm.weight", "decoder.layers.1234567890.input_norm.weight",
        "layers..input_norm.weight", "layers.-1.input_norm.weight", "layers.x.input_norm.weight", "layers.1",
        "input_norm.weight", "layers.0.input_norm_weight", "layers.0.input_norm.weights", "layers.0.layer_norm_weight",
        "transformer.encoder.final_norm.weight", "final_normweight", "weight"})
    add(name);
  CHECK(text == R"(
layers.1.input_layernorm.weight: norm1.weight 1 whole
layers.1.input_layernorm.bias: norm1.bias 1 whole
layers.1.input_norm.weight: norm1.weight 1 whole
layers.1.input_norm.bias: norm1.bias 1 whole
layers.1.self_attention.linear_qkv.layer_norm_weight: norm1.weight 1 whole
layers.1.self_attention.linear_qkv.layer_norm_bias: norm1.bias 1 whole
layers.1.attention.query_key_value.weight: attention.qkv.weight 1 rows
layers.1.attention.query_key_value.bias: attention.qkv.bias 1 rows
layers.1.self_attention.query_key_value.weight: attention.qkv.weight 1 rows
layers.1.self_attention.query_key_value.bias: attention.qkv.bias 1 rows
layers.1.self_attention.linear_qkv.weight: attention.qkv.weight 1 rows
layers.1.self_attention.linear_qkv.bias: attention.qkv.bias 1 rows
layers.1.self_attention.q_layernorm.weight: attention.q_norm.weight 1 whole
layers.1.self_attention.q_layernorm.bias: attention.q_norm.bias 1 whole
layers.1.self_attention.k_layernorm.weight: attention.k_norm.weight 1 whole
layers.1.self_attention.k_layernorm.bias: attention.k_norm.bias 1 whole
layers.1.attention.dense.weight: attention.out.weight 1 columns
layers.1.attention.dense.bias: attention.out.bias 1 whole
layers.1.self_attention.dense.weight: attention.out.weight 1 columns
layers.1.self_attention.dense.bias: attention.out.bias 1 whole
layers.1.self_attention.linear_proj.weight: attention.out.weight 1 columns
layers.1.self_attention.linear_proj.bias: attention.out.bias 1 whole
layers.1.post_attention_layernorm.weight: norm2.weight 1 whole
layers.1.post_attention_layernorm.bias: norm2.bias 1 whole
layers.1.post_attention_norm.weight: norm2.weight 1 whole
layers.1.post_attention_norm.bias: norm2.bias 1 whole
layers.1.pre_mlp_layernorm.weight: norm2.weight 1 whole
layers.1.pre_mlp_layernorm.bias: norm2.bias 1 whole
layers.1.mlp.linear_fc1.layer_norm_weight: norm2.weight 1 whole
layers.1.mlp.linear_fc1.layer_norm_bias: norm2.bias 1 whole
layers.1.mlp.dense_h_to_4h.weight: mlp.up.weight 1 rows
layers.1.mlp.dense_h_to_4h.bias: mlp.up.bias 1 rows
layers.1.mlp.linear_fc1.weight: mlp.up.weight 1 rows
layers.1.mlp.linear_fc1.bias: mlp.up.bias 1 rows
layers.1.mlp.dense_4h_to_h.weight: mlp.down.weight 1 columns
layers.1.mlp.dense_4h_to_h.bias: mlp.down.bias 1 whole
layers.1.mlp.linear_fc2.weight: mlp.down.weight 1 columns
layers.1.mlp.linear_fc2.bias: mlp.down.bias 1 whole
embedding.word_embeddings.weight: embedding.tokens.weight rows
embedding.position_embeddings.weight: embedding.positions.weight whole
final_layernorm.weight: final_norm.weight whole
final_norm.weight: final_norm.weight whole
output_layer.weight: output.weight rows
word_embeddings_for_head.weight: output.weight rows
module.language_model.transformer.layers.0.input_layernorm.bias: norm1.bias 0 whole
encoder.final_layernorm.bias: final_norm.bias whole
decoder.layers.123456789.input_norm.weight: norm1.weight 123456789 whole
decoder.layers.1234567890.input_norm.weight: -
layers..input_norm.weight: -
layers.-1.input_norm.weight: -
layers.x.input_norm.weight: -
layers.1: -
input_norm.weight: -
layers.0.input_norm_weight: -
layers.0.input_norm.weights: -
layers.0.layer_norm_weight: -
transformer.encoder.final_norm.weight: -
final_normweight: -
weight: -
)");
}

TEST_CASE("megatron names: megatron-core's names with Transformer Engine and in its local implementation") {
  std::string text = "\n";
  for (const char* name : {"embedding.tokens.weight", "embedding.positions.weight", "layers.12.norm1.bias",
                           "layers.0.attention.qkv.weight", "layers.0.attention.q_norm.weight",
                           "layers.0.attention.k_norm.weight", "layers.0.attention.out.bias", "layers.0.norm2.weight",
                           "layers.0.mlp.up.weight", "layers.0.mlp.down.weight", "final_norm.bias", "output.weight"})
    text += cat(megatron_core_name(name, true), " ", megatron_core_name(name, false), "\n");
  CHECK(text == R"(
embedding.word_embeddings.weight embedding.word_embeddings.weight
embedding.position_embeddings.weight embedding.position_embeddings.weight
decoder.layers.12.self_attention.linear_qkv.layer_norm_bias decoder.layers.12.input_layernorm.bias
decoder.layers.0.self_attention.linear_qkv.weight decoder.layers.0.self_attention.linear_qkv.weight
decoder.layers.0.self_attention.q_layernorm.weight decoder.layers.0.self_attention.q_layernorm.weight
decoder.layers.0.self_attention.k_layernorm.weight decoder.layers.0.self_attention.k_layernorm.weight
decoder.layers.0.self_attention.linear_proj.bias decoder.layers.0.self_attention.linear_proj.bias
decoder.layers.0.mlp.linear_fc1.layer_norm_weight decoder.layers.0.pre_mlp_layernorm.weight
decoder.layers.0.mlp.linear_fc1.weight decoder.layers.0.mlp.linear_fc1.weight
decoder.layers.0.mlp.linear_fc2.weight decoder.layers.0.mlp.linear_fc2.weight
decoder.final_layernorm.bias decoder.final_layernorm.bias
output_layer.weight output_layer.weight
)");
  for (const char* name : {"decoder.layers.0.mlp._extra_state", "language_model.rotary_pos_emb.inv_freq"})
    CHECK(is_megatron_buffer(name));
  CHECK(!is_megatron_buffer("decoder.layers.0.mlp.linear_fc1.weight"));
}

TEST_CASE("megatron folder: names of ranks' folders, and what is a checkpoint") {
  const auto is_rank = [](const char* name) {
    const ScratchFolder scratch;
    fs::create_directory(scratch / name);
    const std::string problem = error_of([&] { list_megatron_files(scratch.path()); }, Exit::bad_data);
    return !contains(problem, "is not mp_rank_TT or mp_rank_TT_PPP");
  };
  for (const char* name : {"mp_rank_00", "mp_rank_01_002", "mp_rank_7", "mp_rank_12345"})
    CHECK_MESSAGE(is_rank(name), std::string(name));
  for (const char* name :
       {"mp_rank_", "mp_rank_00_", "mp_rank_00_000_000", "mp_rank_x", "mp_rank_00_0x", "mp_rank_-1", "mp_rank_123456"})
    CHECK_MESSAGE(!is_rank(name), std::string(name));
  const ScratchFolder scratch;
  for (const char* name : {"x.pt", "x.bin", "mp_rank_00_model_states.pt", "zero_pp_rank_0_mp_rank_00_optim_states.pt",
                           "optim.pt", "distrib_optim.pt"}) {
    CAPTURE(std::string(name));
    write_text(scratch / name, "");
    CHECK(is_megatron_file(scratch / name) == (name == std::string("x.pt")));
  }
  CHECK(!holds_megatron_ranks(scratch.path()));
  CHECK(!has_mark(kMegatronMarks, scratch.path()));
  write_text(scratch / "model_optim_rng.pt", "");
  CHECK(has_mark(kMegatronMarks, scratch.path()));
  fs::create_directory(scratch / "mp_rank_x");
  fs::remove(scratch / "model_optim_rng.pt");
  CHECK(has_mark(kMegatronMarks, scratch.path()));
}

TEST_CASE("megatron folder: folders of ranks that do not make up a checkpoint are refused by name") {
  const ScratchFolder scratch;
  const auto problem = [&](const std::vector<const char*>& files) {
    fs::remove_all(scratch / "iteration");
    for (const char* file : files) {
      const fs::path path = fs::path(scratch / "iteration") / file;
      make_directories(path.parent_path().string());
      if (path.has_extension()) write_text(path.string(), "");
    }
    return error_of([&] { list_megatron_files(scratch / "iteration"); }, Exit::bad_data);
  };
  constexpr const char *kFirst = "mp_rank_00/model_optim_rng.pt", *kSecond = "mp_rank_01_000/model_optim_rng.pt";
  CHECK(problem({kFirst, kSecond, "mp_rank_00_model_states.pt", "other/x.pt"}) == "");
  CHECK(contains(problem({kFirst, "mp_rank_00_000/model_optim_rng.pt"}), "mp_rank_00_000 are for the same rank"));
  CHECK(contains(problem({kFirst, "mp_rank_00_000_001/model_optim_rng.pt"}), "is not mp_rank_TT or mp_rank_TT_PPP"));
  CHECK(contains(problem({kFirst, "mp_rank_01/"}), "mp_rank_01/model_optim_rng.pt is missing; copy all files"));
  for (const char* name : {"mp_rank_00/model_rng.pt", "mp_rank_00_000/optim.pt"})
    CHECK(contains(problem({name}), "the distributed optimizer of Megatron-LM v3.0"));
  CHECK(contains(problem({kFirst, kSecond, "mp_rank_01_001/model_optim_rng.pt"}),
                 "tensor parallel rank 0 on pipeline stage 1 is missing; copy all mp_rank_* folders of the checkpoint "
                 "(3 of 2 x 2 are there)"));
}

TEST_CASE("megatron folder: the tracker's checkpoint, or the newest with a warning") {
  const ScratchFolder scratch;
  const std::string tracker = scratch / "latest_checkpointed_iteration.txt";
  Console console = quiet_console();
  const auto current = [&](const std::string& text) {
    if (!text.empty()) write_text(tracker, text);
    std::string name = "-";
    const std::string warning = stderr_of([&] {
      if (const auto found = current_megatron_checkpoint(scratch.path(), console))
        name = found->substr(scratch.path().size());
    });
    const std::size_t at = warning.find(tracker);
    return at == std::string::npos ? name : cat(name, ":", warning.substr(at + tracker.size()));
  };
  CHECK(current("release") == "-");
  make_directories(scratch / "release/mp_rank_00");
  CHECK(current("release") == "/release");
  for (const char* name : {"iter_0000010", "iter_0000007", "iter_0000020"})
    make_directories(cat(scratch.path(), "/", name, "/mp_rank_00"));
  fs::create_directory(scratch / "iter_0000030");
  fs::create_directory(scratch / "iter_x");
  CHECK(current("release\n") == "/release");
  CHECK(current("7") == "/iter_0000007");
  CHECK(current("10\n") == "/iter_0000010");
  for (const char* text : {"-1", "x"})
    CHECK(current(text) == "/iter_0000020: does not name a checkpoint; using iter_0000020\n");
  CHECK(current("40") == "/iter_0000020: names iter_0000040, which does not exist; using iter_0000020\n");
  CHECK(current("0") == "/iter_0000020: names iter_0000000, which does not exist; using iter_0000020\n");
  const auto problem = [&] { return error_of([&] { current("30"); }, Exit::bad_data); };
  CHECK(contains(problem(), cat("iter_0000030: the folder contains neither mp_rank_* folders nor .metadata; copy the "
                                "checkpoint again, or use ",
                                scratch.path(), "/iter_0000020 to go back")));
  write_text(scratch / "iter_0000030/config.json", R"({"model_type": "gpt2"})");
  write_text(scratch / "iter_0000030/pytorch_model.bin.index.json", "{}");
  CHECK(contains(problem(), "/iter_0000020 to go back"));
  fs::remove(tracker);
  CHECK(current("") == "/iter_0000020: is missing; using iter_0000020\n");
}
