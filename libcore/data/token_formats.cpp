#include "data/token_formats.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/files.h"
#include "base/open_file.h"
#include "base/shell_word.h"
#include "base/str.h"
#include "data/indexed_format.h"
#include "data/npy.h"

namespace mtl {
namespace {

constexpr TokenFormatRow kRows[] = {
    {TokenFormat::megatron, "megatron", "PREFIX.idx begins with MMIDIDX", "nothing: all commands read it as it is",
     "nothing: merge, split and shuffle write it"},
    {TokenFormat::llm_c, "llm.c", "begins with the i32 20240520 or 20240801",
     "version 1 (u16), version 7 (u32); also modded-nanogpt's files", "the same, up to 2^31 - 1 tokens"},
    {TokenFormat::llmq, "llmq", "begins with BIN.TOK", "versions 1 and 2 (i32) without loss masks", ""},
    {TokenFormat::lit_gpt, "lit-gpt", "begins with LITPKDS",
     "version 1, integers: packed files of lit-gpt, lit-llama and TinyLlama", ""},
    {TokenFormat::npy, "npy", "begins with \\x93NUMPY",
     "versions 1.0 to 3.0: one dimension, integers, little-endian, C order", "version 1.0, any type"},
    {TokenFormat::nanogpt, "nanogpt", "no header, so only with --format nanogpt",
     "u16, or the type that --input-type names", "u16, u32, or the type that --token-type names"},
};

/// The first bytes of a file in a format.
struct Magic {
  TokenFormat format;
  std::string_view bytes;
};
constexpr Magic kMagics[] = {
    {TokenFormat::megatron, kIndexMagic},
    {TokenFormat::llmq, "BIN.TOK\n"},
    {TokenFormat::lit_gpt, kLitGptMagic},
    {TokenFormat::npy, kNpyMagic},
};

/// Returns the format of an existing file. Errors of reading are left to whoever opens the file.
std::optional<TokenFormat> format_of_file(const std::string& path) {
  if (!is_regular_file(path)) return {};
  try {
    std::array<std::byte, kTokenMagicBytes> head;
    const auto part = std::span(head).first(std::min<std::uint64_t>(head.size(), file_size(path)));
    OpenFile(path).read(0, part);
    return recognize_token_file({reinterpret_cast<const char*>(part.data()), part.size()});
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

std::span<const TokenFormatRow> token_formats() { return kRows; }

std::string_view name_of(TokenFormat format) { return std::ranges::find(kRows, format, &TokenFormatRow::format)->name; }

std::optional<TokenFormat> parse_token_format(std::string_view name) {
  const auto* row = std::ranges::find(kRows, name, &TokenFormatRow::name);
  return row == std::end(kRows) ? std::nullopt : std::optional(row->format);
}

std::optional<TokenFormat> recognize_token_file(std::string_view head) {
  for (const Magic& magic : kMagics) {
    if (starts_with(head, magic.bytes)) return magic.format;
  }
  if (head.size() < sizeof(std::int32_t)) return {};
  const auto number = static_cast<std::int32_t>(from_little_endian(head.substr(0, sizeof(std::int32_t))));
  for (const std::int32_t magic : {kLlmCTokens, kLlmCWideTokens, kLlmCQuestions}) {
    if (number == magic) return TokenFormat::llm_c;
  }
  return {};
}

std::optional<MissingIndex> explain_missing_index(const std::string& path) {
  constexpr const char* kThen = " --eod ID --output-prefix NEW, where ID is the end-of-document token (GPT-2's: 50256)";
  const std::string bin = dataset_prefix(path) + ".bin";
  for (const std::string& file : {path, bin}) {
    const auto format = format_of_file(file);
    if (!format || format == TokenFormat::megatron) continue;
    return MissingIndex{Exit::bad_data, cat(file, ": this is a token file of the format ", name_of(*format),
                                            ", not one of a pair .bin and .idx; convert it: mtl-data import ",
                                            shell_word(file), kThen)};
  }
  if (!file_exists(bin)) return {};
  return MissingIndex{
      Exit::io, cat(dataset_prefix(path), ".idx is missing, but ", bin,
                    " exists; copy the .idx, too, or if the .bin is ids and nothing else, as nanoGPT writes them, "
                    "convert it: mtl-data import --format nanogpt ",
                    shell_word(bin), kThen)};
}

}  // namespace mtl
