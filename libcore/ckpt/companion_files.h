// The files next to a model's weights that mtl copies to its output: the tokenizer and the generation defaults.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace mtl {

/// Reads a JSON file of a model's folder, which must be a regular file and may begin with a byte order mark. Throws
/// Error that names the file.
Json read_model_json(const std::string& path);

/// True for tokenizer.json, vocab.json, merges.txt and the other names that copy_companion_files copies.
bool is_companion_file(const std::string& name);

/// Copies those companion files that exist. Returns their names.
std::vector<std::string> copy_companion_files(const std::string& from, const std::string& to);

/// Throws Error(io) when a companion file is a FIFO, a device or a folder: reading it could block forever.
void check_companion_files(const std::string& folder);

/// The id of <|endoftext|> in a folder's tokenizer.json or vocab.json; empty if neither has it.
std::optional<std::int64_t> find_end_of_text_id(const std::string& folder);

/// The ids that end a text, from eos_token_id of a config.json or generation_config.json: a number or a list of
/// numbers. Empty when the key is absent or null. Throws Error(bad_data) for anything else.
std::vector<std::int64_t> eos_ids(const Json& config);
/// eos_ids of FOLDER/generation_config.json; empty without that file.
std::vector<std::int64_t> generation_eos_ids(const std::string& folder);

}  // namespace mtl
