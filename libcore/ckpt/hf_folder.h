// Hugging Face GPT-2 folders: config.json, generation_config.json, model.safetensors (or shards with an index).
//
// GPT-2's linears are Conv1D, stored (in, out): the transpose of ours. Its c_attn holds [query | key | value], each
// (heads, head_dim); ours holds query, key and value of one head side by side. Element bits are never touched:
// a folder read and written in the same dtype has the same tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/json.h"
#include "ckpt/model_source.h"
#include "ckpt/stored_dtype.h"
#include "nn/gpt_config.h"

namespace mtl {

/// The configuration that a config.json describes. Throws Error(bad_data) with everything that mtl would compute
/// differently, each by its key. Keys that are absent have transformers' defaults.
GptConfig gpt_config_from_hf(const Json& hf_config);

struct HfWriteOptions {
  std::optional<StoredDType> dtype;  // empty: as stored
  std::uint64_t max_shard_bytes = 5'000'000'000;
  std::optional<std::int64_t> end_of_text_id;  // for config.json, where the source does not say
  /// Called with the elements of each tensor before and after their conversion.
  std::function<void(const std::string& name, StoredDType from, std::span<const std::byte> stored, StoredDType to,
                     std::span<const std::byte> converted)>
      on_conversion = {};
};

/// Writes the model, and the files that lie beside it, into an existing, empty folder. Every file is synced; the caller
/// renames the folder.
void write_hf_folder(const ModelSource& source, const std::string& folder, const HfWriteOptions& options);

/// Opens a folder for ModelSource.
std::unique_ptr<TensorReader> open_hf_folder(const std::string& folder);

}  // namespace mtl
