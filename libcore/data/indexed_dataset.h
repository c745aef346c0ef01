// Token files: PREFIX.bin contains the tokens, and PREFIX.idx records where each sequence and document starts (see
// mtl-idx(5)).
//
// A sequence is a run of tokens. A document is a run of sequences, possibly empty. PREFIX.idx is little-endian. It
// contains
// - "MMIDIDX\0\0", u64 version 1, u8 type code
// - u64 number of sequences, u64 number of documents + 1
// - i32 lengths[sequences], in tokens
// - i64 pointers[sequences], in bytes into PREFIX.bin
// - i64 document_indices[documents + 1]; the first is 0, and the last is the number of sequences
// - for multimodal data, i8 modes[sequences]
//
// Megatron-LM reads and writes exactly the same files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/open_file.h"
#include "data/indexed_checks.h"
#include "data/token_data.h"
#include "data/token_file_pair.h"

namespace mtl {

/// A stored token's type. The values are the type codes in the .idx.
enum class DataType : std::uint8_t { u8 = 1, i8 = 2, i16 = 3, i32 = 4, i64 = 5, f64 = 6, f32 = 7, u16 = 8 };

std::size_t item_size(DataType type);
/// Returns a type's short name, such as "u16".
std::string_view name_of(DataType type);
bool is_integer(DataType type);
/// Returns the type in which to store ids for a vocabulary of this size: u16 below 65,500, otherwise i32.
DataType token_type_for_vocab(std::int64_t vocab_size);

/// Returns PREFIX for PREFIX, PREFIX.bin or PREFIX.idx.
std::string dataset_prefix(std::string_view path);

struct IntegerType;

/// Writes PREFIX.bin and PREFIX.idx. They get their final names only when the sealed files are committed; otherwise
/// neither is kept.
class IndexedDatasetWriter {
 public:
  /// The type must be an integer type.
  IndexedDatasetWriter(const std::string& prefix, DataType type);

  /// Adds a sequence to the open document. An empty span adds nothing. Throws Error(bad_data) if an id does not fit the
  /// type, or if there are more than 2^31 - 1 tokens.
  void add_sequence(std::span<const std::int32_t> tokens);
  /// Same for ids that are already narrowed to 16 bits. Faster if the type is u16.
  void add_sequence(std::span<const std::uint16_t> tokens);
  /// Ends the open document. A document without sequences is recorded as empty.
  void end_document();
  /// Writes both files completely to disk, still under temporary names. Throws if a sequence was added after the last
  /// end_document().
  void seal();
  /// Returns the sealed files, to commit() them.
  TokenFilePair& files() { return files_; }

  std::int64_t tokens() const { return files_.written.tokens; }
  std::int64_t sequences() const { return std::ssize(lengths_); }
  std::int64_t documents() const { return std::ssize(document_indices_) - 1; }
  /// Describes the files. Must be called after seal(). Hashes are computed during writing.
  const TokenFilesWritten& written() const { return files_.written; }

 private:
  void add_tokens(IntegerType from, std::span<const std::byte> tokens);
  void flush();
  void write_index();

  TokenFilePair files_;
  std::vector<std::byte> buffer_;  // encoded tokens for the .bin
  std::size_t buffered_ = 0;       // bytes of buffer_ in use
  std::vector<std::int32_t> lengths_;
  std::vector<std::int64_t> document_indices_{0};
};

/// Reads PREFIX.bin and PREFIX.idx. We do not trust the files: the constructor checks every rule of the format in one
/// pass over the .idx. Throws BrokenRule (data/indexed_checks.h), which is an Error(bad_data), if a file violates a
/// rule. Throws Error(bad_data) for a Git LFS pointer, and Error(io) if a file is missing or cannot be read.
class IndexedDataset : public TokenData {
 public:
  /// `path` is the prefix, or either file's path.
  explicit IndexedDataset(std::string_view path);

  const std::string& prefix() const { return prefix_; }
  const std::string& name() const override { return prefix_; }
  DataType type() const { return summary_.type; }
  std::int64_t sequences() const { return summary_.sequences; }
  std::int64_t documents() const { return summary_.documents; }
  std::int64_t tokens() const { return summary_.tokens; }
  std::uint64_t bin_bytes() const { return bin_.bytes().size(); }
  std::uint64_t idx_bytes() const { return idx_.bytes().size(); }
  /// True if the .idx has a mode for each sequence, which means that the data is not just text.
  bool is_multimodal() const override { return summary_.has_modes; }

  /// The number of tokens in each sequence.
  SequenceLengths lengths() const override;
  /// Returns a document's first sequence. document_begin(documents()) is sequences().
  std::int64_t document_begin(std::int64_t document) const;
  /// Returns the index of a sequence's first token among all tokens in the .bin. token_begin(sequences()) is tokens().
  std::int64_t token_begin(std::int64_t sequence) const;
  /// Fills `out` with tokens from a sequence, starting at token `offset`. The range must lie within the sequence.
  /// Throws Error(bad_data) if the stored tokens are not integers or do not fit in 32 bits. Throws Error(io) if the
  /// .bin cannot be read or has been truncated.
  void read(std::int64_t sequence, std::int64_t offset, std::span<std::int32_t> out) const override;
  /// Asks the operating system to prefetch `count` tokens from a sequence, starting at token `offset`. Returns
  /// immediately.
  void prefetch(std::int64_t sequence, std::int64_t offset, std::int64_t count) const override;

  /// Throws Error(io) if either file has been truncated since it was opened. Bytes that were read through the memory
  /// maps may then be wrong.
  void check_sizes() const override;

  /// Return views of sequences [begin, end) in the memory maps: their tokens in the .bin, or their lengths in the .idx.
  /// After reading from a view, callers must call check_sizes().
  std::span<const std::byte> stored_tokens(std::int64_t begin, std::int64_t end) const;
  std::span<const std::byte> stored_lengths(std::int64_t begin, std::int64_t end) const;
  /// The modes of all sequences; empty unless is_multimodal().
  std::span<const std::byte> modes() const;
  const MappedFile& bin_file() const { return bin_; }
  const MappedFile& idx_file() const { return idx_; }
  /// Returns the .idx file's XXH3 hash, which helps to identify a run's data.
  std::uint64_t idx_hash() const;

 private:
  std::int64_t number_at(std::size_t byte) const;

  std::string prefix_;
  MappedFile idx_, bin_;
  OpenFile open_idx_, open_bin_;
  IndexSummary summary_;
};

}  // namespace mtl
