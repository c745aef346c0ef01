// The files that lie beside a model's weights and are not ours to understand: its tokenizer's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mtl {

/// Copies tokenizer.json, tokenizer_config.json, vocab.json, merges.txt and their like, those that are there,
/// unchanged. Returns their names.
std::vector<std::string> copy_tokenizer_files(const std::string& from, const std::string& to);

/// The id of <|endoftext|> in the tokenizer files of a folder, when it has any.
std::optional<std::int64_t> find_end_of_text_id(const std::string& folder);

}  // namespace mtl
