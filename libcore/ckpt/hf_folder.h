// Hugging Face folders of every family in hf_family.h: config.json, generation_config.json, model.safetensors (or
// shards with an index). Also reads pytorch_model.bin (hf_weights.h).
//
// Keeps element bits: a folder read and written in the same dtype has the same tensors. A tied output layer is not
// written; one that a folder stores must equal the token embedding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/json.h"
#include "ckpt/conversion_hook.h"
#include "ckpt/model_source.h"
#include "ckpt/stored_dtype.h"
#include "nn/gpt_config.h"

namespace mtl {

struct HfWriteOptions {
  std::optional<StoredDType> dtype;  // empty: as stored
  std::uint64_t max_shard_bytes = 5'000'000'000;
  std::optional<std::int64_t> end_of_text_id;  // bos and eos id of a config.json not made from the source's
  ConversionHook on_conversion = {};
};

/// Writes the model and its companion files into an existing, empty folder, as the family of the source's config.json
/// if that can describe the model, otherwise as hf_family_for(). Syncs every file; the caller renames the folder.
void write_hf_folder(const ModelSource& source, const std::string& folder, const HfWriteOptions& options);

/// Opens a folder for ModelSource. Throws Error(bad_data) unless its tensors are exactly the model's.
std::unique_ptr<TensorReader> open_hf_folder(const std::string& folder);

}  // namespace mtl
