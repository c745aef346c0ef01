#include "formats/torch_file.h"

#include <algorithm>

#include "base/printable.h"

namespace mtl {

namespace {

/// Returns a key as Python writes it, for messages.
std::string key_text(PickleValue key) {
  return key.is(PickleKind::text) ? cat("'", printable_text(key.as_text()), "'") : key.describe();
}

/// Returns the dict among the values of `dict` that, by its key, is a model's state dict. If there is none, and
/// `accepts_any_key`, returns the only dict among the values. Appends its key to `path`, as "['model']".
std::optional<PickleValue> find_state_dict(PickleValue dict, bool accepts_any_key, std::string& path) {
  for (const char* key : {"state_dict", "model_state_dict", "model", "module", "net", "network", "weights", "params"}) {
    const std::optional<PickleValue> found = dict.find(key);
    if (!found || !found->is(PickleKind::dict)) continue;
    path += cat("['", key, "']");
    return found;
  }
  std::optional<std::size_t> only;
  for (std::size_t i = 0; accepts_any_key && i < dict.size(); ++i) {
    if (!dict.value(i).is(PickleKind::dict)) continue;
    if (only) return std::nullopt;
    only = i;
  }
  if (!only) return std::nullopt;
  path += cat("[", key_text(dict.key(*only)), "]");
  return dict.value(*only);
}

}  // namespace

TorchFile::TorchFile(const std::string& path, bool accepts_tensor) : TensorFile(path) {
  with_where(path, [&] {
    archive_ = std::make_unique<TorchArchive>(file_.bytes());
    if (accepts_tensor && tensor(root()) != nullptr) return;
    if (!root().is(PickleKind::dict))
      fail(Exit::bad_data, "the file contains ", root().describe(),
           " instead of a dict of tensors; save only the tensors, with torch.save(model.state_dict(), PATH)");
    list_tensors(root());
  });
}

void TorchFile::list_tensors(PickleValue dict) {
  for (std::size_t i = 0; i < dict.size(); ++i) {
    const PickleValue key = dict.key(i), value = dict.value(i);
    const TorchTensor* found = tensor(value);
    if (found == nullptr || !key.is(PickleKind::text)) continue;
    StoredTensor stored;
    stored.name = std::string(key.as_text());
    stored.dtype = found->dtype;
    stored.shape.assign(found->shape.begin(), found->shape.end());
    stored.end = found->count() * bits_of(found->dtype) / 8;
    if (!add(stored)) refuse_damaged("two tensors are named '", printable_text(stored.name), "'");
    views_.push_back(found);
  }
}

void TorchFile::select_state_dict() {
  constexpr int kMaxDepth = 8;  // dicts may contain themselves
  PickleValue dict = root();
  std::string selected;
  for (int depth = 0; depth < kMaxDepth; ++depth) {
    const std::optional<PickleValue> inner = find_state_dict(dict, tensors_.empty(), selected);
    if (!inner) break;
    dict = *inner;
    tensors_.clear();
    index_.clear();
    views_.clear();
    list_tensors(dict);
  }
  if (tensors_.empty()) fail_without_tensors(dict, selected);
}

void TorchFile::fail_without_tensors(PickleValue dict, const std::string& selected) const {
  std::vector<std::string> keys, models;
  for (std::size_t i = 0; i < std::min<std::size_t>(dict.size(), 8); ++i) {
    if (!dict.key(i).is(PickleKind::text)) continue;
    keys.push_back(key_text(dict.key(i)));
    const PickleValue inner = dict.value(i);
    bool has_tensor = false;
    for (std::size_t j = 0; inner.is(PickleKind::dict) && j < inner.size(); ++j)
      has_tensor = has_tensor || tensor(inner.value(j)) != nullptr;
    if (has_tensor) models.push_back(keys.back());
  }
  if (!models.empty())
    fail(Exit::bad_data, path(), " contains tensors only in inner dicts, under ", join(models, ", "),
         "; save the model's alone with torch.save(torch.load(PATH)", selected, "[", models.front(), "], NEW_PATH)");
  fail(Exit::bad_data, path(), " contains no tensors, but a dict with ",
       keys.empty() ? "no text keys" : cat("the keys ", join(keys, ", ")),
       "; save only the model's state dict with torch.save(model.state_dict(), PATH)");
}

std::span<const std::byte> TorchFile::data(const StoredTensor& stored) const {
  const TorchTensor& view = view_of(stored);
  if (view.is_contiguous() || stored.end == 0) return view.data.first(stored.end);
  const auto [copy, is_new] = contiguous_.try_emplace(&view);
  if (is_new) {
    copy->second.resize(stored.end);
    read_elements(view, 0, copy->second);
  }
  return copy->second;
}

const ZipEntry* TorchFile::record(const StoredTensor& stored) const { return view_of(stored).record; }

void TorchFile::verify() const {
  with_where(path(), [&] { archive_->verify(); });
}

}  // namespace mtl
