// Reads and writes Hugging Face folders for every family in hf_family.h: config.json, generation_config.json, and
// model.safetensors or multiple shards with an index. Also reads, but does not write, pytorch_model.bin (hf_weights.h).
//
// Reading a folder and writing it in the same dtype preserves every bit of the tensors. The writer omits a tied output
// layer. If a folder contains one, it must equal the token embedding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/json.h"
#include "formats/stored_dtype.h"
#include "models/conversion_hook.h"
#include "models/model_source.h"
#include "nn/gpt_config.h"

namespace mtl {

struct HfWriteOptions {
  std::optional<StoredDType> dtype;  // empty: as stored
  std::uint64_t max_shard_bytes = 5'000'000'000;
  std::optional<std::int64_t> end_of_text_id;  // bos and eos id for a config.json that is not based on the source's
  ConversionHook on_conversion = {};
};

/// Writes the model and its companion files into an existing, empty folder. Uses the family of the source's config.json
/// if that family can describe the model, otherwise hf_family_for(). Syncs every file. The caller must call
/// source.verify(), and then rename the folder to its final name.
void write_hf_folder(const ModelSource& source, const std::string& folder, const HfWriteOptions& options);

/// Opens a folder for ModelSource. Throws Error(bad_data) unless it has exactly the tensors of the model that
/// config.json describes.
std::unique_ptr<TensorReader> open_hf_folder(const std::string& folder);

}  // namespace mtl
