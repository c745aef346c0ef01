// The formats of token files that mtl knows: its own pair, Megatron-LM's, and the flat files of other tools, which have
// ids and no index. mtl-data import and export convert between them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace mtl {

enum class TokenFormat { megatron, llm_c, llmq, lit_gpt, npy, nanogpt };

/// A row of the table that `mtl-data formats` prints and docs/data.md contains.
struct TokenFormatRow {
  TokenFormat format;
  std::string_view name;        // for --format
  std::string_view recognized;  // by what a file is recognized
  std::string_view reads;       // what mtl-data import accepts
  std::string_view writes;      // what mtl-data export writes; "": nothing
};
std::span<const TokenFormatRow> token_formats();

/// Returns the format's name, such as "llm.c".
std::string_view name_of(TokenFormat format);
/// Returns nullopt if no format has this name.
std::optional<TokenFormat> parse_token_format(std::string_view name);

/// The first number of llm.c's files: of tokens stored as u16 or u32, and of multiple-choice questions.
inline constexpr std::int32_t kLlmCTokens = 20240520, kLlmCWideTokens = 20240801, kLlmCQuestions = 20240522;

/// How the files of lit-gpt begin.
inline constexpr std::string_view kLitGptMagic = "LITPKDS";

/// How many first bytes recognize_token_file() examines.
inline constexpr std::size_t kTokenMagicBytes = 16;
/// Returns the format of a file that begins with `head`, or nullopt. Files without a header, such as nanoGPT's, cannot
/// be recognized.
std::optional<TokenFormat> recognize_token_file(std::string_view head);

/// Why token files have no .idx.
struct MissingIndex {
  Exit code;            // bad_data: the file has another format; io: half of the pair is missing
  std::string message;  // with the command that converts the file
};
/// For token files `path` (their prefix, or either file) without an .idx: explains what `path` or the .bin is. Returns
/// nullopt if neither exists.
std::optional<MissingIndex> explain_missing_index(const std::string& path);

}  // namespace mtl
