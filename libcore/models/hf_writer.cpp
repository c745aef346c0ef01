// Writes Hugging Face folders: config.json, generation_config.json, and the tensors in one file or in shards with an
// index.
#include <algorithm>

#include "base/files.h"
#include "base/json.h"
#include "base/write_thread.h"
#include "formats/safetensors.h"
#include "formats/slice_steps.h"
#include "models/companion_files.h"
#include "models/hf_config.h"
#include "models/hf_folder.h"
#include "models/hf_names.h"
#include "models/tensor_blocks.h"

namespace mtl {

namespace {

/// A tensor to write, and the part of the source tensor that it holds.
struct Item {
  StoredTensor stored;
  std::string source;
  TensorPiece piece;
};

std::vector<Item> plan_items(const ModelSource& source, const HfFamily& family, std::optional<StoredDType> dtype) {
  std::vector<Item> out;
  for (const CanonicalTensor& canonical : canonical_tensors(source.config())) {
    const std::string name = "param." + canonical.name;
    const StoredDType source_dtype = source.find_tensor(name)->dtype;
    for (HfTensor& tensor : hf_tensors_of(canonical, family)) {
      StoredTensor stored{.name = tensor.name,
                          .dtype = dtype.value_or(source_dtype),
                          .shape = {tensor.shape.begin(), tensor.shape.end()}};
      out.push_back({std::move(stored), name, std::move(tensor.piece)});
    }
  }
  std::ranges::sort(out, [](const Item& a, const Item& b) { return a.stored.name < b.stored.name; });
  return out;
}

/// Fills one shard after another. A tensor larger than `max_bytes` gets its own shard.
std::vector<std::vector<Item>> cut_into_shards(std::vector<Item> items, std::uint64_t max_bytes) {
  std::vector<std::vector<Item>> shards(1);
  std::uint64_t shard_bytes = 0;
  for (Item& item : items) {
    std::uint64_t bytes = stored_bytes(item.stored.dtype, item.stored.shape);
    if (!shards.back().empty() && shard_bytes + bytes > max_bytes) {
      shards.emplace_back();
      shard_bytes = 0;
    }
    shard_bytes += bytes;
    shards.back().push_back(std::move(item));
  }
  return shards;
}

void write_tensors(const ModelSource& source, const std::string& path, const std::vector<Item>& items,
                   const HfWriteOptions& options) {
  AtomicFile file(path);
  std::vector<StoredTensor> plan;
  for (const Item& item : items) plan.push_back(item.stored);
  SafetensorsWriter writer(file.out(), plan, {{"format", "pt"}});
  WriteThread thread([&](std::span<const std::byte> block) { writer.write(block); });
  const auto push = [&](std::span<const std::byte> block) { thread.push(block); };
  TensorBlocks blocks(source, options.on_conversion);
  std::vector<std::byte> elements, reordered;
  for (const auto& [stored, name, piece] : items) {
    const TensorBlocks::Item item = {name, stored.name, stored.dtype};
    if (is_same_order(piece)) {
      blocks.read(item, piece.box, push);
      continue;
    }
    const std::size_t element = bits_of(stored.dtype) / 8;
    elements.resize(piece.box.count() * element);
    reordered.resize(elements.size());
    blocks.read(item, piece.box, elements);
    scatter_piece(piece, element, elements, reordered);
    for (std::span<const std::byte> rest = reordered; !rest.empty();) {
      const std::size_t bytes = std::min(kStepBytes, rest.size());
      thread.push(rest.first(bytes));
      rest = rest.subspan(bytes);
    }
  }
  thread.finish();
  writer.finish();
  file.commit();
}

void write_json(const std::string& path, const Json& json) { write_file_atomic(path, json.dump(2) + "\n"); }

/// Returns the family in the source's config.json if it can describe the model, otherwise the first family that can.
const HfFamily& family_of(const ModelSource& source) {
  const Json config = source.hf_config();
  const HfFamily* family = config.is_null() ? nullptr : find_hf_family_of(config);
  return family != nullptr && has_architecture(*family, source.config()) ? *family : hf_family_for(source.config());
}

bool describes(const Json& hf_config, const GptConfig& config) {
  return passes([&] { return gpt_config_from_hf(hf_config) == config; });
}

/// Returns the config.json to write, with sorted keys. Starts from the source's config.json if it is for this family.
/// Sets the architecture keys unless the file already describes the model.
Json make_config(const ModelSource& source, const HfFamily& family, StoredDType dtype, const HfWriteOptions& options) {
  Json out = source.hf_config();
  if (out.is_null() || find_hf_family_of(out) != &family) {
    const Json end_of_text = options.end_of_text_id ? Json(*options.end_of_text_id) : Json();
    out = Json::object({{"bos_token_id", end_of_text}, {"eos_token_id", end_of_text}});
    for (const HfDropout& dropout : family.dropouts) out.set(dropout.key, dropout.fallback);
  }
  if (!describes(out, source.config())) {
    const Json architecture = hf_config_for(family, source.config());
    for (const auto& [key, value] : architecture.as_object()) out.set(key, value);
  }
  if (const std::optional<ModelDropout> dropout = source.dropout(); dropout && dropout_from_hf(out) != *dropout)
    set_hf_dropout(family, *dropout, out);
  if (out.find("torch_dtype") != nullptr) out.set("torch_dtype", torch_name_of(dtype));
  out.set("architectures", Json::array().push(family.architecture)).set("dtype", torch_name_of(dtype));
  Json::Object sorted = out.as_object();
  std::ranges::sort(sorted, [](const auto& a, const auto& b) { return a.first < b.first; });
  Json result = Json::object();
  for (auto& [key, value] : sorted) result.set(key, value);
  return result;
}

/// Writes generation_config.json with the bos and eos ids in `config`, for a source that has no such file.
void write_generation_config(const std::string& folder, const Json& config) {
  Json out = Json::object({{"_from_model_config", true}});
  for (const char* key : {"bos_token_id", "eos_token_id"}) {
    if (const Json* id = config.find(key); id != nullptr && !id->is_null()) out.set(key, *id);
  }
  write_json(folder + "/generation_config.json", out);
}

/// If tokenizer_config.json does not limit model_max_length, sets the limit to `positions`; transformers warns about
/// longer texts. mtl writes a tokenizer before the model exists, so its own tokenizer_config.json has no limit.
void set_model_max_length(const std::string& folder, std::int64_t positions) {
  constexpr double kNoLimit = 1e18;  // transformers writes int(1e30) if there is no limit
  const std::string path = folder + "/tokenizer_config.json";
  if (!file_exists(path)) return;
  Json config = Json::read(path);
  if (!config.is_object()) return;
  if (const Json* length = config.find("model_max_length"); length != nullptr && length->is_number()) {
    if (length->as_number() < kNoLimit) return;
  }
  config.set("model_max_length", positions);
  write_json(path, config);
}

}  // namespace

void write_hf_folder(const ModelSource& source, const std::string& folder, const HfWriteOptions& options) {
  const HfFamily& family = family_of(source);
  std::vector<Item> items = plan_items(source, family, options.dtype);
  StoredDType dtype = items.front().stored.dtype;
  Json config = make_config(source, family, dtype, options);
  write_json(folder + "/config.json", config);
  copy_companion_files(source.folder(), folder);
  if (source.kind() == "checkpoint") set_model_max_length(folder, source.config().longest_sequence());
  if (!file_exists(folder + "/generation_config.json")) write_generation_config(folder, config);
  std::vector<std::vector<Item>> shards = cut_into_shards(std::move(items), options.max_shard_bytes);
  if (shards.size() == 1) return write_tensors(source, folder + "/model.safetensors", shards[0], options);
  Json weight_map = Json::object();
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    std::string name = format("model-%05zu-of-%05zu.safetensors", i + 1, shards.size());
    write_tensors(source, cat(folder, "/", name), shards[i], options);
    for (const Item& item : shards[i]) {
      weight_map.set(item.stored.name, name);
      total += stored_bytes(item.stored.dtype, item.stored.shape);
    }
  }
  write_json(
      folder + "/model.safetensors.index.json",
      Json::object({{"metadata", Json::object({{"total_size", total}})}, {"weight_map", std::move(weight_map)}}));
}

}  // namespace mtl
