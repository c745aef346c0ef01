// Files next to a model's weights that mtl copies to its output: the tokenizer and the generation defaults.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace mtl {

/// True for tokenizer.json, vocab.json, merges.txt and the other files that copy_companion_files() copies.
bool is_companion_file(const std::string& name);

/// Copies all companion files from folder `from` to folder `to`. Returns their names.
std::vector<std::string> copy_companion_files(const std::string& from, const std::string& to);

/// Throws Error(io) if a companion file is not a regular file: reading a FIFO or a device could block forever.
void check_companion_files(const std::string& folder);

/// Returns the id of <|endoftext|> from the folder's tokenizer.json or, failing that, from vocab.json. Empty if neither
/// has that token.
std::optional<std::int64_t> find_end_of_text_id(const std::string& folder);

/// Returns the ids of the end-of-text tokens: the value of eos_token_id in a config.json or generation_config.json,
/// which is a number or a list of numbers. Empty if the key is absent or null. Throws Error(bad_data) for any other
/// value.
std::vector<std::int64_t> eos_ids(const Json& config);
/// Returns eos_ids() from FOLDER/generation_config.json. Empty if that file does not exist.
std::vector<std::int64_t> generation_eos_ids(const std::string& folder);

}  // namespace mtl
