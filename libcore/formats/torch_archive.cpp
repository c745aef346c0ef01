#include "formats/torch_archive.h"

#include <algorithm>

#include "base/count_of.h"
#include "base/error.h"
#include "base/printable.h"
#include "base/str.h"
#include "base/utf8.h"
#include "formats/tensor_file.h"
#include "formats/torch_globals.h"

namespace mtl {

namespace {

/// The first pickle in the stream format: the number 0x1950a86a20f9469cfc6c, little-endian.
constexpr std::string_view kStreamMagic("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 10);
constexpr std::int64_t kStreamProtocol = 1001;
constexpr std::size_t kMaxPickleBytes = std::size_t{1} << 26;
constexpr std::size_t kMaxTorchAxes = 16;
constexpr const char* kOrderRemedy = "', but mtl reads only 'little'; save it again on a little-endian machine";

template <class... Parts>
[[noreturn]] void refuse_file(const Parts&... parts) {
  fail(Exit::bad_data, parts...);
}

std::string_view as_characters(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::span<const std::byte> as_bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

bool starts_as_pickle(std::string_view text) { return text.size() >= 2 && byte_of(text[0]) == 0x80; }

/// Returns why we reject a file that is neither a zip archive nor a pickle.
std::string describe_other_file(std::string_view text) {
  if (text.empty()) return "the file is empty; copy or download it again";
  return "the file begins neither as a zip archive nor as a pickle, so torch.save did not write it; use another file";
}

std::int64_t integer_of(PickleValue value, const std::string& what) {
  if (!value.is(PickleKind::integer)) refuse_damaged(what, " is ", value.describe(), " instead of an integer");
  return value.as_int();
}

/// Returns 1 + the index of the tensor's last element in the storage. The first element is at `offset`. `tensor` must
/// not be empty.
std::int64_t checked_end(const TorchTensor& tensor, std::int64_t offset) {
  std::int64_t last = offset;
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    std::int64_t step = 0;
    if (__builtin_mul_overflow(tensor.shape[i] - 1, tensor.strides[i], &step) ||
        __builtin_add_overflow(last, step, &last))
      refuse_damaged("the index of a tensor's last element exceeds 63 bits");
  }
  if (last == INT64_MAX) refuse_damaged("the end of a tensor exceeds 63 bits");
  return last + 1;
}

bool is_tensor_function(std::string_view global) { return starts_with(global, "torch._utils._rebuild_tensor"); }

}  // namespace

std::vector<std::int64_t> read_torch_sizes(PickleValue value, const char* what) {
  if (value.is(PickleKind::object) && value.global() == "torch.Size" && value.arguments().size() == 1)
    value = value.arguments().at(0);
  if (!value.is(PickleKind::tuple) && !value.is(PickleKind::list))
    refuse_damaged("the ", what, "s of a tensor are ", value.describe(), " instead of a tuple");
  if (value.size() > kMaxTorchAxes)
    refuse_file("a tensor has ", value.size(), " axes, but mtl reads at most ", kMaxTorchAxes);
  std::vector<std::int64_t> out;
  for (std::size_t i = 0; i < value.size(); ++i) {
    out.push_back(integer_of(value.at(i), cat("a ", what, " of a tensor")));
    if (out.back() < 0) refuse_damaged("a ", what, " of a tensor is ", out.back());
  }
  return out;
}

std::int64_t checked_count(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (std::int64_t size : shape) {
    if (__builtin_mul_overflow(count, std::max<std::int64_t>(size, 1), &count))
      refuse_damaged("the product of a tensor's sizes exceeds 63 bits");
  }
  return std::ranges::find(shape, 0) == shape.end() ? count : 0;
}

TorchArchive::TorchArchive(std::span<const std::byte> bytes, std::string_view remedy) : bytes_(bytes), remedy_(remedy) {
  if (is_zip_archive(bytes_)) {
    open_zip();
  } else {
    open_stream();
  }
}

void TorchArchive::open_zip() {
  zip_.emplace(bytes_);
  if (zip_->entries().empty()) refuse_damaged("the zip archive has no entries");
  const std::string& first = zip_->entries().front().name;
  const std::string root = first.substr(0, first.find('/') + 1);
  for (const ZipEntry& entry : zip_->entries()) {
    if (root.empty() || !starts_with(entry.name, root))
      refuse_file("zip archive: entry '", printable_text(entry.name),
                  "' is not in the folder of the first entry, so torch.save did not write it; use another file");
  }
  const ZipEntry* object = zip_->find(root + "data.pkl");
  if (object == nullptr)
    refuse_file("zip archive: entry '", printable_text(root),
                "data.pkl' is missing, so torch.save did not write it; use another file");
  if (const ZipEntry* order = zip_->find(root + "byteorder"); order != nullptr) {
    const std::string_view text = as_characters(order->data);
    if (text != "little") refuse_file("the byte order is '", printable_text(text.substr(0, 20)), kOrderRemedy);
  }
  check_crc(*object);
  read_object(as_characters(object->data));
  for (auto& [key, storage] : storages_) {
    const ZipEntry* record = key.find('/') == std::string::npos ? zip_->find(cat(root, "data/", key)) : nullptr;
    if (record == nullptr) refuse_damaged("storage '", printable_text(key), "' has no entry in the zip archive");
    storage.data = record->data;
    storage.record = record;
    const std::uint64_t element = storage.is_untyped ? 1 : bits_of(storage.dtype) / 8;
    if (record->data.size() % element != 0 || record->data.size() / element != storage.elements)
      refuse_damaged("storage '", printable_text(key), "' has ", record->data.size(), " bytes for ", storage.elements,
                     " elements of ", count_of(element, "byte"));
  }
  collect_tensors();
}

void TorchArchive::open_stream() {
  std::string_view stream = as_characters(bytes_);
  if (!starts_as_pickle(stream)) refuse_file(describe_other_file(stream));
  std::size_t at = 0;
  const auto next = [&] {
    auto pickle = std::make_unique<Pickle>(stream.substr(at, kMaxPickleBytes), torch_global_use, remedy_);
    at += pickle->length();
    return pickle;
  };
  const auto magic = next();
  if (!magic->root().is(PickleKind::big_integer) || magic->root().as_digits() != kStreamMagic)
    refuse_file("the pickle has no PyTorch magic number, so torch.save did not write it; use another file");
  if (const std::int64_t protocol = integer_of(next()->root(), "the protocol"); protocol != kStreamProtocol)
    refuse_file("the file has torch.save's protocol ", protocol, ", but mtl reads only ", kStreamProtocol,
                "; save it with a newer PyTorch");
  const auto system = next();
  const std::optional<PickleValue> little = system->root().find("little_endian");
  if (!little || !little->is(PickleKind::boolean)) refuse_damaged("the file does not state its byte order");
  if (!little->as_bool()) refuse_file("the byte order is 'big", kOrderRemedy);
  const std::size_t object = at;
  read_object(stream.substr(at, kMaxPickleBytes));
  attach_storages(stream.substr(object + pickle_->length()));
  collect_tensors();
}

/// Finds the data for all storages. `stream` starts with the pickle of the storage keys; the storages follow in key
/// order.
void TorchArchive::attach_storages(std::string_view stream) {
  const Pickle keys(stream.substr(0, kMaxPickleBytes), torch_global_use);
  stream.remove_prefix(keys.length());
  if (!keys.root().is(PickleKind::list))
    refuse_damaged("the storage keys are ", keys.root().describe(), " instead of a list");
  for (std::size_t i = 0; i < keys.root().size(); ++i) {
    const PickleValue key_value = keys.root().at(i);
    if (!key_value.is(PickleKind::text)) refuse_damaged("a storage key is ", key_value.describe());
    const std::string_view key = key_value.as_text();
    const auto found = storages_.find(key);
    if (found == storages_.end()) refuse_damaged("storage '", printable_text(key), "' belongs to no tensor");
    Storage& storage = found->second;
    if (storage.data.data() != nullptr) refuse_damaged("storage '", printable_text(key), "' is stored twice");
    const std::uint64_t element = storage.is_untyped ? 1 : bits_of(storage.dtype) / 8;
    if (stream.size() < 8) refuse_damaged("the file ends before storage '", printable_text(key), "'");
    const std::uint64_t elements = from_little_endian(stream.substr(0, 8));
    stream.remove_prefix(8);
    if (elements != storage.elements)
      refuse_damaged("storage '", printable_text(key), "' has ", elements, " elements, but its tensors expect ",
                     storage.elements);
    if (elements > stream.size() / element)
      refuse_damaged("storage '", printable_text(key), "' has ", elements, " elements of ", count_of(element, "byte"),
                     ", but only ", count_of(stream.size(), "byte"), " follow");
    storage.data = as_bytes_of(stream.substr(0, elements * element));
    stream.remove_prefix(elements * element);
  }
  for (const auto& [key, storage] : storages_) {
    if (storage.data.data() == nullptr) refuse_damaged("storage '", printable_text(key), "' is missing");
  }
}

void TorchArchive::read_object(std::string_view stream) {
  if (stream.size() > kMaxPickleBytes)
    refuse_file("the pickle has ", stream.size(), " bytes, but mtl reads at most ", kMaxPickleBytes,
                "; save only the tensors, with torch.save(model.state_dict(), PATH)");
  pickle_ = std::make_unique<Pickle>(stream, torch_global_use, remedy_);
  header_ = as_bytes_of(stream.substr(0, pickle_->length()));
  collect_storages();
}

/// Collects the storages that persistent ids refer to. A persistent id is ("storage", type, key, location, number of
/// elements[, None]).
void TorchArchive::collect_storages() {
  for (std::size_t i = 0; i < pickle_->count(); ++i) {
    if (!(*pickle_)[i].is(PickleKind::persistent)) continue;
    const PickleValue id = (*pickle_)[i].persistent_id();
    const bool is_storage = id.is(PickleKind::tuple) && (id.size() == 5 || id.size() == 6) &&
                            id.at(0).is(PickleKind::text) && id.at(0).as_text() == "storage" &&
                            id.at(2).is(PickleKind::text);
    if (!is_storage) refuse_file("a persistent id is ", id.describe(), ", which does not describe a storage");
    if (id.size() == 6 && !id.at(5).is(PickleKind::none))
      refuse_file("the file has views of storages, as PyTorch before 0.4 wrote them; save it with a newer PyTorch");
    const std::string type = id.at(1).global();
    const std::optional<StoredDType> dtype = dtype_of_storage(type);
    Storage storage;
    storage.is_untyped = is_untyped_storage(type);
    if (!dtype && !storage.is_untyped)
      refuse_file("a storage has the type ", id.at(1).describe(),
                  ", which mtl does not read; save the tensors as float32");
    storage.dtype = dtype.value_or(StoredDType::u8);
    const std::int64_t elements = integer_of(id.at(4), "the number of elements of a storage");
    if (elements < 0) refuse_damaged("a storage has ", elements, " elements");
    storage.elements = elements;
    const std::string key(id.at(2).as_text());
    const auto [found, is_new] = storages_.emplace(key, storage);
    if (!is_new && (found->second.dtype != storage.dtype || found->second.elements != storage.elements ||
                    found->second.is_untyped != storage.is_untyped))
      refuse_damaged("storage '", printable_text(key), "' has two types or sizes");
  }
}

const TorchArchive::Storage& TorchArchive::storage_of(PickleValue persistent) const {
  return storages_.find(persistent.persistent_id().at(2).as_text())->second;
}

/// Returns the tensor that a call to one of these functions creates:
///   _rebuild_tensor(storage, offset, sizes, strides)
///   _rebuild_tensor_v2(storage, offset, sizes, strides, requires_grad, hooks[, metadata])
///   _rebuild_tensor_v3(storage, offset, sizes, strides, requires_grad, hooks, dtype[, metadata]), for untyped storages
TorchTensor TorchArchive::rebuild(const std::string& function, PickleValue arguments) const {
  const bool has_dtype = ends_with(function, "_v3");
  const bool is_first = ends_with(function, "_rebuild_tensor");  // the only version without metadata
  const std::size_t fewest = has_dtype ? 7 : is_first ? 4 : 6, most = fewest + (is_first ? 0 : 1);
  if (arguments.size() < fewest || arguments.size() > most)
    refuse_damaged(function, " has ", count_of(arguments.size(), "argument"));
  const Storage& storage = storage_of(arguments.at(0));
  TorchTensor out;
  out.dtype = storage.dtype;
  out.record = storage.record;
  if (has_dtype != storage.is_untyped)
    refuse_damaged(function, " is applied to ", storage.is_untyped ? "an untyped" : "a typed", " storage");
  if (has_dtype) {
    const std::optional<StoredDType> dtype = dtype_of_torch_global(arguments.at(6).global());
    if (!dtype)
      refuse_file("a tensor has the type ", arguments.at(6).describe(),
                  ", which mtl does not read; save it as float32");
    out.dtype = *dtype;
  }
  const std::int64_t offset = integer_of(arguments.at(1), "the offset of a tensor");
  if (offset < 0) refuse_damaged("a tensor is at offset ", offset, " of its storage");
  out.shape = read_torch_sizes(arguments.at(2), "size");
  out.strides = read_torch_sizes(arguments.at(3), "stride");
  if (out.shape.size() != out.strides.size())
    refuse_damaged("a tensor has ", count_of(out.shape.size(), "size"), " but ",
                   count_of(out.strides.size(), "stride"));
  const std::int64_t count = checked_count(out.shape), element = bits_of(out.dtype) / 8;
  if (count == 0) return out;
  const std::int64_t elements = static_cast<std::int64_t>(storage.data.size()) / element;
  const std::int64_t end = checked_end(out, offset);
  if (end > elements) refuse_damaged("a tensor ends at element ", end, " of a storage of ", elements);
  if (count > static_cast<std::int64_t>(bytes_.size()) / element)
    refuse_file("a tensor expands to ", count,
                " elements, more than the file has; call contiguous() on it before torch.save");
  out.data = storage.data.subspan(offset * element);
  return out;
}

/// Returns the tensor of a call _rebuild_from_type_v2(function, type, arguments, attributes), which saves a tensor that
/// has attributes in Python, such as Megatron-LM's main weights: tensor_model_parallel, partition_dim.
TorchTensor TorchArchive::rebuild_from_type(PickleValue arguments) const {
  const bool is_call = arguments.size() == 4 && arguments.at(2).is(PickleKind::tuple);
  const std::string function = is_call && arguments.at(0).is(PickleKind::global) ? arguments.at(0).global() : "";
  if (!is_tensor_function(function)) refuse_damaged("a tensor with attributes has no tensor");
  return rebuild(function, arguments.at(2));
}

void TorchArchive::collect_tensors() {
  for (std::size_t i = 0; i < pickle_->count(); ++i) {
    const PickleValue value = (*pickle_)[i];
    if (!value.is(PickleKind::object)) continue;
    const std::string global = value.global();
    if (is_tensor_function(global)) {
      tensors_.emplace(value.number(), rebuild(global, value.arguments()));
    } else if (global == "torch._tensor._rebuild_from_type_v2") {
      tensors_.emplace(value.number(), rebuild_from_type(value.arguments()));
    } else if (starts_with(global, "torch._utils._rebuild_parameter")) {
      const bool has_data = value.arguments().size() > 0;
      const TorchTensor* inner = has_data ? tensor(value.arguments().at(0)) : nullptr;
      if (inner == nullptr) refuse_damaged("a parameter has no tensor");
      tensors_.emplace(value.number(), *inner);
    }
  }
}

void TorchArchive::verify() const {
  if (!zip_) return;
  for (const ZipEntry& entry : zip_->entries()) check_crc(entry);
}

}  // namespace mtl
