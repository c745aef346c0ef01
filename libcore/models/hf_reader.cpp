// Reads Hugging Face folders: config.json and the tensors.
#include "models/hf_folder.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "base/count_of.h"
#include "base/files.h"
#include "base/json.h"
#include "models/companion_files.h"
#include "models/hf_config.h"
#include "models/hf_names.h"
#include "models/hf_weights.h"
#include "models/mapped_reader.h"

namespace mtl {

namespace {

std::uint64_t sampled_hash(const TensorFile& file) {
  Hasher hasher;
  hasher.update(file.header().data(), file.header().size());
  for (const StoredTensor& tensor : file.tensors()) hash_sample(hasher, file.data(tensor), 4);
  return hasher.digest();
}

/// A tensor and the file that contains it.
using FileTensor = std::pair<const TensorFile*, const StoredTensor*>;

bool have_same_contents(const FileTensor& a, const FileTensor& b) {
  const std::span<const std::byte> x = a.first->data(*a.second), y = b.first->data(*b.second);
  return a.second->dtype == b.second->dtype && a.second->shape == b.second->shape && x.size() == y.size() &&
         std::memcmp(x.data(), y.data(), x.size()) == 0;
}

/// Removes the modules with which DistributedDataParallel and DeepSpeed, torch.compile, DeepSpeed in Lightning, FSDP
/// and activation checkpointing wrap a model or any module in it: "model.layers.0._orig_mod.mlp" ->
/// "model.layers.0.mlp".
std::string without_wrapper_modules(const std::string& name) {
  static const std::set<std::string> kModules = {
      "module", "_orig_mod", "_forward_module", "_fsdp_wrapped_module", "_fpw_module", "_checkpoint_wrapped_module"};
  std::vector<std::string> parts = split(name, '.');
  std::erase_if(parts, [](const std::string& part) { return kModules.contains(part); });
  return join(parts, ".");
}

class HfReader : public MappedReader {
 public:
  explicit HfReader(const std::string& path) {
    HfDescription description = read_hf_description(path);
    folder = path;
    hf_config = std::move(description.hf_config);
    config = description.config;
    dropout = description.dropout;
    family_ = &hf_family_of(hf_config);
    open_files();
    add_parameters();
    check_complete();
  }

  void verify() const override {
    for (const std::unique_ptr<TensorFile>& file : files_) file->verify();
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
  void open_files() {
    files_ = open_hf_weights(folder);
    const std::string wrapper = wrapper_prefix();
    auto full_name = [&](const std::string& stored) {
      const std::string name = without_wrapper_modules(stored);
      return full_hf_name(starts_with(name, wrapper) ? name.substr(wrapper.size()) : name, *family_);
    };
    for (const std::unique_ptr<TensorFile>& file : files_) {
      for (const StoredTensor& tensor : file->tensors()) {
        const FileTensor one(file.get(), &tensor);
        const auto [other, is_new] = stored_.emplace(full_name(tensor.name), one);
        if (is_new || have_same_contents(other->second, one)) continue;
        refuse_tensor(file->path(), tensor.name, "differs from '", other->second.second->name, "' in ",
                      other->second.first->path(), ", but both are ", other->first, " of the model; remove one");
      }
    }
    for (const std::unique_ptr<TensorFile>& file : files_) {
      for (const auto& [alias, name] : file->aliases())
        stored_.try_emplace(full_name(alias), FileTensor(file.get(), file->find(name)));
    }
  }

  /// Returns the prefix that all tensors have because another module contains the model, as in Lightning ("model."),
  /// in PEFT ("base_model.model.") or in one's own class ("net."). A family's own prefix is not a wrapper's.
  std::string wrapper_prefix() const {
    std::vector<std::string> names;
    for (const std::unique_ptr<TensorFile>& file : files_) {
      for (const StoredTensor& tensor : file->tensors()) names.push_back(without_wrapper_modules(tensor.name));
    }
    if (names.empty()) return "";
    const auto begins = [](const std::string& prefix) {
      return [prefix](const std::string& name) { return starts_with(name, prefix); };
    };
    std::string wrapper;
    bool is_before_own = false;
    std::size_t end = 0;
    do {
      const std::string shared = names.front().substr(0, end);
      if (!std::ranges::all_of(names, begins(shared))) break;
      const bool has_own = std::ranges::any_of(names, begins(shared + family_->prefix));
      if (has_own || !is_before_own) wrapper = shared;
      is_before_own = is_before_own || has_own;
      end = names.front().find('.', end) + 1;  // npos + 1 is 0
    } while (end != 0);
    return wrapper;
  }

  /// Adds the parameters in canonical order. Rejects stored tensors that do not belong to a parameter.
  void add_parameters() {
    if (config.num_layers > std::ssize(stored_)) {
      fail(Exit::bad_data, folder, " has ", count_of(stored_.size(), "tensor"), ", too few for the ",
           count_of(config.num_layers, "layer"), " in config.json; use the config.json of these weights");
    }
    std::erase_if(stored_, [&](const auto& item) { return is_hf_buffer(item.first, *family_); });
    refuse_adapter();
    if (config.tied_embeddings) drop_tied_output();
    for (const CanonicalTensor& canonical : canonical_tensors(config)) add_parameter(canonical);
    if (!stored_.empty()) {
      const auto& [file, stored] = stored_.begin()->second;
      refuse_tensor(file->path(), stored->name, "is not part of a language model of type ", family_->model_type,
                    stored_.size() > 1 ? cat(", and neither are others (", stored_.size() - 1, ")") : "",
                    "; use the config.json of these weights");
    }
  }

  void refuse_adapter() const {
    for (const auto& [name, tensor] : stored_) {
      if (name.find(".lora_") == std::string::npos) continue;
      refuse_tensor(
          tensor.first->path(), tensor.second->name,
          "belongs to a LoRA adapter; merge it into its model with PEFT's merge_and_unload(), and save that model");
    }
  }

  void add_parameter(const CanonicalTensor& canonical) {
    TensorMap map;
    StoredDType dtype{};
    for (HfTensor& tensor : hf_tensors_of(canonical, *family_)) {
      auto found = stored_.find(tensor.name);
      if (found == stored_.end()) fail_missing(tensor.name);
      auto [file, stored] = found->second;
      if (!std::equal(stored->shape.begin(), stored->shape.end(), tensor.shape.begin(), tensor.shape.end(),
                      [](std::uint64_t a, std::int64_t b) { return a == static_cast<std::uint64_t>(b); })) {
        fail(Exit::bad_data, file->path(), ": tensor '", stored->name, "' has shape ",
             shape_text({stored->shape.begin(), stored->shape.end()}), ", but config.json describes ",
             shape_text(tensor.shape), "; use the config.json of these weights");
      }
      if (!map.pieces.empty() && stored->dtype != dtype)
        refuse_tensor(file->path(), stored->name, "is stored as ", name_of(stored->dtype),
                      ", but other parts of the same parameter as ", name_of(dtype), "; store both in one dtype");
      dtype = stored->dtype;
      map.add(std::move(tensor.piece), file->data(*stored), file, file->record(*stored), stored->name);
      stored_.erase(found);
    }
    add_tensor({"param." + canonical.name, dtype, canonical.shape}, std::move(map));
  }

  [[noreturn]] void fail_missing(const std::string& name) const {
    const auto is_inner = [&](const auto& item) { return ends_with(item.second.second->name, "." + name); };
    const auto inner = std::ranges::find_if(stored_, is_inner);
    if (inner == stored_.end())
      refuse_tensor(folder, name, "is missing; add the file that contains it, or use the config.json of these weights");
    const auto& [file, stored] = inner->second;
    const std::string prefix = stored->name.substr(0, stored->name.size() - name.size());
    refuse_tensor(file->path(), name, "is stored as '", stored->name, "', but not all tensors have the prefix '",
                  prefix, "'; save only the module '", prefix.substr(0, prefix.size() - 1), "' with its state_dict()");
  }

  /// If the folder stores an output layer, checks that it equals the token embedding, and then ignores it. If only the
  /// output layer is stored, it is also the token embedding.
  void drop_tied_output() {
    const CanonicalTensor canonical{"embedding.tokens.weight", {config.vocab_size, config.hidden_size}};
    auto output = stored_.find(cat(family_->output, ".weight"));
    if (output == stored_.end()) return;
    const std::string name = hf_tensors_of(canonical, *family_).front().name;
    const auto embedding = stored_.try_emplace(name, output->second).first;
    if (!have_same_contents(output->second, embedding->second)) {
      refuse_tensor(
          output->second.first->path(), output->second.second->name,
          "differs from the token embedding, but config.json sets tie_word_embeddings; set it to false, or remove "
          "the tensor");
    }
    stored_.erase(output);
  }

  const HfFamily* family_ = nullptr;
  std::vector<std::unique_ptr<TensorFile>> files_;
  std::map<std::string, FileTensor> stored_;  // by full name
};

}  // namespace

std::unique_ptr<TensorReader> open_hf_folder(const std::string& folder) { return std::make_unique<HfReader>(folder); }

}  // namespace mtl
