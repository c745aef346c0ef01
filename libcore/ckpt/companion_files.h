// The files that lie beside a model's weights and are not ours to understand: its tokenizer, how it likes to generate.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mtl {

/// Copies those that are there, unchanged: tokenizer.json, vocab.json, merges.txt and their like, and
/// generation_config.json. Returns their names.
std::vector<std::string> copy_companion_files(const std::string& from, const std::string& to);

/// The id of <|endoftext|> in the tokenizer files of a folder, when it has any.
std::optional<std::int64_t> find_end_of_text_id(const std::string& folder);

}  // namespace mtl
