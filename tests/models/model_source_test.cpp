// Opening a model: the vocabulary's padding, other models in the same folder, and names of other programs' files.
#include "models/model_source.h"
#include "ckpt/open_model.h"

#include <doctest/doctest.h>

#include "ckpt/model_formats.h"
#include "models/foreign_formats.h"
#include "tests/ckpt/ckpt_fixtures.h"

using namespace mtl;
using namespace mtl::test;

namespace {

void make_files(const std::string& folder, const std::vector<std::string>& names) {
  fs::remove_all(folder);
  make_directories(folder);
  for (const std::string& name : names) {
    make_directories(parent_folder(cat(folder, "/", name)));
    write_text(cat(folder, "/", name), "");
  }
}

}  // namespace

TEST_CASE("model source: padding rows stay without a vocabulary size, or with one that the model does not have") {
  Console console = quiet_console();
  ModelSource source = open_model("golden/megatron_ckpt/mcore_local_tp1pp1", console, {.num_attention_heads = 4});
  const auto trim = [&](std::optional<std::int64_t> tokens) {
    return stderr_of([&] { source.trim_vocabulary(tokens, console); });
  };
  CHECK(contains(trim({}), "mtl keeps all 600 rows of the token embedding"));
  CHECK(trim(601).empty());
  CHECK(source.has_padded_vocabulary());
  CHECK(source.config().vocab_size == 600);
  CHECK(trim(600).empty());
  CHECK_FALSE(source.has_padded_vocabulary());
  trim(100);
  CHECK(source.config().vocab_size == 600);
  CHECK(source.find_tensor("param.embedding.tokens.weight")->shape[0] == 600);
}

TEST_CASE("model source: --num-attention-heads must be the model's, unless the caller compares it") {
  Console console = quiet_console();
  const std::string path = "golden/gpt2_model/a";
  CHECK(contains(error_of([&] { open_model(path, console, {.num_attention_heads = 3}); }, Exit::usage),
                 "--num-attention-heads 3"));
  CHECK(open_model(path, console, {.num_attention_heads = 3, .may_differ = true}).config().num_heads == 4);
  CHECK(open_model(path, console, {.num_attention_heads = 4}).config().num_heads == 4);
  CHECK(contains(error_of([&] { open_model(path, console, {.hf_config = path}); }, Exit::usage), "--hf-config"));
}

TEST_CASE("model source: a second model in the folder is a warning that names both") {
  const ScratchFolder scratch;
  const std::string folder = scratch / "m";
  struct Case {
    std::vector<std::string> files;
    const char* model;     // a subfolder, or "" for the folder itself
    const char* expected;  // what follows "mtl reads"
  };
  const std::string rank = "mp_rank_00/model_optim_rng.pt";
  const Case cases[] = {
      {{"config.json", "model.safetensors"}, "", ""},
      {{"config.json", "global_step3/mp_rank_00_model_states.pt"}, "", ""},  // opening it says that it has no weights
      {{"config.json", "pytorch_model.bin", "global_step3/mp_rank_00_model_states.pt"},
       "",
       "the Hugging Face folder (config.json) and ignores the DeepSpeed checkpoint (global_step3)"},
      {{".metadata", "config.json"}, "", ""},  // the config.json has no weights
      {{".metadata", "metadata.json"}, "", ""},
      {{".metadata", "config.json", "model.safetensors"},
       "",
       "the PyTorch distributed checkpoint (.metadata) and ignores the Hugging Face folder (model.safetensors)"},
      {{"manifest.json", ".metadata"}, "", "the checkpoint (manifest.json) and ignores the PyTorch distributed "},
      {{"iter_0000002/" + rank, "iter_0000001/" + rank}, "/iter_0000002", ""},
      {{"iter_0000002/" + rank, "release/.metadata", "release/metadata.json"}, "/iter_0000002", ""},
      {{"iter_0000002/" + rank, "iter_0000001/manifest.json"},
       "/iter_0000002",
       "the Megatron-LM checkpoint (iter_0000002) and ignores the checkpoint (iter_0000001)"},
      {{"iter_0000002/" + rank, "global_step3/mp_rank_00_model_states.pt"},
       "/iter_0000002",
       "the Megatron-LM checkpoint (iter_0000002) and ignores the DeepSpeed checkpoint (global_step3)"},
      {{"iter_0000002/" + rank, "other/manifest.json"}, "/iter_0000002", ""},
      {{"iter_0000002/" + rank, "weights/manifest.json"}, "/iter_0000002", "(weights)"},
      {{"iter_0000002/" + rank, "step-1/manifest.json"}, "/iter_0000002", "(step-1)"}};
  for (const auto& [files, model, expected] : cases) {
    CAPTURE(join(files, " "));
    make_files(folder, files);
    const std::string warning = stderr_of([&, in = folder + model] {
      Console console = quiet_console();
      warn_of_other_model(folder, in, console);
    });
    CHECK(warning.empty() == (*expected == '\0'));
    CHECK(contains(warning, expected));
  }
  make_files(folder, {"iter_0000002/" + rank, "global_step3/mp_rank_00_model_states.pt"});
  CHECK(contains(stderr_of([&] {
                   Console console = quiet_console();
                   CHECK(find_model(folder, console) == folder + "/iter_0000002");
                 }),
                 "ignores the DeepSpeed checkpoint (global_step3)"));
  make_files(folder, {"model_optim_rng.pt", "config.json"});
  CHECK(stderr_of([&] {
          Console console = quiet_console();
          warn_of_other_model(folder + "/model_optim_rng.pt", folder + "/model_optim_rng.pt", console);
        }).empty());
}

TEST_CASE("model source: a file or weights that no folder of a model contains are named") {
  const ScratchFolder scratch;
  const std::string folder = scratch / "m";
  const std::pair<const char*, const char*> files[] = {
      {"x_model_states.pt", "is one rank's file of a DeepSpeed or GPT-NeoX checkpoint"},
      {"x_optim_states.pt", "is one rank's file of a DeepSpeed or GPT-NeoX checkpoint"},
      {"distrib_optim.pt", "contains the state of Megatron-LM's distributed optimizer"},
      {"optim.pt", "contains the state of Megatron-LM's distributed optimizer"},
      {"x.pt", "is a PyTorch file"},
      {"x.pth", "is a PyTorch file"},
      {"x.ckpt", "is a PyTorch file"},
      {"pytorch_model-1.bin", "is a PyTorch file"},
      {"model.bin", ""},
      {"pytorch_model.txt", ""},
      {"x.onnx", "is an exported model for inference (ONNX) (x.onnx)"}};
  for (const auto& [name, what] : files) {
    CAPTURE(name);
    make_files(folder, {name});
    CHECK(find_foreign_model(cat(folder, "/", name), true).what == what);
  }
  const std::pair<std::vector<std::string>, const char*> folders[] = {
      {{"pytorch_model.bin"}, "has PyTorch weights (pytorch_model.bin), but no config.json"},
      {{"pytorch_model.pt"}, "has PyTorch weights (pytorch_model.pt), but no config.json"},
      {{"pytorch_model.bin.index.json"}, "has PyTorch weights (pytorch_model.bin.index.json), but no config.json"},
      {{"model.safetensors"}, "has the weights of a model (model.safetensors), but no config.json"},
      {{"model.safetensors.index.json"},
       "has the weights of a model (model.safetensors.index.json), but no config.json"},
      {{"config.json", "model.safetensors"}, ""},
      {{"a.safetensors", "model.txt", "pytorch_model.txt", "x.bin.index.json", "x.pt"}, ""},
      {{"9/ckpt.pt"}, "contains checkpoints from another program: 9 is a checkpoint of nanoGPT (ckpt.pt)"},
      {{"a0/ckpt.pt"}, "contains checkpoints from another program: a0 is a checkpoint of nanoGPT (ckpt.pt)"},
      {{"a:/ckpt.pt", "a/ckpt.pt"}, ""},
      {{"weights/ckpt.pt"}, "contains checkpoints from another program: weights is a checkpoint of nanoGPT (ckpt.pt)"},
      {{"step-x/ckpt.pt"}, "contains checkpoints from another program: step-x is a checkpoint of nanoGPT (ckpt.pt)"},
      {{"iter_x/ckpt.pt"}, "contains checkpoints from another program: iter_x is a checkpoint of nanoGPT (ckpt.pt)"},
      {{"model.bin/x", "metadata.json/x"}, ""}};
  for (const auto& [names, what] : folders) {
    CAPTURE(join(names, " "));
    make_files(folder, names);
    CHECK(find_foreign_model(folder, true).what == what);
  }
}
