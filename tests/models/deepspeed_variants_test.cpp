// Variants of the golden checkpoints of DeepSpeed, made by editing pickles: refused for the right reason, or read.
#include <doctest/doctest.h>

#include "deepspeed_fixtures.h"
#include "tests/ckpt/file_edits.h"

using namespace mtl;
using namespace mtl::test;
using namespace std::string_literals;

namespace {

struct Variant {
  std::string name, expected;
  std::vector<PickleEdit> edits;
};

std::string outcome_of(const std::string& path) {
  return outcome([&] { return open_deepspeed_case(path); });
}

void check_variants(const std::vector<Variant>& variants) {
  const ScratchFolder scratch;
  for (const Variant& variant : variants) {
    CAPTURE(variant.name);
    CAPTURE(variant.expected);
    copy_deepspeed_case(scratch, variant.name);
    const std::string suffix = contains(variant.name, "universal") ? "_universal" : "";
    const std::string checkpoint = cat(scratch / "copy", "/global_step2", suffix);
    for (const PickleEdit& edit : variant.edits) apply_edit(checkpoint, edit);
    const std::string found = outcome_of(checkpoint);
    CAPTURE(found);
    CHECK(contains(found, variant.expected));
  }
}

const std::string kModel = "_model_states.pt", kOptim = "_optim_states.pt", kMinus1 = "J\xff\xff\xff\xff",
                  kMost = "\x8a\7\0\0\0\0\0\0\x20"s, kAbove = "\x8a\7\1\0\0\0\0\0\x20"s;  // 2^53 and one more

}  // namespace

TEST_CASE("deepspeed: variants of the training state are refused for the right reason, or read") {
  check_variants({
      {"megatron_llama", "2 8 0 2 0 +", {}},
      {"megatron_llama", "3 8 0 2 1 +", {{kModel, "iteration", "K\2", "K\3"}}},
      {"megatron_llama", "the optimizer has taken 2 steps in 1 iter", {{kModel, "iteration", "K\2", "K\1"}}},
      {"megatron_llama", "2 8 0 2 0 +", {{kModel, "iteration", "K\2", "N"}}},
      {"megatron_llama", "2 8 0 2 0 +", {{kModel, "iteration", "", "x"}}},
      {"megatron_llama",
       "no state -the checkpoint has no iteration",
       {{kModel, "iteration", "", "x"}, {kModel, "global_steps", "", "y"}}},
      {"megatron_llama", "2 8 5 2 0 +", {{kModel, "consumed_valid_samples", "K\0"s, "K\5"}}},
      {"megatron_llama", "number of samples is -1", {{kModel, "consumed_train_samples", "K\x08", kMinus1}}},
      {"megatron_llama", "2 0 0 2 0 +", {{kModel, "consumed_train_samples", "K\x08", "N"}}},
      {"megatron_llama", "2 4294967296 0 2 0", {{kModel, "consumed_train_samples", "K\x08", "\x8a\5\0\0\0\0\1"s}}},
      {"neox_pipeline", "3 8 0 2 1 +", {{kModel, "iteration", "K\2", "K\3"}}},
      {"megatron_universal", "2 8 0 1 1 +", {{kModel, "skipped_steps", "K\0"s, "K\1"}}},
      {"megatron_universal", "taken -1 steps in 2 iterations", {{kModel, "skipped_steps", "K\0"s, "K\3"}}},
      {"megatron_llama",
       "number of samples is 9007199254740993",
       {{kModel, "consumed_train_samples", "K\x08", kAbove}}},
      {"megatron_llama", "2 9007199254740992 0 2 0 +", {{kModel, "consumed_train_samples", "K\x08", kMost}}},
      // The steps of the groups, and no steps if the optimizer state is refused
      {"megatron_llama",
       "4 8 0 3 1 +",
       {{kModel, "iteration", "K\2", "K\4"}, {kModel, "amsgrad", "\x89", "K\3"}, {kModel, "amsgrad", "", "step"}}},
      {"megatron_tensor",
       "4 8 0 3 1 +",
       {{kModel, "iteration", "K\2", "K\4"}, {kOptim, "amsgrad", "\x89", "K\3"}, {kOptim, "amsgrad", "", "step"}}},
      {"megatron_llama",
       "4 8 0 3 1 +",
       {{kModel, "iteration", "K\2", "K\4"},
        {kModel, "amsgrad", "\x89", "G\x40\x08\0\0\0\0\0\0"s},
        {kModel, "amsgrad", "", "step"}}},
      // An absurd number of steps, 1e16, is none.
      {"megatron_llama",
       "2 8 0 2 0 +",
       {{kModel, "amsgrad", "\x89", "G\x43\x41\xc3\x79\x37\xe0\x80\0"s}, {kModel, "amsgrad", "", "step"}}},
      {"megatron_llama",
       "3 8 0 3 0 -",
       {{kModel, "iteration", "K\2", "K\3"}, {kModel, "params", "K\x0cK\x0dK\x0e", "K\x0cK\x0dN"}}},
  });
}

TEST_CASE("deepspeed: variants of the optimizer state are refused for the right reason") {
  check_variants({
      {"megatron_llama", " -", {{kModel, "params", "K\0K\1"s, "NK\1"}}},
      {"megatron_llama", "numbers its parameters by", {{kModel, "params", "K\0K\1"s, "NK\1"}}},
      {"megatron_llama", "is not that of torch's Adam", {{kModel, "state", "", "states"}}},
      {"megatron_llama", "is not that of torch's Adam", {{kModel, "param_groups", "", "groups"}}},
      {"megatron_llama", "has no entry for parameter 31", {{kModel, "params", "K\0K\1"s, "K\0K\x1f"s}}},
      {"megatron_tensor", "has no 'single_partition_of_fp", {{kOptim, "single_partition_of_fp32_groups", "", "x"}}},
      {"neox_sequential", " as partition_count", {{kOptim, "partition_count", "(K\2K\2e", "(K\0K\2e"s}}},
      {"neox_sequential", " as a padding", {{kOptim, "group_paddings", "(K\0"s, "(" + kMinus1}}},
      {"megatron_tensor", " elements in its partitions", {{"rank_2_mp_rank_00_opt", "group_paddings", "K\4", "K\1"}}},
      {"megatron_tensor", " elements in its partitions", {{"rank_2_mp_rank_00_opt", "group_paddings", "K\4", "K\5"}}},
      {"megatron_tensor", "other than one flat parameter", {{kOptim, "params", "K\0a"s, "(K\0K\1e"s}}},
      {"megatron_tensor", "other than one flat parameter", {{kOptim, "params", "K\0a"s, "Na"}}},
      {"megatron_tensor", "has 102 elements in exp_avg for a part", {{kOptim, "params", "K\0a"s, "K\1a"}}},
      {"megatron_bf16_stages", "does not follow the one bef", {{"rank_0_mp_rank_00_opt", "start", "K\0"s, "K\1"}}},
      {"megatron_bf16_stages", "does not follow the one bef", {{"rank_0_mp_rank_00_opt", "start", "K\0"s, "N"}}},
      {"megatron_bf16_stages", "does not follow", {{"rank_0_mp_rank_00_opt", "numel", "M\0\2"s, kMinus1}}},
      {"megatron_bf16_stages", "does not follow", {{"rank_0_mp_rank_00_opt", "numel", "M\0\2"s, "N"}}},
      {"neox_sequential", " as a padding", {{kOptim, "group_paddings", "(K\0"s, "(N"}}},
      {"megatron_tensor", "as partition_count", {{kOptim, "partition_count", "(K\3K\3e"s, "(NK\3e"}}},
      {"megatron_tensor",
       "has neither param_shapes nor",
       {{kModel, "param_shapes", "", "x"}, {kOptim, "param_slice_mappings", "", "x"}}},
      {"neox_sequential", "'exp_avg'", {{kOptim, "exp_avg", "", "x"}}},
      {"neox_sequential", "'exp_avg_sq'", {{kOptim, "exp_avg_sq", "", "x"}}},
      {"neox_sequential", "with another shape than", {{kModel, "param_shapes", "K\x20K\x10", "K\x1fK\x10"}}},
      {"neox_sequential", "param_shapes is not a shape", {{kModel, "param_shapes", "K\x20K\x10", "NK\x10"}}},
      {"neox_sequential",
       "param_shapes is not a shape; the file is damaged",
       {{kModel, "param_shapes", "K\x20", kMinus1}}},
  });
}

TEST_CASE("deepspeed: variants of the weights are refused for the right reason, or read") {
  const std::string norm = "language_model.encoder.final_layernorm.bias",
                    norm1 = "language_model.encoder.layers.1.input_layernorm.weight",
                    embedding = "language_model.embedding.position_embeddings.weight",
                    neox_norm = "sequential.5.norm.scale";
  std::vector<Variant> variants = {
      {"megatron_llama", "2: 1 problem", {{kModel, "num_attention_heads", "", "heads"}}},
      {"megatron_plain",
       "F16, BF16, F32 and F64; call float()",
       {{kModel, "module", "torch\nFloatStorage", "torch\nIntStorage"}}},
      {"megatron_plain",
       "too few for a model with 10,000 layers; copy all files",
       {{kModel, norm1, "", "encoder.layers.9999.input_layernorm.weight"}}},
      {"megatron_llama",
       "is missing in the file of another rank; copy all files of the checkpoint again",
       {{"mp_rank_00", norm1, "", "language_model.encoder.layers.1.input_layernorm.bias"}}},
      {"megatron_llama", "is stored by 1 of 2 tensor", {{"mp_rank_01", norm1, "", "1.attention.bias"}}},
      {"megatron_llama", "has another shape than on tensor", {{"mp_rank_01", norm1, "K\x10\x85", "K\x08\x85"}}},
      {"megatron_tensor",
       "the position embedding differs",
       {{kOptim, "", "", ""}, {"mp_rank_01", embedding, "M\0\1"s, "M\1\1"}}},
      {"neox_sequential", "2 8 0 2 0 +", {{kModel, neox_norm, "", "module." + neox_norm}}},
      {"neox_sequential", "supports; use a model without it", {{kModel, neox_norm, "", "sequential.x.norm.scale"}}},
      {"neox_sequential", "is not a GPT parameter", {{kModel, neox_norm, "", "sequential.5.norm.scal"}}},
      {"neox_sequential", "the file has no entry 'module'", {{kModel, "module", "", "modul"}}},
      {"neox_sequential",
       "the entry 'module' is ",
       {{kModel, "module", "", "modul"}, {kModel, "global_steps", "", "module"}}},
      {"neox_sequential", "is not a GPT parameter", {{kModel, neox_norm, "", "sequential..norm.scale"}}},
      {"neox_sequential", "is not a GPT parameter", {{kModel, neox_norm, "", "sequential.123456.norm.scale"}}},
  };
  for (const char* buffer : {"attention.bias", "attention.masked_bias", "rotary_emb.inv_freq", "mlp._extra_state"})
    variants.push_back({"megatron_plain", "tensor 'final_norm.bias' is missing", {{kModel, norm, "", buffer}}});
  const std::pair<const char*, const char*> foreign[] = {{"word_embeddings.norm.weight", "norm of the embeddings"},
                                                         {"attention.rpe", "relative position bias"},
                                                         {"0.qk_layernorm.weight", "norm of whole queries"},
                                                         {"model.norm.weight", "a transformers model"},
                                                         {"transformer.h.0.ln_1.weight", "a transformers model"},
                                                         {"gpt_neox.final_layer_norm.bias", "a transformers model"},
                                                         {"other.bias", "is not a GPT parameter"}};
  for (const auto& [name, reason] : foreign) variants.push_back({"megatron_plain", reason, {{kModel, norm, "", name}}});
  check_variants(variants);
}

TEST_CASE("deepspeed: variants of a universal checkpoint are refused for the right reason") {
  const std::string up = "3.mlp.dense_h_to_4h.weight/", qkv = "2.self_attention.query_key_value.weight";
  check_variants({
      {"megatron_universal", "a way of merging", {{up + "fp32", "cat_dim", "K\0"s, "K\2"}}},
      {"megatron_universal", "a way of merging", {{up + "fp32", "cat_dim", "K\0"s, kMinus1}}},
      {"megatron_universal", "a way of merging", {{up + "fp32", "param_n_sub_params", "K\2", "K\3"}}},
      {"megatron_universal", "a way of merging", {{up + "fp32", "param_n_sub_params", "K\2", "N"}}},
      {"megatron_universal", "a way of merging", {{up + "fp32", "cat_dim", "K\0"s, "N"}}},
      {"megatron_universal", "a way of merging", {{up + "fp32", "cat_dim", "", "axis"}}},
      {"megatron_universal", "a way of merging", {{up + "fp32", "param_n_sub_params", "", "vocab_tensor"}}},
      {"megatron_universal", "a way of merging", {{up + "fp32", "param_n_sub_params", "K\2", "\x89"}}},
      {"megatron_universal", "a way of merging", {{up + "fp32", "param", "", "vocab_tensor"}}},
      {"megatron_universal", "not a contiguous fp32", {{up + "fp32", "param", "FloatStorage", "IntStorage"}}},
      {"megatron_universal", "does not consist of shards", {{"mp_rank_00", qkv, "K\x10K\x10\x86", "K\x0cK\x10\x86"}}},
      {"megatron_universal", "does not consist of shards", {{"mp_rank_00", qkv, "K\x10K\x10\x86", "K\0K\x10\x86"s}}},
      {"megatron_universal", "does not consist of shards", {{"mp_rank_00", qkv, "K\x10K\x10\x86", "K\x10\x85"}}},
      {"megatron_universal", "does not state '2.self", {{"mp_rank_00", qkv, "", "x"}, {"mp_rank_01", qkv, "", "x"}}},
      {"megatron_universal",
       "differ from those in fp32.pt",
       {{up + "exp_avg.", "param_n_sub_params", "K\2", "\x88"},
        {up + "exp_avg.", "param_n_sub_params", "", "vocab_tensor"}}},
  });
}

TEST_CASE("deepspeed: files and folders by other names are found, ignored or refused") {
  const ScratchFolder scratch;
  std::string path;
  const auto copy = [&](const std::string& name) { path = copy_deepspeed_case(scratch, name) + "/"; };
  const auto rename = [&](const std::string& from, const std::string& to) { fs::rename(path + from, path + to); };
  copy("megatron_pipeline");  // without tensor parallelism
  for (const char* number : {"01", "03", "04", "06"})
    rename(cat("layer_", number, "-model_00-model_states.pt"), cat("layer_", number, "-model_states.pt"));
  write_file_atomic(path + "mp_rank_123456_model_states.pt", "");
  write_file_atomic(path + "layer_02-model_states.pt.old", "");
  CHECK(outcome_of(path) == "2 8 0 2 0 +");
  rename("layer_04-model_states.pt", "layer_05-model_states.pt");
  CHECK(contains(outcome_of(path), "module 4 are missing"));
  copy("neox_pipeline");
  remove_matching(path, "layer_");
  CHECK(contains(outcome_of(path), "the entry 'module' is None instead of a dict"));
  copy("neox_pipeline");
  fs::remove(path + "mp_rank_03_model_states.pt");
  CHECK(contains(outcome_of(path), "not a multiple of the 2 tensor parallel ranks"));
  copy("neox_pipeline");  // the first module of a stage, in buffer_names and param_shapes
  fs::copy_file(path + "mp_rank_02_model_states.pt", path + "mp_rank_00_model_states.pt",
                fs::copy_options::overwrite_existing);
  CHECK(contains(outcome_of(path), "begins with the pipeline's module"));
  copy("megatron_tensor");
  fs::copy_file(path + "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt",
                path + "zero_pp_rank_0_mp_rank_00_optim_states.pt");
  CHECK(contains(outcome_of(path), "two files hold the optimizer state of the same rank"));
  for (const char* name : {"expert_0.pt", "expp_rank_0_mp_rank_00_optim_states.pt"}) {
    copy("megatron_plain");
    write_file_atomic(path + name, "");
    CHECK(contains(outcome_of(path), "mixture of experts"));
  }
  for (const char* name : {"model.yaml", "model.json"}) {
    copy("neox_sequential");
    rename("configs/model.yml", cat("configs/", name));
    write_file_atomic(path + "configs/notes.txt", "no setting");
    CHECK(open_deepspeed_case(path).config().norm_eps == 1e-6);
  }
  // The tracker
  copy("megatron_plain");
  fs::copy(path, scratch / "copy/global_step10", fs::copy_options::recursive);
  write_file_atomic(scratch / "copy/latest", "global_step2" + std::string(100, '\n'));
  CHECK(ends_with(open_deepspeed_case(scratch / "copy").folder(), "/global_step2"));
  fs::remove(scratch / "copy/latest");
  fs::create_directories(scratch / "copy/latest");
  CHECK(ends_with(open_deepspeed_case(scratch / "copy").folder(), "/global_step10"));
}

TEST_CASE("deepspeed: a tied output layer stores the embeddings again") {
  const ScratchFolder scratch;
  const std::string path = copy_deepspeed_case(scratch, "megatron_pipeline") + "/";
  fs::copy_file(path + "layer_01-model_00-model_states.pt", path + "layer_07-model_00-model_states.pt");
  CHECK(outcome_of(path) == "2 8 0 2 0 +");
  check_kind(open_deepspeed_case(path), "param", open_deepspeed_case(kDeepSpeed + "megatron_pipeline/expected/main"));
  fs::copy_file(kDeepSpeed + "neox_pipeline/global_step2/layer_00-model_00-model_states.pt",
                path + "layer_07-model_00-model_states.pt", fs::copy_options::overwrite_existing);
  CHECK(contains(outcome_of(path), "differs from the token embedding"));
}

TEST_CASE("deepspeed: an argument of recent releases does not change the rows of grouped queries") {
  const ScratchFolder scratch;
  const std::string path = copy_deepspeed_case(scratch, "megatron_llama");
  apply_edit(path, {kModel, "deepspeed", "", "ds_sequence_parallel_fpdt"});
  check_kind(open_deepspeed_case(path), "param", open_deepspeed_case(kDeepSpeed + "megatron_llama/expected/main"));
}
