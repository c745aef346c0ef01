#include "ckpt/manifest.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/files.h"
#include "base/find.h"
#include "base/hash.h"
#include "formats/slice_overlap.h"
#include "models/canonical.h"
#include "models/tensor_reader.h"

namespace mtl {

namespace {

constexpr const char* kFormat = "mtl-checkpoint";
constexpr std::int64_t kFormatVersion = 1;
constexpr std::size_t kMaxAxes = 8;

struct StateField {
  const char* key;
  std::int64_t TrainState::*member;
};

constexpr StateField kStateFields[] = {{"iteration", &TrainState::iteration},
                                       {"consumed_samples", &TrainState::consumed_samples},
                                       {"consumed_valid_samples", &TrainState::consumed_valid_samples},
                                       {"optimizer_steps", &TrainState::optimizer_steps},
                                       {"skipped_iterations", &TrainState::skipped_iterations}};

Json state_to_json(const TrainState& state) {
  Json out = Json::object();
  for (const StateField& field : kStateFields) out.set(field.key, state.*field.member);
  out.set("loss_scale", state.loss_scale);
  out.set("extra", state.extra);
  return out;
}

TrainState state_from_json(const Json& json) {
  TrainState state;
  for (const StateField& field : kStateFields) {
    state.*field.member = json.at(field.key).as_int();
    if (state.*field.member < 0)
      fail(Exit::bad_data, "state.", field.key, " is ", state.*field.member, ", but must be at least 0");
  }
  state.loss_scale = json.at("loss_scale").as_number();
  state.extra = json.at("extra");
  if (!state.extra.is_object()) fail(Exit::bad_data, "state.extra is not an object");
  return state;
}

Json integers(const std::vector<std::int64_t>& values) { return Json::Array(values.begin(), values.end()); }

std::vector<std::int64_t> to_integers(const Json& json) {
  if (json.as_array().size() > kMaxAxes) fail(Exit::bad_data, "a shape or slice has more than ", kMaxAxes, " axes");
  std::vector<std::int64_t> out;
  for (const Json& value : json.as_array()) {
    out.push_back(value.as_int());
    if (out.back() < 0) fail(Exit::bad_data, "a size or offset is ", out.back(), ", but must be at least 0");
  }
  return out;
}

/// Returns the product of `sizes`. Rejects products of more than 63 bits.
std::int64_t checked_product(const std::vector<std::int64_t>& sizes) {
  std::int64_t product = 1;
  for (std::int64_t size : sizes) {
    if (__builtin_mul_overflow(product, size, &product))
      fail(Exit::bad_data, "the element count of a shape exceeds 63 bits");
  }
  return product;
}

std::string to_hash(const Json& json) {
  const std::string& text = json.as_string();
  if (text.size() != 16) fail(Exit::bad_data, "'", text, "' is not a hash");
  return text;
}

Json piece_to_json(const ManifestPiece& piece) {
  Json out = Json::object({{"file", piece.file},
                           {"offset", integers(piece.slice.offset)},
                           {"size", integers(piece.slice.size)},
                           {"range", integers({piece.slice.begin, piece.slice.end})},
                           {"xxh3", piece.hash}});
  if (piece.blocks.empty()) return out;
  out.set("blocks", Json::Array(piece.blocks.begin(), piece.blocks.end()));
  return out;
}

ManifestPiece piece_from_json(const Json& json, const std::vector<std::int64_t>& shape) {
  ManifestPiece piece;
  piece.file = json.at("file").as_string();
  piece.slice.offset = to_integers(json.at("offset"));
  piece.slice.size = to_integers(json.at("size"));
  std::vector<std::int64_t> range = to_integers(json.at("range"));
  piece.hash = to_hash(json.at("xxh3"));
  if (!is_inside(piece.slice, shape) || range.size() != 2) fail(Exit::bad_data, "a slice is not inside its tensor");
  piece.slice.begin = range[0], piece.slice.end = range[1];
  if (range[0] > range[1] || range[1] > checked_product(piece.slice.size)) {
    fail(Exit::bad_data, "an element range is not inside its slice");
  }
  if (const Json* blocks = json.find("blocks")) {
    for (const Json& block : blocks->as_array()) piece.blocks.push_back(to_hash(block));
  }
  return piece;
}

using FileSizes = std::map<std::string_view, std::uint64_t>;  // size in bytes, by name

/// Checks that a piece fits into its file. If it is longer than one block, also checks that there is a hash for each
/// block.
void check_piece(const FileSizes& files, std::int64_t block_bytes, const ManifestTensor& entry,
                 const ManifestPiece& piece) {
  auto file = files.find(piece.file);
  if (file == files.end()) fail(Exit::bad_data, "its file '", piece.file, "' is not in the manifest's list of files");
  auto element = static_cast<std::uint64_t>(bits_of(entry.tensor.dtype) / 8);
  if (static_cast<std::uint64_t>(piece.slice.count()) > file->second / element)
    fail(Exit::bad_data, "its piece in '", piece.file, "' has more elements than fit in that file");
  std::int64_t bytes = stored_bytes(entry, piece);
  std::int64_t blocks = block_bytes > 0 && bytes > block_bytes ? (bytes - 1) / block_bytes + 1 : 0;
  if (std::ssize(piece.blocks) != blocks)
    fail(Exit::bad_data, "its piece in '", piece.file, "' has ", piece.blocks.size(), " hashes of blocks instead of ",
         blocks);
}

ManifestTensor tensor_from_json(const std::string& name, const Json& json) {
  ManifestTensor out;
  out.tensor.name = name;
  std::optional<StoredDType> dtype = parse_stored_dtype(json.at("dtype").as_string());
  if (!dtype || !is_model_dtype(*dtype))
    fail(Exit::bad_data, "its dtype is '", json.at("dtype").as_string(), "', not a dtype of models");
  out.tensor.dtype = *dtype;
  out.tensor.shape = to_integers(json.at("shape"));
  for (const Json& item : json.at("pieces").as_array()) out.pieces.push_back(piece_from_json(item, out.tensor.shape));
  return out;
}

/// Checks that the pieces together have as many elements as the tensor, and that each piece is in a different file.
void check_count(const ManifestTensor& entry) {
  std::int64_t stored = 0;
  std::set<std::string> files;
  for (const ManifestPiece& piece : entry.pieces) {
    if (!files.insert(piece.file).second) fail(Exit::bad_data, "two of its pieces are in one file");
    if (__builtin_add_overflow(stored, piece.slice.count(), &stored))
      fail(Exit::bad_data, "the element count of its pieces exceeds 63 bits");
  }
  std::int64_t needed = checked_product(entry.tensor.shape);
  if (stored != needed) fail(Exit::bad_data, "its pieces have ", stored, " elements, but its shape has ", needed);
}

Json files_to_json(const Manifest& manifest) {
  Json files = Json::object();
  for (const ManifestFile& file : manifest.files)
    files.set(file.name, Json::object({{"bytes", file.bytes}, {"xxh3", file.hash}}));
  return files;
}

void add_files(Manifest& manifest, const Json& files) {
  std::set<std::string> names;
  for (const auto& [name, file] : files.as_object()) {
    std::int64_t bytes = file.at("bytes").as_int();
    const bool can_be_listed = is_plain_name(name) && name != kManifestName;
    if (!can_be_listed || !names.insert(name).second || bytes < 0)
      fail(Exit::bad_data, "file '", name, "' has an invalid name or size, or is listed twice");
    manifest.files.push_back(
        {.name = name, .bytes = static_cast<std::uint64_t>(bytes), .hash = to_hash(file.at("xxh3"))});
  }
}

Json tensors_to_json(const Manifest& manifest) {
  Json tensors = Json::object();
  for (const ManifestTensor& entry : manifest.tensors) {
    Json pieces = Json::array();
    for (const ManifestPiece& piece : entry.pieces) pieces.push(piece_to_json(piece));
    tensors.set(entry.tensor.name, Json::object({{"dtype", name_of(entry.tensor.dtype)},
                                                 {"shape", integers(entry.tensor.shape)},
                                                 {"pieces", std::move(pieces)}}));
  }
  return tensors;
}

/// Returns the hash of all items except the checksum. Serializes the items again, so that whitespace in the file does
/// not matter.
std::string checksum_of(const Json::Object& items) {
  Json covered = Json::object();
  for (const auto& [key, value] : items) {
    if (key != "checksum") covered.set(key, value);
  }
  std::string text = covered.dump(1);
  return hash_text(hash_bytes(text.data(), text.size()));
}

}  // namespace

const ManifestFile* Manifest::find_file(const std::string& name) const {
  return find_or_null(files, name, &ManifestFile::name);
}

std::vector<std::uint64_t> stored_shape(const Slice& slice) {
  if (slice.count() != whole_slice(slice.size).count()) return {static_cast<std::uint64_t>(slice.count())};
  return {slice.size.begin(), slice.size.end()};
}

std::int64_t stored_bytes(const ManifestTensor& entry, const ManifestPiece& piece) {
  return piece.slice.count() * (bits_of(entry.tensor.dtype) / 8);
}

void check_disjoint(const ManifestTensor& entry) {
  std::vector<const Slice*> slices;
  for (const ManifestPiece& piece : entry.pieces) slices.push_back(&piece.slice);
  if (const auto found = find_overlap(slices))
    fail(Exit::bad_data, "its pieces in ", entry.pieces[found->first].file, " and ", entry.pieces[found->second].file,
         " overlap");
}

std::string manifest_text(const Manifest& manifest) {
  Json out = Json::object({{"format", kFormat},
                           {"version", kFormatVersion},
                           {"config", config_to_json(manifest.config)},
                           {"state", state_to_json(manifest.state)},
                           {"files", files_to_json(manifest)},
                           {"tensors", tensors_to_json(manifest)},
                           {"provenance", manifest.provenance}});
  if (manifest.block_bytes > 0) out.set("block_bytes", manifest.block_bytes);
  out.set("checksum", checksum_of(out.as_object()));
  return out.dump(1) + "\n";
}

namespace {

/// Reads what follows the checksum. Errors lack a remedy.
Manifest manifest_from_json(const Json& json) {
  Manifest out;
  out.config = config_from_json(json.at("config"));
  out.state = state_from_json(json.at("state"));
  out.provenance = json.at("provenance");
  out.block_bytes = json.int_or("block_bytes", 0);
  if (out.block_bytes < 0) fail(Exit::bad_data, "block_bytes is ", out.block_bytes, ", but must be at least 0");
  add_files(out, json.at("files"));
  FileSizes sizes;
  for (const ManifestFile& file : out.files) sizes.emplace(file.name, file.bytes);
  std::set<std::string> tensors;
  for (const auto& [name, tensor] : json.at("tensors").as_object()) {
    try {
      if (!tensors.insert(name).second) fail(Exit::bad_data, "two entries have this name");
      out.tensors.push_back(tensor_from_json(name, tensor));
      check_count(out.tensors.back());
      for (const ManifestPiece& piece : out.tensors.back().pieces)
        check_piece(sizes, out.block_bytes, out.tensors.back(), piece);
    } catch (const Error& error) {
      fail(Exit::bad_data, "tensor '", name, "': ", error.what());
    }
  }
  return out;
}

}  // namespace

Manifest parse_manifest(std::string_view text, ChecksumCheck checksum) {
  Json json = Json::parse(text);
  if (json.string_or("format", "") != kFormat)
    fail(Exit::bad_data, "the file is not the manifest of an mtl checkpoint; load another checkpoint");
  std::int64_t version = json.at("version").as_int();
  if (version != kFormatVersion)
    fail(Exit::bad_data, "the manifest has format version ", version, ", but this mtl reads only version ",
         kFormatVersion, "; use the version of mtl that wrote the checkpoint");
  if (checksum == ChecksumCheck::required && json.at("checksum").as_string() != checksum_of(json.as_object())) {
    fail(Exit::bad_data, "the checksum does not match, so the manifest is damaged; load another checkpoint");
  }
  try {
    return manifest_from_json(json);
  } catch (const Error& error) {
    if (error.code() != Exit::bad_data) throw;
    fail(Exit::bad_data, error.what(), "; load another checkpoint");
  }
}

std::string manifest_part_text(const Manifest& part) {
  return Json::object({{"files", files_to_json(part)}, {"tensors", tensors_to_json(part)}}).dump();
}

namespace {

bool has_kind(const std::map<std::string, ManifestTensor>& tensors, const std::string& kind) {
  auto first = tensors.lower_bound(kind + ".");
  return first != tensors.end() && starts_with(first->first, kind + ".");
}

}  // namespace

void join_manifest_parts(Manifest& manifest, const std::vector<std::string>& parts) {
  std::map<std::string, ManifestTensor> tensors;
  for (const std::string& text : parts) {
    Json part = Json::parse(text);
    add_files(manifest, part.at("files"));
    for (const auto& [name, json] : part.at("tensors").as_object()) {
      ManifestTensor entry = tensor_from_json(name, json);
      auto [known, is_new] = tensors.try_emplace(name, entry);
      if (is_new) continue;
      SavedTensor& tensor = known->second.tensor;
      require(tensor.dtype == entry.tensor.dtype && tensor.shape == entry.tensor.shape, "cannot save tensor '", name,
              "', because ranks disagree on its dtype or shape");
      std::move(entry.pieces.begin(), entry.pieces.end(), std::back_inserter(known->second.pieces));
    }
  }
  const std::vector<CanonicalTensor> model = canonical_tensors(manifest.config);
  auto holds = [&](const std::string& kind) { return has_kind(tensors, kind); };
  const std::vector<std::string> kinds = tensor_kinds(holds);
  std::vector<std::vector<std::string>> kinds_of;  // by parameter
  for (const CanonicalTensor& canonical : model)
    kinds_of.push_back(
        param_kinds(kinds, [&](const std::string& kind) { return tensors.contains(cat(kind, ".", canonical.name)); }));
  for (const std::string& kind : kinds) {
    for (std::size_t i = 0; i < model.size(); ++i) {
      if (std::ranges::count(kinds_of[i], kind) == 0) continue;
      const CanonicalTensor& canonical = model[i];
      std::string name = cat(kind, ".", canonical.name);
      auto found = tensors.find(name);
      require(found != tensors.end() && found->second.tensor.shape == canonical.shape, "cannot save tensor '", name,
              "', because no rank has it in the shape ", shape_text(canonical.shape));
      try {
        check_count(found->second);
        check_disjoint(found->second);
      } catch (const Error& error) {
        fail(Exit::failure, "cannot save tensor '", found->first, "': ", error.what());
      }
      manifest.tensors.push_back(std::move(found->second));
      tensors.erase(found);
    }
  }
  if (!tensors.empty())
    fail(Exit::failure, "cannot save tensor '", tensors.begin()->first, "', which is not part of the model");
}

}  // namespace mtl
