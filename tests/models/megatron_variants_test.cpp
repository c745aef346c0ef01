// Variants of golden checkpoints of Megatron-LM, made by editing pickles: refused for the right reason, or read.
#include <doctest/doctest.h>

#include "ckpt/open_model.h"
#include "tests/ckpt/ckpt_fixtures.h"
#include "tests/ckpt/file_edits.h"

using namespace mtl;
using namespace mtl::test;
using namespace std::string_literals;

TEST_CASE("megatron: variants of a checkpoint are refused for the right reason, or read") {
  struct Variant {
    std::string name, expected;
    std::vector<PickleEdit> edits;
  };
  const std::string core = "megatron_ckpt/mcore_te_tp2pp1", legacy = "megatron_ckpt/legacy_tp2pp2",
                    dist = "dist_ckpt/core012_llama_dp3";
  const std::string bias = "decoder.layers.0.self_attention.linear_proj.bias",
                    norm = "decoder.layers.0.self_attention.linear_qkv.layer_norm_bias",
                    tokens = "embedding.word_embeddings.weight";
  const PickleEdit real_steps{"common.pt", "step", "G@>\0\0\0\0\0\0"s, "G@9\0\0\0\0\0\0"s},
      whole_steps{"common.pt", "step", "G@>\0\0\0\0\0\0"s, "K\x19"};
  const std::string chunks = "megatron_chunks", own = pickle_text("decoder.layers.0.input_layernorm.bias"),
                    first = pickle_text("embedding.position_embeddings.weight"),
                    last = pickle_text("decoder.final_layernorm.bias"), flat = "distrib_optim/gpt_fp32";
  const Variant variants[] = {
      {chunks, "belongs to the first of 2 pipeline stages", {{"mp_rank_00_000", "model1", own, first}}},
      {chunks, "belongs to the first of 2 pipeline stages", {{"mp_rank_00_001", "model0", own, first}}},
      {chunks, "belongs to the last of 2 pipeline stages", {{"mp_rank_00_000", "model1", own, last}}},
      {chunks, "belongs to the last of 2 pipeline stages", {{"mp_rank_00_001", "model0", own, last}}},
      {core, "no state -", {}},
      {core,
       "differs from its copy on tensor parallel rank 0; use files of the same checkpoint",
       {{"mp_rank_01/", bias, "", "x"}, {"mp_rank_01/", norm, "", bias}, {"mp_rank_01/", "x", "", norm}}},
      {core,
       "F16, BF16, F32 and F64; save the checkpoint in one",
       {{"mp_rank", tokens, "HalfStorage", "ShortStorage"}}},
      {core,
       "but by rank 0 as F16; use files of the same checkpoint",
       {{"mp_rank_01/", tokens, "HalfStorage", "BFloat16Storage"}}},
      {core, "has shape (32), but the model needs (64); use files", {{"mp_rank_00/", bias, "K@\x85", "K\x20\x85"}}},
      {core, "does not fit the model", {{"mp_rank", "learned_absolute", "", "rope"}}},
      {legacy, "no state -", {}},
      {legacy,
       "differs from the token embedding",
       {{"mp_rank_01_001", "word_embeddings_for_head", "K@K\1\x86", "K\1K@\x86"}}},
      {flat, "30 240 0 25 5 +", {{"model_optim", "step", "G@>\0\0\0\0\0\0"s, "G@9\0\0\0\0\0\0"s}}},
      {dist, "30 240 0 30 0 +", {}},
      {dist, "30 240 0 25 5 +", {real_steps, real_steps}},
      {dist, "30 240 0 25 5 +", {whole_steps, whole_steps}},
      {dist, "30 240 0 30 0 +", {real_steps}},
      {dist, "30 240 5 30 0 +", {{"common.pt", "consumed_valid_samples", "K\0"s, "K\5"}}},
      {dist, "30 240 0 30 0 +", {{"common.pt", "checkpoint_version", "G@\x08\0\0\0\0\0\0"s, "N"}}},
      {dist, "checkpoint_version is 4,", {{"common.pt", "checkpoint_version", "G@\x08\0\0\0\0\0\0"s, "K\4"}}},
      {dist, "65: ", {{"common.pt", "args", "", "arguments"}}},
  };
  const ScratchFolder scratch;
  for (const Variant& variant : variants) {
    CAPTURE(variant.name);
    CAPTURE(variant.expected);
    const std::string path = scratch / "copy";
    fs::remove_all(path);
    fs::copy("golden/" + variant.name, path, fs::copy_options::recursive);
    for (const PickleEdit& edit : variant.edits) apply_edit(path, edit);
    const std::string found = outcome([&] {
      Console console = quiet_console();
      return open_model(path, console, {.vocab_size = variant.name == dist || variant.name == flat ? 45 : 512});
    });
    CAPTURE(found);
    CHECK(contains(found, variant.expected));
  }
}
