// Reading: config.json, and the tensors.
#include "ckpt/hf_folder.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/files.h"
#include "base/hash.h"
#include "base/mapped_faults.h"
#include "ckpt/companion_files.h"
#include "ckpt/hf_config.h"
#include "ckpt/hf_names.h"
#include "ckpt/hf_weights.h"
#include "ckpt/tensor_reader.h"

namespace mtl {

namespace {

/// Hash of the header and of some blocks of each tensor: distinguishes models without reading all of them.
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
      family_ = &hf_family_of(hf_config);
      config = gpt_config_from_hf(hf_config);
      const std::vector<std::string> problems = config.problems();
      if (!problems.empty()) fail(Exit::bad_data, join(problems, "; "));
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
    // No hash reveals the zeros of a file that has shrunk. A removed file stays mapped whole.
    for (const TensorFile* file : entry.files) {
      if (file_exists(file->path())) check_mapped_size(file->path(), file->bytes().size());
    }
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
  struct Entry {
    std::vector<TensorPiece> pieces;
    std::vector<std::span<const std::byte>> contents;  // of the file tensors that the pieces name
    std::vector<const TensorFile*> files;              // that hold them
  };

  void open_files() {
    files_ = open_hf_weights(folder);
    for (const std::unique_ptr<TensorFile>& file : files_) {
      for (const StoredTensor& tensor : file->tensors()) {
        if (!stored_.emplace(full_hf_name(tensor.name, *family_), std::pair(file.get(), &tensor)).second) {
          fail(Exit::bad_data, file->path(), ": tensor '", tensor.name, "' is stored twice");
        }
      }
    }
  }

  /// Fills `tensors` and entries_ in canonical order. Refuses tensors that belong to no parameter.
  void collect() {
    if (config.num_layers > std::ssize(stored_)) {
      fail(Exit::bad_data, folder, ": ", stored_.size(), " tensors cannot be a model of ", config.num_layers,
           " layers");
    }
    std::erase_if(stored_, [&](const auto& item) { return is_hf_buffer(item.first, *family_); });
    if (config.tied_embeddings) check_tied_output();
    for (const CanonicalTensor& canonical : canonical_tensors(config)) add_tensor(canonical);
    if (!stored_.empty()) {
      const auto& [file, stored] = stored_.begin()->second;
      fail(Exit::bad_data, file->path(), ": tensor '", stored->name, "' is not part of a language model of type ",
           family_->model_type, stored_.size() > 1 ? cat("; nor are ", stored_.size() - 1, " more") : "");
    }
  }

  void add_tensor(const CanonicalTensor& canonical) {
    Entry entry;
    StoredDType dtype{};
    for (HfTensor& tensor : hf_tensors_of(canonical, *family_)) {
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

  /// A stored output layer must equal the token embedding; it is not read.
  void check_tied_output() {
    const CanonicalTensor table_of_tokens{"embedding.tokens.weight", {config.vocab_size, config.hidden_size}};
    auto output = stored_.find(cat(family_->output, ".weight"));
    auto table = stored_.find(hf_tensors_of(table_of_tokens, *family_).front().name);
    if (output == stored_.end() || table == stored_.end()) return;
    auto bytes = [](const auto& place) { return place.first->data(*place.second); };
    std::span<const std::byte> a = bytes(output->second), b = bytes(table->second);
    if (a.size() != b.size() || std::memcmp(a.data(), b.data(), a.size()) != 0) {
      fail(Exit::bad_data, output->second.first->path(), ": ", output->first,
           " differs from the token embedding; config.json has tie_word_embeddings, with which they are one");
    }
    stored_.erase(output);
  }

  const HfFamily* family_ = nullptr;
  std::vector<std::unique_ptr<TensorFile>> files_;
  std::map<std::string, std::pair<const TensorFile*, const StoredTensor*>> stored_;  // by full name
  std::vector<Entry> entries_;                                                       // as `tensors`
};

}  // namespace

std::unique_ptr<TensorReader> open_hf_folder(const std::string& folder) { return std::make_unique<HfReader>(folder); }

}  // namespace mtl
