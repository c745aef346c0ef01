// Weights in Hugging Face folders under other names than transformers 5 writes: aliases of shared tensors, wrappers'
// prefixes, state dicts inside dicts. All describe the same model as the original file.
#include <doctest/doctest.h>

#include "formats/safetensors.h"
#include "formats/torch_file.h"
#include "formats/torch_writer.h"
#include "models/hf_folder.h"
#include "tests/ckpt/ckpt_fixtures.h"

using namespace mtl;
using namespace mtl::test;

namespace {

using Rename = std::function<std::string(const std::string&)>;
using Metadata = std::map<std::string, std::string>;

const Rename kSameName = [](const std::string& name) { return name; };

/// Copies a golden model's config.json to `to`, and its weights with other names. `twins` maps names of tensors to add
/// to the names of those that they equal.
void copy_renamed(const std::string& model, const std::string& to, const Rename& rename, const Metadata& metadata = {},
                  const Metadata& twins = {}) {
  fs::create_directories(to);
  fs::copy_file("golden/" + model + "/config.json", to + "/config.json", fs::copy_options::overwrite_existing);
  const SafetensorsFile source("golden/" + model + "/model.safetensors");
  std::vector<StoredTensor> plan = source.tensors();
  for (StoredTensor& tensor : plan) tensor.name = rename(tensor.name);
  for (const auto& [name, twin] : twins) {
    plan.push_back(*source.find(twin));
    plan.back().name = name;
  }
  OutputFile out(to + "/model.safetensors");
  SafetensorsWriter writer(out, plan, metadata);
  for (const StoredTensor& tensor : source.tensors()) writer.write(source.data(tensor));
  for (const auto& [name, twin] : twins) writer.write(source.data(*source.find(twin)));
  writer.finish();
  out.close();
}

/// Like copy_renamed(), but writes pytorch_model.bin with the state dict inside dicts under `keys`. Each dict also has
/// an entry "args", and the outermost one an optimizer's dict.
void write_nested(const std::string& model, const std::string& to, const Rename& rename,
                  const std::vector<std::string>& keys) {
  fs::create_directories(to);
  fs::copy_file("golden/" + model + "/config.json", to + "/config.json", fs::copy_options::overwrite_existing);
  const SafetensorsFile source("golden/" + model + "/model.safetensors");
  OutputFile out(to + "/pytorch_model.bin");
  TorchWriter writer(out, "pytorch_model");
  PickleWriter& pickle = writer.pickle();
  pickle.begin_dict();
  for (const std::string& key : keys) {
    if (keys.size() > 1) {
      pickle.text("optimizer"), pickle.begin_dict(), pickle.text("lr"), pickle.number(1), pickle.end_dict();
    }
    pickle.text("args"), pickle.none();
    pickle.text(key), pickle.begin_dict();
  }
  for (const StoredTensor& tensor : source.tensors()) {
    pickle.text(rename(tensor.name));
    writer.tensor(tensor.dtype, {tensor.shape.begin(), tensor.shape.end()});
  }
  for (std::size_t i = 0; i <= keys.size(); ++i) pickle.end_dict();
  for (const StoredTensor& tensor : source.tensors()) writer.write_data(source.data(tensor));
  writer.finish();
  out.close();
}

bool same_weights(const std::string& model, const std::string& folder) {
  ModelSource original = open_quietly("golden/" + model), other = open_quietly(folder);
  if (!(original.config() == other.config())) return false;
  TestParams a(original.config(), false), b(other.config(), false);
  original.load_values(a.params);
  other.load_values(b.params);
  return same_tensors(a.params, b.params);
}

/// Overwrites element `index` of a tensor with NaN.
void put_nan(const std::string& path, const std::string& tensor, std::size_t index) {
  std::string text = read_file(path);
  {
    const SafetensorsFile file(path);
    const std::size_t offset = file.data(*file.find(tensor)).data() - file.bytes().data();
    const std::size_t element = bits_of(file.find(tensor)->dtype) / 8;
    std::memset(text.data() + offset + element * index, 0xFF, element);  // NaN in every floating-point dtype
  }
  write_text(path, text);
}

}  // namespace

TEST_CASE("hf weights: tied weights are found under either name, and under the name in save_model's metadata") {
  const Rename to_head = [](const std::string& name) {
    return name == "transformer.wte.weight" ? "lm_head.weight" : name;
  };
  ScratchFolder scratch;
  copy_renamed("gpt2_model/a", scratch / "head", to_head);
  CHECK(same_weights("gpt2_model/a", scratch / "head"));
  copy_renamed("gpt2_model/a", scratch / "alias", to_head, {{"transformer.wte.weight", "lm_head.weight"}});
  CHECK(same_weights("gpt2_model/a", scratch / "alias"));
  // The alias may belong to any tensor.
  const std::string scale = "transformer.h.1.ln_1.bias", other = "transformer.h.1.ln_2.bias";
  copy_renamed("gpt2_model/a", scratch / "norms", [&](const std::string& name) { return name == scale ? "x" : name; },
               {{scale, "x"}, {"format", "pt"}});
  CHECK(contains(error_of([&] { open_quietly(scratch / "norms"); }), "'x' is not part of a language model"));
  copy_renamed("gpt2_model/a", scratch / "none", [&](const std::string& name) { return name == other ? "x" : name; });
  CHECK(contains(error_of([&] { open_quietly(scratch / "none"); }), cat("'", other, "' is missing")));
}

TEST_CASE("hf weights: GPT-NeoX's output layer is read as embed_out and as lm_head") {
  ScratchFolder scratch;
  copy_renamed("llama_model/neox", scratch / "head",
               [](const std::string& name) { return name == "embed_out.weight" ? "lm_head.weight" : name; });
  CHECK(same_weights("llama_model/neox", scratch / "head"));
  // A tensor may be stored under both names, as long as the values are the same.
  copy_renamed("llama_model/neox", scratch / "both", kSameName, {}, {{"lm_head.weight", "embed_out.weight"}});
  CHECK(same_weights("llama_model/neox", scratch / "both"));
  copy_renamed("llama_model/neox", scratch / "other", kSameName, {}, {{"lm_head.weight", "gpt_neox.embed_in.weight"}});
  const std::string error = error_of([&] { open_quietly(scratch / "other"); }, Exit::bad_data);
  for (const char* part : {"model.safetensors", "'lm_head.weight'", "'embed_out.weight'"}) CHECK(contains(error, part));
}

TEST_CASE("hf weights: the prefix of a training framework's wrapper is removed") {
  for (const char* prefix : {"module.", "_orig_mod.", "model.", "module._orig_mod.", "net.", "llm.model.",
                             "base_model.model.", "transformer.", "policy.actor.", "model.net."}) {
    for (const char* model : {"gpt2_model/a", "llama_model/llama", "llama_model/neox"}) {
      CAPTURE(std::string(prefix));
      CAPTURE(std::string(model));
      ScratchFolder scratch;
      copy_renamed(model, scratch / "m", [&](const std::string& name) { return prefix + name; });
      CHECK(same_weights(model, scratch / "m"));
    }
  }
  // Modules of torch.compile, DeepSpeed and FSDP wrap the model, its layers, or both.
  const auto wrap = [](std::string name, const std::string& before, const std::string& module) {
    const std::size_t at = name.find(before);
    return at == std::string::npos ? name : name.insert(at, module);
  };
  for (const char* module :
       {"module.", "_orig_mod.", "_forward_module.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module."}) {
    const std::vector<Rename> renames = {
        [&](const std::string& name) { return module + name; },
        [&](const std::string& name) { return cat("model.", module, name); },
        [&](const std::string& name) { return cat(module, "module.", name); },
        [&](const std::string& name) { return wrap(name, "layers.", module); },
        [&](const std::string& name) { return module + wrap(wrap(name, "mlp.", module), "mlp.", "_orig_mod."); },
        [&](const std::string& name) { return wrap(wrap(name, "weight", module), "0.", module); }};
    for (std::size_t i = 0; i < renames.size(); ++i) {
      for (const char* model : {"gpt2_model/a", "llama_model/llama", "llama_model/neox"}) {
        CAPTURE(std::string(module));
        CAPTURE(i);
        CAPTURE(std::string(model));
        ScratchFolder scratch;
        copy_renamed(model, scratch / "m", renames[i]);
        CHECK(same_weights(model, scratch / "m"));
      }
    }
  }
  ScratchFolder scratch;  // a wrapper around a model whose names lack the family's prefix
  copy_renamed("gpt2_model/a", scratch / "m", [](const std::string& name) {
    return "module." + name.substr(std::string_view("transformer.").size());
  });
  CHECK(same_weights("gpt2_model/a", scratch / "m"));
}

TEST_CASE("hf weights: a prefix that other tensors lack is named, and so is an adapter") {
  for (const char* model : {"gpt2_model/a", "llama_model/llama", "llama_model/neox"}) {
    CAPTURE(std::string(model));
    ScratchFolder scratch;
    const std::string norm = SafetensorsFile(cat("golden/", model, "/model.safetensors")).tensors()[3].name;
    copy_renamed(model, scratch / "m", [](const std::string& name) { return "policy." + name; }, {},
                 {{"value_head.weight", norm}});
    const std::string error = error_of([&] { open_quietly(scratch / "m"); }, Exit::bad_data);
    CAPTURE(error);
    for (const char* part : {"model.safetensors", "prefix 'policy.'", "module 'policy'"}) CHECK(contains(error, part));
    copy_renamed(model, scratch / "peft", [](const std::string& name) { return "base_model.model." + name; }, {},
                 {{"base_model.model.model.layers.0.q_proj.lora_A.default.weight", norm}});
    CHECK(contains(error_of([&] { open_quietly(scratch / "peft"); }, Exit::bad_data), "LoRA adapter"));
  }
  ScratchFolder scratch;
  write_text(scratch / "adapter_config.json", "{}");
  write_text(scratch / "adapter_model.safetensors", "");
  CHECK(contains(error_of([&] { open_quietly(scratch.path()); }, Exit::bad_data), "adapter"));
}

TEST_CASE("hf weights: PyTorch's tensors that do not match their CRC-32 are not loaded") {
  ScratchFolder scratch;
  write_nested("gpt2_model/a", scratch / "m", kSameName, {"model"});
  const SafetensorsFile source("golden/gpt2_model/a/model.safetensors");
  const std::span<const std::byte> data = source.data(*source.find("transformer.wte.weight"));
  const std::string path = scratch / "m/pytorch_model.bin";
  const std::size_t at = read_file(path).find({reinterpret_cast<const char*>(data.data()), data.size()});
  REQUIRE(at != std::string::npos);
  flip_bit(path, at);
  const ModelSource damaged = open_quietly(scratch / "m");
  TestParams loaded(damaged.config(), false);
  const std::string error = error_of([&] { damaged.load_values(loaded.params); }, Exit::bad_data);
  for (const char* part : {"pytorch_model.bin", "CRC-32"}) CHECK(contains(error, part));
  CHECK(contains(error_of([&] { damaged.verify(); }, Exit::bad_data), "CRC-32"));
}

TEST_CASE("hf weights: an index names files in the folder, which have its tensors; model.safetensors comes before it") {
  const ScratchFolder scratch;
  const std::string folder = scratch / "m";
  copy_renamed("gpt2_model/a", folder, kSameName);
  const auto write_index = [&](const char* tensor, const char* file) {
    const Json map = Json::object({{"transformer.wte.weight", "part"}, {tensor, file}});
    write_text(folder + "/model.safetensors.index.json", Json::object({{"weight_map", map}}).dump());
  };
  write_index("x", "absent");
  CHECK(same_weights("gpt2_model/a", folder));
  fs::rename(folder + "/model.safetensors", folder + "/part");
  for (const char* file : {"", ".part", "../part", "a/part"}) {
    CAPTURE(file);
    write_index("x", file);
    CHECK(
        contains(error_of([&] { open_quietly(folder); }, Exit::bad_data), "is not the name of a file in this folder"));
  }
  write_index("x", "part");
  CHECK(
      contains(error_of([&] { open_quietly(folder); }, Exit::bad_data), "part: tensor 'x' is missing, although model"));
  write_index("transformer.wpe.weight", "part");
  CHECK(same_weights("gpt2_model/a", folder));
  Json config = Json::read(folder + "/config.json");
  write_text(folder + "/config.json", config.set("n_layer", 100).dump());
  CHECK(contains(error_of([&] { open_quietly(folder); }, Exit::bad_data), "tensors, too few for the 100 layers"));
  copy_renamed(
      "gpt2_model/a", scratch / "two", kSameName, {},
      {{"transformer.a.weight", "transformer.wpe.weight"}, {"transformer.b.weight", "transformer.wpe.weight"}});
  CHECK(contains(error_of([&] { open_quietly(scratch / "two"); }, Exit::bad_data), "and neither are others (1)"));
}

TEST_CASE("hf weights: a state dict inside a dict is found, or the error lists the dict's keys") {
  const std::vector<std::vector<std::string>> paths = {{"model"},
                                                       {"state_dict"},
                                                       {"module"},
                                                       {"model", "ema"},
                                                       {"anything"},
                                                       {"checkpoint", "model"},
                                                       {"model", "state_dict"}};
  for (const std::vector<std::string>& keys : paths) {
    CAPTURE(join(keys, "."));
    ScratchFolder scratch;
    if (keys.front() == "checkpoint" || keys.back() == "ema") {
      write_nested("gpt2_model/a", scratch / "m", kSameName, keys);
      const std::string error = error_of([&] { open_quietly(scratch / "m"); }, Exit::bad_data);
      CAPTURE(error);
      const bool is_ema = keys.back() == "ema";
      for (const char* part :
           {"pytorch_model.bin", is_ema ? "inner" : "'optimizer'", is_ema ? "['model']['ema']" : "'checkpoint'"})
        CHECK(contains(error, part));
      continue;
    }
    write_nested(
        "gpt2_model/a", scratch / "m", [](const std::string& name) { return "module." + name; }, keys);
    CHECK(same_weights("gpt2_model/a", scratch / "m"));
  }
}

TEST_CASE("hf weights: a dtype that is not a floating-point one is refused with the tensor's name in the file") {
  for (const char* model : {"gpt2_model/a", "llama_model/llama"}) {
    ScratchFolder scratch;
    copy_renamed(model, scratch / "m", kSameName);
    const std::string path = scratch / "m/model.safetensors";
    std::string text = read_file(path);
    const std::string name = SafetensorsFile(path).tensors()[3].name;
    const std::size_t at = text.find("\"F", text.find(cat('"', name, '"')));
    text.replace(at, 4, text.substr(at, 4) == "\"F32" ? "\"I32" : "\"I16");
    write_text(path, text);
    const std::string error = error_of([&] { open_quietly(scratch / "m"); }, Exit::bad_data);
    CAPTURE(error);
    CHECK(contains(error, cat("'", name, "' in model.safetensors is stored as I")));
  }
}

TEST_CASE("hf weights: NaN is refused with the tensor's name in the file") {
  ScratchFolder scratch;
  for (const auto& [model, tensor, is_extended] :
       {std::tuple("llama_model/llama", "model.layers.1.self_attn.v_proj.weight", false),
        std::tuple("llama_model/llama", "model.layers.0.mlp.up_proj.weight", false),
        std::tuple("gpt2_model/a", "transformer.wte.weight", false),
        std::tuple("gpt2_model/a", "transformer.wte.weight", true)}) {
    CAPTURE(std::string(tensor));
    copy_renamed(model, scratch / "m", kSameName);
    put_nan(scratch / "m/model.safetensors", tensor, 7);
    ModelSource source = open_quietly(scratch / "m");
    if (is_extended) source.extend_vocabulary(source.config().vocab_size + 1, NewRows::mean, 1);
    TestParams loaded(source.config(), false);
    const std::string error = error_of([&] { source.load_values(loaded.params); }, Exit::bad_data);
    CAPTURE(error);
    CHECK(contains(error, cat("/m/model.safetensors: tensor '", tensor, "' contains NaN")));
    // The count is of the file's tensor, which may be a part of a parameter.
    const SafetensorsFile file(scratch / "m/model.safetensors");
    int found = 0;
    for (const SavedTensor& parameter : source.tensors()) {
      for (const NonfiniteTensor& nonfinite : source.find_nonfinite(parameter.name)) {
        CHECK(nonfinite.name == tensor);
        CHECK(nonfinite.nonfinite == 1);
        CHECK(nonfinite.elements * bits_of(parameter.dtype) / 8 == file.data(*file.find(tensor)).size());
        ++found;
      }
    }
    CHECK(found == 1);
  }
}
