// Models of programs whose formats mtl does not read: each is named, with what converts it.
#include "models/foreign_formats.h"

#include <doctest/doctest.h>

#include "formats/torch_writer.h"
#include "tests/ckpt/ckpt_fixtures.h"

using namespace mtl;
using namespace mtl::test;

namespace {

struct ForeignCase {
  std::vector<std::string> files;  // relative to the folder
  std::string program, remedy;
};

const ForeignCase kForeignCases[] = {
    {{"ckpt.pt"}, "is a checkpoint of nanoGPT (ckpt.pt)", "GPT2LMHeadModel"},
    {{"consolidated.00.pth", "params.json"}, "has Meta's format of Llama", "convert_llama_weights_to_hf.py"},
    {{"consolidated.safetensors", "params.json"}, "has Mistral's own format", "convert_mistral_weights_to_hf.py"},
    {{"latest.txt", "10/checkpoint_metadata.json", "10/model_config.json", "10/model/x"}, "of nanotron", "to_hf.py"},
    {{"lit_model.pth", "model_config.yaml"}, "is a checkpoint of LitGPT", "litgpt convert_from_litgpt"},
    {{"step-000100/lit_model.pth"}, "step-000100 is a checkpoint of LitGPT", "litgpt convert_from_litgpt"},
    {{"llama-7b.Q4_K_M.gguf"}, "has llama.cpp's format", "Hugging Face folder"},
    {{"gpt.nemo"}, "is an archive of NeMo", "nemo_to_hf"},
    {{"epoch_0/hf_model_0001_0.pt"}, "epoch_0 is a checkpoint of torchtune", "pytorch_model.bin"},
    {{"checkpoint-20/adapter_config.json"}, "checkpoint-20 is an adapter of PEFT", "merge_and_unload()"},
    {{"ep0-ba1000-rank0.pt"}, "is a checkpoint of Composer", "convert_composer_to_hf.py"},
    {{"weights.npz"}, "is a model of MLX", "mlx_lm.fuse"},
    {{"0/_CHECKPOINT_METADATA"}, "0 is a checkpoint of Orbax", "to_huggingface.py"},
    {{"model.ckpt-1000.index", "model.ckpt-1000.data-00000-of-00001", "checkpoint"}, "of TensorFlow", "gpt2"},
    {{"tf_model.h5"}, "has the weights of TensorFlow", "from_tf=True"},
    {{"model.onnx"}, "is an exported model for inference (ONNX)", "Hugging Face folder"},
    {{"config.json", "pytorch_model_fsdp_0/.metadata"},
     "no weights of transformers; it is a sharded checkpoint of FSDP",
     "accelerate merge-weights pytorch_model_fsdp_0 ."},
    {{"config.json", "zero_to_fp32.py", "latest", "global_step3/x_model_states.pt"},
     "DeepSpeed",
     "zero_to_fp32.py . ."},
    {{"config.json", "global_step3/x_model_states.pt"}, "is a DeepSpeed checkpoint", "DeepSpeed's zero_to_fp32.py"},
    {{"iter_0000005/__0_0.distcp"}, "distributed checkpoint", "without .metadata; copy all of its files"},
};

std::string error_of_loading(const std::string& path) {
  return error_of([&] { open_quietly(path); }, Exit::bad_data);
}

}  // namespace

TEST_CASE("foreign models: the program is named, and what converts its model") {
  const ScratchFolder scratch;
  for (const ForeignCase& foreign : kForeignCases) {
    CAPTURE(foreign.program);
    const std::string folder = scratch / "model";
    fs::remove_all(folder);
    for (const std::string& name : foreign.files) {
      make_directories(parent_folder(cat(folder, "/", name)));
      write_text(cat(folder, "/", name), name == "config.json" ? read_file("golden/gpt2_model/a/config.json") : "");
    }
    const std::string error = error_of_loading(folder);
    CHECK(contains(error, folder));
    CHECK(contains(error, foreign.program));
    CHECK(contains(error, foreign.remedy));
  }
}

TEST_CASE("foreign models: a path may name the file") {
  const ScratchFolder scratch;
  for (const char* name : {"consolidated.00.pth", "lit_model.pth", "x.gguf", "x.nemo", "x.onnx", "weights.npz"}) {
    CAPTURE(name);
    write_text(scratch / name, "");
    const std::string error = error_of_loading(scratch / name);
    CHECK(contains(error, cat("(", name, "); ")));
    CHECK(!contains(error, "pytorch_model.bin, next to"));
  }
}

TEST_CASE("foreign models: a folder's files and a path of a file tell the program, or nothing") {
  struct NamedModel {
    std::vector<std::string> files;  // relative to the folder; after a colon its text
    std::string path, what, remedy;  // the path that is given, and the start of the remedy
  };
  const std::string distributed = "is a distributed checkpoint of Megatron-LM or PyTorch (", zarr = ", which mtl reads",
                    deepspeed = "is a DeepSpeed or GPT-NeoX checkpoint (", other = "contains checkpoints from another ",
                    rank_file = "is one rank's file of a DeepSpeed or GPT-NeoX checkpoint",
                    optimizer = "contains the state of Megatron-LM's distributed optimizer",
                    shard = "is one rank's shard of a Megatron-LM checkpoint (model_optim_rng.pt)",
                    meta = "is a distributed Megatron-LM checkpoint";
  const NamedModel models[] = {
      {{"model_optim_rng.pt"}, "", shard, "; use it only with --load"},
      {{"zero_to_fp32.py"}, "", "", ""},
      {{"a_model_states.pt"}, "", deepspeed + "a_model_states.pt)", "; use it only with --load"},
      {{"a_optim_states.pt"}, "", deepspeed + "a_optim_states.pt)", "; use it only with --load"},
      {{"global_step5/x"}, "", "", ""},
      {{"mp_rank_00/x"}, "", "is a Megatron-LM checkpoint (mp_rank_00)", "; use it only with --load"},
      {{"pytorch_model_fsdp.bin"}, "", "is a checkpoint of FSDP (pytorch_model_fsdp.bin)", "; rename the file"},
      {{".metadata", "__0_0.distcp"}, "", distributed + ".metadata)", "; use it only with --load"},
      {{"__0_0.distcp"}, "", distributed + "__0_0.distcp)", " without .metadata"},
      {{"checkpoint_metadata.json"}, "", "", ""},
      {{"common.pt"}, "", meta + " (common.pt)", zarr},
      {{"adapter_model.bin"}, "", "is an adapter of PEFT (adapter_model.bin)", "; merge it into its model with merge_"},
      {{"adapter_config.json"}, "", "is an adapter of PEFT (adapter_config.json)", "; merge it into its model with m"},
      {{".zmetadata"}, "", meta + " in zarr format (.zmetadata)", zarr},
      {{".zarray"}, "", meta + " in zarr format (.zarray)", zarr},
      {{"metadata.json:{\"sharded_backend\": 1}"}, "", meta + " (metadata.json)", zarr},
      {{"metadata.json:{\"sharded_other\": 1}"}, "", "", ""},
      {{"lit_model.pth.tar"}, "", "is a checkpoint of LitGPT (lit_model.pth.tar)", "; convert it with \"litgpt"},
      {{"model_weights.ckpt"}, "", "is an unpacked archive of NeMo (model_weights.ckpt)", "; convert it with NeMo's"},
      {{"meta_model_0.pt"}, "", "is a checkpoint of torchtune with Meta's names (meta_model_0.pt)", "; save it with t"},
      {{"weights.00.npz"}, "", "is a model of MLX (weights.00.npz)", "; use the Hugging Face folder"},
      {{"adapters.safetensors"}, "", "is an adapter of MLX (adapters.safetensors)", "; merge it into its model with m"},
      {{"_METADATA"}, "", "is a checkpoint of Orbax (JAX, MaxText) (_METADATA)", "; convert it with MaxText's"},
      {{"manifest.ocdbt"}, "", "is a checkpoint of Orbax (JAX, MaxText) (manifest.ocdbt)", "; convert it with MaxText"},
      {{"flax_model-1.msgpack"}, "", "has the weights of Flax (flax_model-1.msgpack)", "; save them for PyTorch with"},
      {{"a.pdparams"}, "", "is a model of PaddlePaddle (a.pdparams)", "; save it for PyTorch with PaddleNLP"},
      {{"pytorch_model-1.bin"},
       "",
       "has PyTorch weights (pytorch_model-1.bin), but no config.json",
       "; add the config"},
      {{"pytorch_model.bin.index.json"},
       "",
       "has PyTorch weights (pytorch_model.bin.index.json), but no config.json",
       "; add the config.json of the model"},
      {{"model-1.safetensors"},
       "",
       "has the weights of a model (model-1.safetensors), but no config.json",
       "; add the"},
      {{"model.safetensors.index.json"},
       "",
       "has the weights of a model (model.safetensors.index.json), but no config.json",
       "; add the config.json"},
      {{"model.safetensors", "config.json"}, "", "", ""},
      {{"a.safetensors", "b.bin", "c.pt", "model.bin", "pytorch_model.txt"}, "", "", ""},
      {{"a_model_states.pt"}, "a_model_states.pt", rank_file, "; use the folder that contains"},
      {{"a_optim_states.pt"}, "a_optim_states.pt", rank_file, "; use the folder that contains"},
      {{"distrib_optim.pt"}, "distrib_optim.pt", optimizer, "; use the checkpoint's folder"},
      {{"optim.pt"}, "optim.pt", optimizer, "; use the checkpoint's folder"},
      {{"my_optim.pt"}, "my_optim.pt", "is a PyTorch file", "; move it to a folder as pytorch_model.bin"},
      {{"a.pth"}, "a.pth", "is a PyTorch file", "; move it to a folder"},
      {{"a.ckpt"}, "a.ckpt", "is a PyTorch file", "; move it to a folder"},
      {{"pytorch_model-1.bin"}, "pytorch_model-1.bin", "is a PyTorch file", "; move it to a folder"},
      {{"a.bin"}, "a.bin", "", ""},
      {{"iter_0000005/common.pt"}, "", other + "program: iter_0000005 " + meta + " (common.pt)", zarr},
      {{"release/model_optim_rng.pt"}, "", other + "program: release " + shard, "; use FOLDER/release"},
      {{"global_step3/.zarray"}, "", other + "program: global_step3 " + meta + " in zarr format (.zarray)", zarr},
      {{"step-1/.zarray"}, "", other + "program: step-1 " + meta + " in zarr format (.zarray)", zarr},
      {{"weights/.zarray"}, "", other + "program: weights " + meta + " in zarr format (.zarray)", zarr},
      {{"other/.zarray"}, "", "", ""}};
  const ScratchFolder scratch;
  for (const NamedModel& model : models) {
    CAPTURE(model.files.front());
    const std::string folder = scratch / "model";
    fs::remove_all(folder);
    for (const std::string& file : model.files) {
      const std::string name = file.substr(0, file.find(':'));
      make_directories(parent_folder(cat(folder, "/", name)));
      write_text(cat(folder, "/", name), name == file ? "" : file.substr(name.size() + 1));
    }
    const ForeignModel found = find_foreign_model(model.path.empty() ? folder : cat(folder, "/", model.path), false);
    CHECK(found.what == model.what);
    const std::string remedy =
        contains(model.remedy, "FOLDER") ? cat("; use ", folder, model.remedy.substr(12)) : model.remedy;
    CHECK(found.remedy.substr(0, remedy.size()) == remedy);
    CHECK(found.remedy.empty() == remedy.empty());
  }
}

TEST_CASE("foreign models: beside DeepSpeed's tracker, a checkpoint may have any name") {
  const ScratchFolder scratch;
  make_directories(scratch / "best");
  write_text(scratch / "best/mp_rank_00_model_states.pt", "");
  CHECK(describe_foreign_model(scratch.path()).empty());
  write_text(scratch / "latest", "best");
  CHECK(contains(describe_foreign_model(scratch.path()), "another program: best is a DeepSpeed"));
}

TEST_CASE("foreign models: llm.c's are recognized by their first bytes, and other .bin files are not") {
  const ScratchFolder scratch;
  for (const bool is_model : {false, true}) {
    write_text(scratch / "model_00000010.bin", is_model ? std::string("\xc6\xd7\x34\x01\x03\0\0\0", 8) : "tokens");
    CHECK(contains(error_of_loading(scratch.path()), is_model ? "dev/eval/export_hf.py" : "contains no model"));
    CHECK(contains(error_of_loading(scratch / "model_00000010.bin"),
                   is_model ? "export_hf.py" : "but a model is a folder"));
  }
}

TEST_CASE("foreign models: a file of nanoGPT is recognized by its keys") {
  const ScratchFolder scratch;
  const std::string path = scratch / "best.pt";
  OutputFile out(path);
  TorchWriter writer(out, "best");
  writer.pickle().begin_dict();
  writer.pickle().text("model"), writer.pickle().begin_dict();
  writer.pickle().text("_orig_mod.transformer.wte.weight"), writer.tensor(StoredDType::f32, {1});
  writer.pickle().end_dict();
  writer.pickle().text("model_args"), writer.pickle().begin_dict();
  writer.pickle().text("n_layer"), writer.pickle().integer(1);
  writer.pickle().end_dict();
  writer.pickle().end_dict();
  writer.write_data(std::as_bytes(std::span("\0\0\0\0", 4)));
  writer.finish();
  out.close();
  CHECK(contains(error_of_loading(path), "best.pt: the file is a checkpoint of nanoGPT"));
}

TEST_CASE("foreign models: exports and folders with numbers in a run's folder are no concern of the run") {
  const ScratchFolder scratch;
  const std::string run = scratch / "run";
  TestParams model(tiny_config());
  save_alone(SaveDirectory(run), tiny_config(), model.params, state_at(3));
  fs::copy("golden/gpt2_model/a", run + "/checkpoint-1", fs::copy_options::recursive);
  CHECK(contains(open_quietly(run).folder(), "iter_0000003"));
  const std::string runs = scratch / "runs";
  for (const char* name : {"gpt2/config.json", "gpt2/model.safetensors", "data2/metadata.json"}) {
    make_directories(parent_folder(cat(runs, "/", name)));
    write_text(cat(runs, "/", name), "{}");
  }
  CHECK(describe_foreign_model(runs, true).empty());
  make_directories(runs + "/ckpt100");
  write_text(runs + "/ckpt100/mp_rank_00_model_states.pt", "");
  CHECK(describe_foreign_model(runs).empty());
  CHECK(ends_with(describe_foreign_model(runs, true), cat("; use ", runs, "/ckpt100")));
}

TEST_CASE("foreign models: DeepSpeed's script means a transformers model only beside a config.json") {
  const ScratchFolder scratch;
  for (const char* name : {"zero_to_fp32.py", "global_step3/mp_rank_00_model_states.pt"}) {
    make_directories(parent_folder(scratch / name));
    write_text(scratch / name, "");
  }
  CHECK(contains(find_foreign_model(scratch.path()).what, "global_step3 is a DeepSpeed or GPT-NeoX checkpoint"));
}
