// Reading: config.json, and the tensors of one file or of shards with an index.
#include "ckpt/hf_folder.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "base/files.h"
#include "base/hash.h"
#include "base/mapped_faults.h"
#include "ckpt/companion_files.h"
#include "ckpt/foreign_model.h"
#include "ckpt/hf_names.h"
#include "ckpt/safetensors.h"
#include "ckpt/tensor_reader.h"

namespace mtl {

namespace {

/// All spellings of the tanh form of GELU in transformers.
constexpr const char* kGeluTanh[] = {"gelu_new", "gelu_fast", "gelu_pytorch_tanh", "gelu_python_tanh", "gelu_accurate"};

/// A switch of which mtl supports one value. reorder_and_upcast_attn is not among them: it asks for attention scores
/// and softmax in fp32, as mtl computes them anyway.
struct FixedSwitch {
  const char* key;
  bool value;  // also transformers' default
};

constexpr FixedSwitch kFixedSwitches[] = {{"scale_attn_weights", true},
                                          {"scale_attn_by_inverse_layer_idx", false},
                                          {"tie_word_embeddings", true},
                                          {"add_cross_attention", false}};

/// True for the constant buffers of old GPT-2 files: the causal mask and its fill value.
bool is_mask_buffer(const std::string& name) {
  return ends_with(name, ".attn.bias") || ends_with(name, ".attn.masked_bias");
}

std::string without_prefix(const std::string& name) {
  constexpr std::string_view kPrefix = "transformer.";
  return starts_with(name, kPrefix) ? name.substr(kPrefix.size()) : name;
}

/// Of the header, and of blocks all over each tensor: a model is told apart without reading all of it.
std::uint64_t sampled_hash(const TensorFile& file) {
  constexpr std::size_t kBlock = 4096, kBlocks = 4;  // of a tensor
  Hasher hasher;
  hasher.update(file.header().data(), file.header().size());
  for (const StoredTensor& tensor : file.tensors()) {
    std::span<const std::byte> data = file.data(tensor);
    if (data.size() <= kBlock * kBlocks) {
      hasher.update(data.data(), data.size());
      continue;
    }
    for (std::size_t i = 0; i < kBlocks; ++i)
      hasher.update(data.data() + (data.size() - kBlock) / (kBlocks - 1) * i, kBlock);
  }
  return hasher.digest();
}

class HfReader : public TensorReader {
 public:
  explicit HfReader(const std::string& path) {
    kind = "Hugging Face folder";
    folder = path;
    hf_config = read_model_json(path + "/config.json");
    try {
      config = gpt_config_from_hf(hf_config);
    } catch (const Error& error) {
      fail(error.code(), path, "/config.json: ", error.what());
    }
    open_files();
    collect();
    check_complete();
  }

  void read(std::size_t index, const Slice& slice, std::span<std::byte> out) const override {
    const Entry& entry = entries_[index];
    gather_slice(entry.pieces, slice, bits_of(tensors[index].dtype) / 8, entry.contents, out);
    bytes_read_ += out.size();
    // There is no hash to find zeros by. A file that was removed stays mapped whole.
    for (const TensorFile* file : entry.files) {
      if (file_exists(file->path())) check_mapped_size(file->path(), file->bytes().size());
    }
  }

  std::string identity() const override {
    std::string text = hf_config.dump();
    std::string lines = cat("config.json: ", hash_text(hash_bytes(text.data(), text.size())));
    for (const std::unique_ptr<TensorFile>& file : files_) {
      lines += cat("\n", fs::path(file->path()).filename().string(), ": ", file->bytes().size(), " bytes, ",
                   hash_text(sampled_hash(*file)));
    }
    return lines;
  }

 private:
  struct Entry {
    std::vector<TensorPiece> pieces;
    std::vector<std::span<const std::byte>> contents;  // of the file tensors that the pieces name
    std::vector<const TensorFile*> files;              // that hold them
  };

  void open_files() {
    std::string single = folder + "/model.safetensors", index = folder + "/model.safetensors.index.json";
    if (file_exists(single)) {
      files_.push_back(std::make_unique<SafetensorsFile>(single));
    } else if (file_exists(index)) {
      open_shards(index);
    } else {
      const std::string foreign = describe_foreign_model(folder);
      fail(Exit::bad_data, folder, ": neither model.safetensors nor model.safetensors.index.json is here",
           foreign.empty() ? "" : cat("; it ", foreign));
    }
    for (const std::unique_ptr<TensorFile>& file : files_) {
      for (const StoredTensor& tensor : file->tensors()) {
        if (!stored_.emplace(without_prefix(tensor.name), std::pair(file.get(), &tensor)).second) {
          fail(Exit::bad_data, file->path(), ": tensor '", tensor.name, "' is stored twice");
        }
      }
    }
  }

  void open_shards(const std::string& index_path) {
    Json index = read_model_json(index_path);
    std::map<std::string, std::vector<std::string>> names;  // by file
    try {
      for (const auto& [tensor, file] : index.at("weight_map").as_object()) names[file.as_string()].push_back(tensor);
    } catch (const Error& error) {
      fail(Exit::bad_data, index_path, ": ", error.what());
    }
    for (const auto& [name, tensors_in] : names) {
      if (name.empty() || name.find_first_of(std::string_view("/\0", 2)) != std::string::npos || name[0] == '.') {
        fail(Exit::bad_data, index_path, ": weight_map: ", Json(name).dump(),
             " is not the name of a file in this folder");
      }
      std::string path = cat(folder, "/", name);
      if (!file_exists(path))
        fail(Exit::bad_data, path, " is missing; the index puts ", tensors_in.size(), " tensors there, such as '",
             tensors_in[0], "'");
      files_.push_back(std::make_unique<SafetensorsFile>(path));
      for (const std::string& tensor : tensors_in) {
        if (files_.back()->find(tensor) == nullptr)
          fail(Exit::bad_data, path, ": tensor '", tensor, "' is missing; the index puts it there");
      }
    }
  }

  /// Fills `tensors` and entries_ in canonical order; what belongs to no parameter keeps its own name, for
  /// check_complete to refuse.
  void collect() {
    if (config.num_layers > std::ssize(stored_)) {
      fail(Exit::bad_data, folder, ": ", stored_.size(), " tensors cannot be a model of ", config.num_layers,
           " layers");
    }
    check_tied_head();
    std::erase_if(stored_,
                  [](const auto& item) { return is_mask_buffer(item.first) || item.first == "lm_head.weight"; });
    for (const CanonicalTensor& canonical : canonical_tensors(config)) add_tensor(canonical);
    if (!stored_.empty()) {
      const auto& [name, place] = *stored_.begin();
      fail(Exit::bad_data, place.first->path(), ": tensor '", name, "' is no part of a GPT-2 language model",
           stored_.size() > 1 ? cat("; nor are ", stored_.size() - 1, " more") : "");
    }
  }

  void add_tensor(const CanonicalTensor& canonical) {
    Entry entry;
    StoredDType dtype{};
    for (HfTensor& tensor : hf_tensors_of(canonical, config)) {
      auto found = stored_.find(tensor.name);
      if (found == stored_.end()) fail(Exit::bad_data, folder, ": tensor '", tensor.name, "' is missing");
      auto [file, stored] = found->second;
      if (!std::equal(stored->shape.begin(), stored->shape.end(), tensor.shape.begin(), tensor.shape.end(),
                      [](std::uint64_t a, std::int64_t b) { return a == static_cast<std::uint64_t>(b); })) {
        fail(Exit::bad_data, file->path(), ": tensor '", stored->name, "' has another shape than config.json needs");
      }
      if (!entry.pieces.empty() && stored->dtype != dtype)
        fail(Exit::bad_data, file->path(), ": tensor '", stored->name, "' is stored as ", name_of(stored->dtype),
             ", others of the same layer as ", name_of(dtype));
      dtype = stored->dtype;
      if (std::find(entry.files.begin(), entry.files.end(), file) == entry.files.end()) entry.files.push_back(file);
      entry.contents.push_back(file->data(*stored));
      entry.pieces.push_back(std::move(tensor.piece));
      stored_.erase(found);
    }
    tensors.push_back({"param." + canonical.name, dtype, canonical.shape});
    entries_.push_back(std::move(entry));
  }

  /// An output layer that is stored must be the token table.
  void check_tied_head() const {
    auto head = stored_.find("lm_head.weight"), table = stored_.find("wte.weight");
    if (head == stored_.end() || table == stored_.end()) return;
    auto bytes = [](const auto& place) { return place.first->data(*place.second); };
    std::span<const std::byte> a = bytes(head->second), b = bytes(table->second);
    if (a.size() != b.size() || std::memcmp(a.data(), b.data(), a.size()) != 0) {
      fail(Exit::bad_data, head->second.first->path(),
           ": lm_head.weight differs from the token table; an output layer of its own is not supported");
    }
  }

  std::vector<std::unique_ptr<TensorFile>> files_;
  std::map<std::string, std::pair<const TensorFile*, const StoredTensor*>> stored_;  // by name without prefix
  std::vector<Entry> entries_;                                                       // as `tensors`
};

}  // namespace

GptConfig gpt_config_from_hf(const Json& json) {
  constexpr std::int64_t kMaxDimension = std::int64_t{1} << 31;
  std::vector<std::string> problems;
  std::string model_type = json.string_or("model_type", "");
  if (model_type != "gpt2") fail(Exit::bad_data, "model_type is '", model_type, "'; this version reads gpt2");
  GptConfig config;
  auto take_size = [&](std::int64_t& member, const char* key, std::int64_t fallback) {
    member = json.int_or(key, fallback);
    if (member < 1 || member > kMaxDimension) problems.push_back(cat(key, " is ", member));
  };
  take_size(config.vocab_size, "vocab_size", 50257);
  take_size(config.max_positions, "n_positions", json.int_or("n_ctx", 1024));
  take_size(config.hidden_size, "n_embd", 768);
  take_size(config.num_layers, "n_layer", 12);
  take_size(config.num_heads, "n_head", 12);
  take_size(config.ffn_hidden_size, "n_inner", 4 * std::clamp<std::int64_t>(config.hidden_size, 0, kMaxDimension));
  config.norm_eps = json.number_or("layer_norm_epsilon", 1e-5);
  config.init_std = json.number_or("initializer_range", 0.02);
  if (!(config.norm_eps > 0 && config.norm_eps < 1)) problems.push_back(cat("layer_norm_epsilon is ", config.norm_eps));
  std::string activation = json.string_or("activation_function", "gelu_new");
  if (std::find(std::begin(kGeluTanh), std::end(kGeluTanh), activation) == std::end(kGeluTanh)) {
    problems.push_back(
        cat("activation_function is '", activation, "'; only the tanh form of GELU (gelu_new) is supported"));
  }
  for (const FixedSwitch& entry : kFixedSwitches) {
    if (json.bool_or(entry.key, entry.value) != entry.value)
      problems.push_back(cat(entry.key, " is ", !entry.value, ", which is not supported"));
  }
  if (const Json* quantized = json.find("quantization_config"); quantized != nullptr && !quantized->is_null()) {
    problems.push_back("quantization_config is given; quantized models are not supported");
  }
  if (problems.empty()) {
    config.complete();
    problems = config.problems();
  }
  if (!problems.empty()) fail(Exit::bad_data, join(problems, "; "));
  return config;
}

std::unique_ptr<TensorReader> open_hf_folder(const std::string& folder) { return std::make_unique<HfReader>(folder); }

}  // namespace mtl
