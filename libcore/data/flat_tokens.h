// Flat token files: ids one after another, after a header or none, without an index of documents. These are the files
// of nanoGPT, llm.c (and modded-nanogpt), llmq, lit-gpt (and TinyLlama), and NumPy arrays.
//
// - nanoGPT: no header. The type is not stored; nanoGPT writes u16.
// - llm.c: 256 i32. The first three are the magic 20240520, the version 1 and the number of tokens, which are u16; or,
//   for Llama 3's vocabulary, the magic 20240801, the version 7, and tokens that are u32.
// - llmq: 1,024 bytes. They begin with "BIN.TOK\n" and the i32 version (1 or 2), bytes per token (4) and number of
//   tokens; from version 2 on also with the vocabulary size and whether a loss mask follows the tokens. Tokens are i32.
// - lit-gpt: 24 bytes: "LITPKDS", the u64 version (1), the u8 type of tokens, as in an .idx, and their u64 number. The
//   last file of a set is filled up with the separator.
// - NumPy: data/npy.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/open_file.h"
#include "data/integer_type.h"
#include "data/npy.h"
#include "data/token_formats.h"

namespace mtl {

/// A flat token file that is open for reading. We do not trust the file: its size must be exactly the one that its
/// header announces.
class FlatTokenFile {
 public:
  /// Without `format`, the file's header must tell it. `raw_type` is the type of tokens in a file without header.
  /// Throws Error(bad_data) if the file is of no flat format, of another than `format`, or violates it; Error(io) if it
  /// cannot be read or is not a regular file.
  FlatTokenFile(const std::string& path, std::optional<TokenFormat> format, IntegerType raw_type);

  const std::string& path() const { return path_; }
  TokenFormat format() const { return format_; }
  IntegerType type() const { return header_.type; }
  std::int64_t tokens() const { return header_.size; }
  std::uint64_t bytes() const { return header_.bytes + tokens() * type().bytes; }
  /// Returns the offset of the first token.
  std::uint64_t header_bytes() const { return header_.bytes; }
  /// Fills `out` with the file's bytes from `offset`. Throws Error(io) if the file has become shorter.
  void read(std::uint64_t offset, std::span<std::byte> out) const { file_.read(offset, out); }

 private:
  std::string path_;
  OpenFile file_;
  TokenFormat format_ = TokenFormat::nanogpt;
  FlatHeader header_;
};

/// Returns the header of a flat file, empty for nanoGPT's. Throws Error(usage) if the format cannot have this type, and
/// Error(bad_data) if it cannot have as many tokens.
std::string flat_header(TokenFormat format, IntegerType type, std::int64_t tokens);

}  // namespace mtl
