// Checkpoints of Megatron-DeepSpeed and GPT-NeoX: every golden case, written by DeepSpeed, equals its model and its
// optimizer's state bit for bit, as whole tensors and as slices; and what mtl does not read is refused by name.
#include <doctest/doctest.h>

#include "base/usage_error.h"
#include "deepspeed_fixtures.h"
#include "formats/yaml_settings.h"
#include "models/neox_config.h"

using namespace mtl;
using namespace mtl::test;
using namespace std::string_literals;

namespace {

const std::string kDeepSpeedCases[] = {
    "neox_pipeline",   "neox_sequential",      "megatron_tensor",    "megatron_pipeline", "megatron_plain",
    "megatron_llama",  "megatron_fused",       "neox_gated",         "neox_geglu",        "neox_stages",
    "megatron_stages", "megatron_bf16_stages", "megatron_universal", "megatron_zero3"};

/// Replaces text in a case's configs/model.yml.
void edit_config(const std::string& checkpoint, const std::string& from, const std::string& to) {
  const std::string path = checkpoint + "/configs/model.yml";
  std::string text = read_file(path);
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  write_file_atomic(path, text.replace(at, from.size(), to));
}

}  // namespace

TEST_CASE("deepspeed: the golden cases equal their models and moments bit for bit") {
  for (const std::string& name : kDeepSpeedCases) {
    CAPTURE(name);
    const ModelSource source = open_deepspeed_case(kDeepSpeed + name);
    const ModelSource main = open_deepspeed_case(kDeepSpeed + name + "/expected/main");
    CHECK(source.kind() == (starts_with(name, "neox") ? "GPT-NeoX checkpoint" : "DeepSpeed checkpoint"));
    CHECK(source.config() == main.config());
    CHECK(source.optimizer_problem() == "");
    REQUIRE(source.has_optimizer());
    check_kind(source, "param", main);
    check_kind(source, "exp_avg", open_deepspeed_case(kDeepSpeed + name + "/expected/exp_avg"));
    check_kind(source, "exp_avg_sq", open_deepspeed_case(kDeepSpeed + name + "/expected/exp_avg_sq"));
    source.verify();
    REQUIRE(source.state());
    CHECK(source.state()->iteration == 2);
    CHECK(source.state()->optimizer_steps == 2);
    CHECK(source.state()->skipped_iterations == 0);
    CHECK(!source.has_padded_vocabulary());
    REQUIRE(source.dropout());
    const bool has_dropout = main.config().norm == Norm::layernorm && starts_with(name, "megatron");
    CHECK(*source.dropout() == (has_dropout ? ModelDropout{0.1, 0.1, 0.1} : ModelDropout{}));
  }
}

TEST_CASE("deepspeed: without optimizer files, the 16-bit weights are read") {
  const ScratchFolder scratch;
  for (const std::string& name : std::span(kDeepSpeedCases).first(4)) {  // those with such files
    CAPTURE(name);
    const std::string path = copy_deepspeed_case(scratch, name);
    remove_matching(path, "_optim_states.pt");
    const ModelSource source = open_deepspeed_case(path);
    CHECK(!source.has_optimizer());
    CHECK(source.tensors().front().dtype == StoredDType::bf16);
    check_kind(source, "param", open_deepspeed_case(kDeepSpeed + name + "/expected/weight"));
  }
}

TEST_CASE("deepspeed: an incomplete optimizer state leaves the weights, and the reason") {
  const ScratchFolder scratch;
  const std::string path = copy_deepspeed_case(scratch, "megatron_tensor");
  const auto problem = [&](const std::string& removed) {
    remove_matching(path, removed);
    const ModelSource source = open_deepspeed_case(path);
    CHECK(!source.has_optimizer());
    CHECK(source.state());
    check_kind(source, "param", open_deepspeed_case(kDeepSpeed + "megatron_tensor/expected/weight"));
    return source.optimizer_problem();
  };
  CHECK(contains(problem("rank_2_mp_rank_01_optim"), "has 3 partitions, but there are files of 2"));
  CHECK(contains(problem("rank_0_mp_rank_01_optim"), "of data-parallel rank 0 is missing"));
  CHECK(contains(problem("rank_1_mp_rank_01_optim"), "of model-parallel rank 1 is missing"));
}

TEST_CASE("deepspeed: a left-over file of another run's rank is named") {
  const ScratchFolder scratch;
  const std::string path = copy_deepspeed_case(scratch, "neox_pipeline");
  const std::string left = path + "/bf16_zero_pp_rank_2_mp_rank_00_optim_states.pt";
  fs::copy_file(path + "/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt", left);
  const ModelSource source = open_deepspeed_case(path);
  CHECK(!source.has_optimizer());
  CHECK(contains(source.optimizer_problem(), cat(left, ": the file is of data-parallel rank 2, but ")));
  CHECK(contains(source.optimizer_problem(), "states 2 partitions; remove the file"));
}

TEST_CASE("deepspeed: optimizer files of other ranks are refused, because they do not round to the weights") {
  const ScratchFolder scratch;
  const auto shard = [](const std::string& folder, int data, int model) {
    return cat(folder, "/bf16_zero_pp_rank_", data, "_mp_rank_0", model, "_optim_states.pt");
  };
  for (const bool other_tensor_rank : {true, false}) {
    const std::string folder = copy_deepspeed_case(scratch, "megatron_tensor");
    const std::string golden = kDeepSpeed + "megatron_tensor/global_step2";
    const auto overwrite = fs::copy_options::overwrite_existing;
    if (other_tensor_rank) {
      fs::copy_file(shard(golden, 2, 1), shard(folder, 2, 0), overwrite);
    } else {
      fs::copy_file(shard(golden, 0, 0), shard(folder, 1, 0), overwrite);
      fs::copy_file(shard(golden, 1, 0), shard(folder, 0, 0), overwrite);
    }
    const ModelSource source = open_deepspeed_case(folder);
    CHECK(contains(error_of([&] { source.verify(); }, Exit::bad_data), "does not round to the weights in mp_rank_00"));
    // A rank that loads only a part of the model finds it, too.
    const std::string error = error_of(
        [&] {
          TestParams loaded(source.config());
          source.load_values(loaded.params);
        },
        Exit::bad_data);
    CHECK(contains(error, "does not round to the weights"));
  }
}

TEST_CASE("deepspeed: without ZeRO, fp32 weights in another order than the weights are dropped") {
  const ScratchFolder scratch;
  const std::string path = copy_deepspeed_case(scratch, "neox_gated") + "/mp_rank_01_model_states.pt";
  std::string bytes = read_file(path);
  // Change a bit in the first of rank 1's flattened fp32 weights.
  const ModelSource main = open_deepspeed_case(kDeepSpeed + "neox_gated/expected/main");
  const std::vector<float> row = elements_of(main, "param.embedding.tokens.weight", whole_slice({32, 16}));
  const std::string stored(reinterpret_cast<const char*>(&row[16 * 16]), 16 * sizeof(float));
  const std::size_t at = bytes.find(stored);
  REQUIRE(at != std::string::npos);
  bytes[at + 3] = static_cast<char>(bytes[at + 3] ^ 1);
  write_file_atomic(path, bytes);
  const ModelSource source = open_deepspeed_case(scratch / "copy");
  CHECK(!source.has_optimizer());
  CHECK(contains(source.optimizer_problem(), "do not round to the weights of 'sequential.0.word_embeddings.weight'"));
  check_kind(source, "param", open_deepspeed_case(kDeepSpeed + "neox_gated/expected/weight"));
}

TEST_CASE("deepspeed: a universal checkpoint that is damaged or merged in another way is refused") {
  const ScratchFolder scratch;
  const std::string golden = kDeepSpeed + "megatron_universal";
  const std::string path = scratch / "universal/global_step2_universal", matrix = "3.mlp.dense_h_to_4h.weight";
  const auto copy = [&] {
    fs::remove_all(scratch / "universal");
    fs::copy(golden, scratch / "universal", fs::copy_options::recursive);
  };
  const auto replace = [&](const std::string& file, const std::string& other) {
    copy();
    fs::copy_file(cat(path, "/zero/", other), cat(path, "/zero/", file), fs::copy_options::overwrite_existing);
    return error_of([&] { open_deepspeed_case(path); });
  };
  copy();
  CHECK(ends_with(open_deepspeed_case(scratch / "universal").folder(), "/global_step2_universal"));
  // Weights of another parameter
  CHECK(contains(replace(matrix + "/fp32.pt", "2.self_attention.query_key_value.weight/fp32.pt"),
                 "has shards of 1 tensor parallel ranks, but others have 2"));
  CHECK(contains(replace(matrix + "/fp32.pt", "2.mlp.dense_4h_to_h.weight/fp32.pt"), "but the model needs (64, 16)"));
  CHECK(contains(replace("3.input_layernorm.weight/fp32.pt", "3.mlp.dense_4h_to_h.weight/fp32.pt"), "shape"));
  CHECK(contains(replace(matrix + "/fp32.pt", "optimizer_state.pt"), "a way of merging tensor parallel ranks"));
  // Missing files
  copy();
  fs::remove(cat(path, "/zero/", matrix, "/fp32.pt"));
  CHECK(contains(error_of([&] { open_deepspeed_case(path); }), "dense_h_to_4h.weight/fp32.pt: the file is missing"));
  fs::remove_all(cat(path, "/zero/", matrix));
  CHECK(contains(error_of([&] { open_deepspeed_case(path); }), "'layers.1.mlp.up.weight' is missing"));
  copy();
  fs::remove(path + "/mp_rank_03_model_states.pt");
  fs::remove(path + "/mp_rank_02_model_states.pt");
  fs::remove(path + "/mp_rank_01_model_states.pt");
  CHECK(contains(error_of([&] { open_deepspeed_case(path); }),
                 "has shards of 1 tensor parallel ranks, but others have 2"));
  copy();
  fs::create_directories(path + "/zero/2.mlp.experts.weight");
  CHECK(contains(error_of([&] { open_deepspeed_case(path); }), "'2.mlp.experts.weight' is not a GPT parameter"));
  copy();
  fs::copy(path + "/zero/4.weight", path + "/zero/4.bias");
  CHECK(contains(error_of([&] { open_deepspeed_case(path); }), "4.bias' does not fit the model"));
  copy();
  write_file_atomic(path + "/zero_pp_rank_0_mp_rank_01_model_states.pt", "");
  CHECK(
      contains(error_of([&] { open_deepspeed_case(path); }), "was made from ZeRO-3 with tensor parallelism (zero_pp"));
  copy();
  fs::remove_all(path + "/zero");
  fs::create_directories(path + "/zero");
  CHECK(contains(error_of([&] { open_deepspeed_case(path); }), "has no parameters"));
  // Moments of another shape: the weights remain.
  copy();
  fs::copy_file(path + "/zero/3.mlp.dense_4h_to_h.weight/exp_avg.pt",
                path + "/zero/3.input_layernorm.weight/exp_avg.pt", fs::copy_options::overwrite_existing);
  CHECK(
      contains(open_deepspeed_case(path).optimizer_problem(), "input_layernorm.weight/exp_avg.pt: the tensor's shape"));
  // Moments of another parameter, or none: the weights remain.
  for (const bool is_missing : {false, true}) {
    copy();
    const std::string moment = cat(path, "/zero/", matrix, "/exp_avg.pt");
    fs::remove(moment);
    if (!is_missing) fs::copy_file(cat(path, "/zero/3.mlp.dense_4h_to_h.weight/exp_avg.pt"), moment);
    const ModelSource source = open_deepspeed_case(path);
    CHECK(!source.has_optimizer());
    CHECK(
        contains(source.optimizer_problem(), is_missing ? "exp_avg.pt: the file is missing" : "differ from those in"));
    check_kind(source, "param", open_deepspeed_case(golden + "/expected/main"));
  }
}

TEST_CASE("deepspeed: a universal checkpoint made from ZeRO-3 has flattened tensors, whose shapes must be stated") {
  const ScratchFolder scratch;
  const std::string path = scratch / "universal/global_step2_universal";
  const auto copy = [&] {
    fs::remove_all(scratch / "universal");
    fs::copy(kDeepSpeed + "megatron_zero3", scratch / "universal", fs::copy_options::recursive);
  };
  const std::string prefix = path + "/zero/language_model.encoder.layers.1.";
  copy();
  fs::copy_file(prefix + "mlp.dense_4h_to_h.weight/fp32.pt", prefix + "mlp.dense_h_to_4h.weight/fp32.pt",
                fs::copy_options::overwrite_existing);
  CHECK(
      contains(error_of([&] { open_deepspeed_case(path); }, Exit::bad_data),
               "dense_h_to_4h.weight/fp32.pt: the tensor of shape (512) is a flattened parameter, but param_shapes in "
               "the files *_model_states.pt states (64, 16)"));
  copy();
  fs::copy(path + "/zero/language_model.output_layer.weight", prefix + "mlp.dense_h_to_4h.bias");
  CHECK(contains(error_of([&] { open_deepspeed_case(path); }, Exit::bad_data), "does not state it"));
  copy();
  remove_matching(path, "zero_pp_rank_0_mp_rank_00_model_states.pt");
  CHECK(contains(error_of([&] { open_deepspeed_case(path); }, Exit::bad_data), "are missing; copy all files"));
}

TEST_CASE("deepspeed: of a pipeline without ZeRO, stages with other parameters leave the weights, and the reason") {
  const ScratchFolder scratch;
  const auto problem = [&](const std::string& name, const std::string& from, const std::string& to) {
    const std::string path = copy_deepspeed_case(scratch, name);
    fs::copy_file(cat(path, "/", from), cat(path, "/", to), fs::copy_options::overwrite_existing);
    const ModelSource source = open_deepspeed_case(path);
    CHECK(!source.has_optimizer());
    check_kind(source, "param", open_deepspeed_case(cat(kDeepSpeed, name, "/expected/main")));
    return source.optimizer_problem();
  };
  CHECK(contains(problem("megatron_stages", "mp_rank_00_model_states.pt", "mp_rank_01_model_states.pt"), "groups of"));
  CHECK(contains(problem("megatron_stages", "mp_rank_01_model_states.pt", "mp_rank_00_model_states.pt"), "only 12 af"));
  CHECK(contains(problem("neox_stages", "mp_rank_02_model_states.pt", "mp_rank_00_model_states.pt"), "no entry for"));
}

TEST_CASE("deepspeed: the tracker names the checkpoint of a folder") {
  const ScratchFolder scratch;
  copy_deepspeed_case(scratch, "megatron_plain");
  const std::string folder = scratch / "copy";
  fs::create_directories(folder + "/global_step10");
  fs::copy(folder + "/global_step2/mp_rank_00_model_states.pt", folder + "/global_step10");
  CHECK(ends_with(open_deepspeed_case(folder).folder(), "/global_step2"));
  for (const std::string& text : {std::string("global_step3\n"), std::string("../copy/global_step2"),
                                  "global_step2" + std::string(3, '\0'), std::string(".."), std::string()}) {
    write_file_atomic(folder + "/latest", text);
    CHECK(ends_with(open_deepspeed_case(folder).folder(), "/global_step10"));
  }
  fs::remove(folder + "/latest");
  CHECK(ends_with(open_deepspeed_case(folder).folder(), "/global_step10"));
  fs::create_symlink("/dev/null", folder + "/latest");
  CHECK(ends_with(open_deepspeed_case(folder).folder(), "/global_step10"));
}

TEST_CASE("deepspeed: without configs, GPT-NeoX's defaults are assumed and said") {
  const ScratchFolder scratch;
  const std::string path = copy_deepspeed_case(scratch, "neox_pipeline");
  fs::remove_all(path + "/configs");
  const ModelSource source = open_deepspeed_case(path);
  CHECK(!source.config().parallel_residual);
  CHECK(source.config().rotary.percent == 1);
  CHECK(source.config().num_heads == 4);
  // Without the parallel residual, a bias is the same on all ranks, and is added once.
  const ModelSource expected = open_deepspeed_case(kDeepSpeed + "neox_pipeline/expected/main");
  const Slice whole = whole_slice({16});
  const std::vector<float> once = elements_of(source, "param.layers.1.mlp.down.bias", whole);
  std::vector<float> sum = elements_of(expected, "param.layers.1.mlp.down.bias", whole);
  for (std::size_t i = 0; i < sum.size(); ++i) CHECK(2 * once[i] == sum[i]);
}

TEST_CASE("deepspeed: settings that mtl does not support are refused by name") {
  const ScratchFolder scratch;
  const auto error = [&](const std::string& from, const std::string& to, const std::string& name = "neox_pipeline") {
    const std::string path = copy_deepspeed_case(scratch, name);
    edit_config(path, from, to);
    return error_of([&] { open_deepspeed_case(path); });
  };
  const std::string parallel = "\"gpt-j-residual\": true";
  CHECK(contains(error(parallel, parallel + ", \"gpt-j-tied\": true"), "setting gpt_j_tied is 'true'"));
  CHECK(contains(error("[[\"flash\"], 2]", "[[\"local\"], 2]"), "layers of kind 'local'"));
  CHECK(contains(error("\"rotary\"", "\"alibi\""), "setting pos_emb is 'alibi'"));
  CHECK(contains(error("\"layernorm\"", "\"scalenorm\""), "setting norm is 'scalenorm'"));
  CHECK(contains(error("\"layernorm\"", "\"rmsnorm\""), "but the norms have biases"));
  CHECK(contains(error("\"num-attention-heads\": 4", "\"num-attention-heads\": 3"), "does not divide"));
  CHECK(contains(error("\"num-layers\": 2", "\"num-layers\": 3"), "num_layers is 3, but the tensors have 2") !=
        std::string::npos);
  CHECK(contains(error("\"rotary-pct\": 0.5", "\"rotary-pct\": [0.5]"), "must be a number"));
  CHECK(contains(error("activation: swiglu", "activation: mish", "neox_sequential"), "activation is 'mish'") !=
        std::string::npos);
  CHECK(contains(error("activation: swiglu", "activation: gelu", "neox_sequential"), "first linear has 64 outputs"));
  CHECK(contains(error("num_kv_heads: 2", "num_kv_heads: 4", "neox_sequential"), "has 32 outputs, which do not fit"));
  CHECK(contains(error(parallel, "\"gpt-j-residual\""), "model.yml: line "));
  for (const char* setting : {"opt_pos_emb_offset: 2", "train_impl: rm", "sparsity: all", "num-unique-layers: 1",
                              "gptj_residual: true", "geglu: true", "openai_gelu: true", "use_mup: yes"})
    CHECK(contains(error("activation: swiglu", cat("activation: swiglu\n", setting), "neox_sequential"), "setting "));
}

TEST_CASE("deepspeed: settings that mtl does not know are listed in one note") {
  const auto notes_of = [](const std::string& settings, bool has_gate_matrix = false) {
    const std::string model = read_file(kDeepSpeed + "neox_sequential/global_step2/configs/model.yml");
    NeoxSettings read = parse_yaml_settings(cat(model, settings, "\n"));
    if (has_gate_matrix) read.erase("activation");
    const NeoxShapes shapes = {.common = {.layers = 2,
                                          .vocabulary_rows = 32,
                                          .hidden = 16,
                                          .up_rows = has_gate_matrix ? 32 : 64,
                                          .has_norm_bias = false,
                                          .has_head = true,
                                          .bias = {.qkv = false, .out = false, .mlp = false}},
                               .qkv_rows = 32,
                               .down_columns = 32,
                               .has_gate_matrix = has_gate_matrix};
    std::vector<std::string> notes;
    neox_config(read, shapes, {}, notes);
    return notes;
  };
  CHECK(notes_of("train_impl: dpo\nopt-pos-emb-offset: 0\nzero_stage: 1\nuse_mup: False\nnum_unique_layers: null")
            .empty());
  const std::vector<std::string> unknown = notes_of("rotary_pctt: 0.5\nembedding-norm: true");
  REQUIRE(unknown.size() == 1);
  CHECK(ends_with(unknown[0], "(check their spelling): embedding_norm, rotary_pctt"));
  std::string many;
  for (int i = 10; i < 35; ++i) many += cat("setting_", i, ": 1\n");
  CHECK(ends_with(notes_of(many).at(0), "setting_28, setting_29 and 5 more"));
  const std::vector<std::string> assumed = notes_of("", true);
  REQUIRE(assumed.size() == 1);
  CHECK(contains(assumed[0], "mtl assumes silu"));
}

TEST_CASE("deepspeed: partitions of ZeRO-3 and experts are refused, with the tool") {
  const ScratchFolder scratch;
  const auto error = [&](const std::string& name) {
    const std::string path = copy_deepspeed_case(scratch, "megatron_plain");
    write_file_atomic(path + "/" + name, "");
    return error_of([&] { open_deepspeed_case(path); });
  };
  CHECK(contains(error("zero_pp_rank_0_mp_rank_00_model_states.pt"), "zero_to_fp32.py"));
  CHECK(contains(error("layer_1_expert_0_mp_rank_00_model_states.pt"), "mixture of experts"));
}

TEST_CASE("deepspeed: missing and foreign files are named") {
  const ScratchFolder scratch;
  const auto error = [&](const std::string& name, const std::string& removed) {
    const std::string path = copy_deepspeed_case(scratch, name);
    remove_matching(path, removed);
    return error_of([&] { open_deepspeed_case(path); });
  };
  CHECK(contains(error("neox_pipeline", "layer_02-"),
                 "files of 1 layer; copy all files of the checkpoint, such as layer_02-*"));
  CHECK(contains(error("neox_pipeline", "layer_03-"),
                 "files of 1 layer; copy all files of the checkpoint, such as layer_03-*"));
  for (const char* name : {"layer_03-", "layer_04-"}) {  // the first block's number is not known
    const std::string message = error("megatron_pipeline", name);
    CHECK(contains(message, "files of 1 layer; copy all files of the checkpoint"));
    CHECK(!contains(message, "such as"));
  }
  CHECK(contains(error("neox_pipeline", "layer_05-"), "'final_norm.weight' is missing"));
  CHECK(contains(error("neox_pipeline", "layer_02-model_01"), "module 2 has 1 files"));
  CHECK(contains(error("neox_pipeline", "mp_rank_01_model"), "model-parallel rank 1 is missing"));
  CHECK(contains(error("megatron_tensor", "mp_rank_00_model"), "model-parallel rank 0 is missing"));
  CHECK(contains(error("megatron_tensor", "mp_rank_01_model"),
                 "written by 2 tensor parallel ranks, but there are files of 1; copy all files of the checkpoint, such "
                 "as those with mp_rank_01 in their names"));
  for (const char* name : {"neox_stages", "neox_pipeline"}) {  // it would be the run's state, of iteration 0
    const std::string path = copy_deepspeed_case(scratch, name);
    fs::copy_file(path + "/layer_02-model_00-model_states.pt", path + "/mp_rank_00_model_states.pt",
                  fs::copy_options::overwrite_existing);
    CHECK(contains(error_of([&] { open_deepspeed_case(path); }),
                   "mp_rank_00_model_states.pt: the file has no entry 'module', so it is not a DeepSpeed checkpoint"));
  }
  const std::string path = copy_deepspeed_case(scratch, "megatron_tensor");
  std::string bytes = read_file(path + "/mp_rank_01_model_states.pt");
  write_file_atomic(path + "/mp_rank_01_model_states.pt", bytes.substr(0, bytes.size() / 2));
  CHECK(contains(error_of([&] { open_deepspeed_case(path); }), "mp_rank_01_model_states.pt"));
}

TEST_CASE("yaml settings: both styles, and what is refused") {
  const auto block = parse_yaml_settings(
      "# comment\n---\npos-emb: \"rotary\"  # kind\nrotary_pct: .25\nlist:\n- a\n- [b, c]\nnested:\n  lr: 1\nlast: 'x "
      "# y'\n");
  CHECK(block.size() == 5);
  CHECK(block.at("pos_emb").text == "rotary");
  CHECK(block.at("pos_emb").is_quoted);
  CHECK(block.at("rotary_pct").text == ".25");
  CHECK(block.at("list").is_nested);
  CHECK(block.at("last").text == "x # y");
  const auto flow =
      parse_yaml_settings("# c\n{ \"a-b\": 1, 'c': {\"d\": [\"}\", 2],}, e: true, # f\n \"g\": null\n}\n");
  CHECK(flow.size() == 4);
  CHECK(flow.at("a_b").text == "1");
  CHECK(flow.at("c").is_nested);
  CHECK(flow.at("e").text == "true");
  const auto texts = [](const char* text) {
    std::string out;
    for (const auto& [name, value] : parse_yaml_settings(text))
      out += cat(name, "=", value.text, value.is_quoted ? " quoted" : "", value.is_nested ? " nested; " : "; ");
    return out;
  };
  // Comments begin after a blank, quotes hide them, and a backslash hides a quote only inside double quotes.
  CHECK(texts("a: x#y\nb: x\t# y\nc: \"x \\\" # y\"\nd: 'x \\' # y\n%YAML 1.1\ne:\n\t- 1\nf:\n-\n") ==
        "a=x#y; b=x; c=x \\\" # y quoted; d=x \\ quoted; e=\t- 1\n nested; f=-\n nested; ");
  CHECK(texts("{a: \"x \\\" y\", b: ['x\\', \"\\\"]\"], c: {'d': ']'}, e: 1}") ==
        "a=x \\\" y quoted; b=['x\\', \"\\\"]\"] nested; c={'d': ']'} nested; e=1; ");
  for (const char* bad : {"{", "{a: 1, ", "{a", "{a: 1\nb: 2}", "{a: [1} , 'b", "{a: {", "{\"a\": 1", "{\"a\" 1}",
                          "{\"a: 1}", "{\"a\": [1}", "{} x", "  a: 1", "no setting", "a: 1\n b: 2"}) {
    CAPTURE(bad);
    CHECK(error_of([&] { parse_yaml_settings(bad); }) != "");
  }
}
