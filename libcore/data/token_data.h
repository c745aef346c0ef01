// Where a GptDataset reads its tokens: token files (data/indexed_dataset.h) or generated ones (data/mock_tokens.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

namespace mtl {

/// A non-owning view of sequence lengths, in tokens. The lengths are little-endian i32 values, which can be unaligned
/// in an .idx.
class SequenceLengths {
 public:
  SequenceLengths(const void* data, std::int64_t size) : data_(static_cast<const std::byte*>(data)), size_(size) {}
  std::int64_t size() const { return size_; }
  std::int32_t operator[](std::int64_t sequence) const {
    std::int32_t length;
    std::memcpy(&length, data_ + 4 * sequence, sizeof length);
    return length;
  }

 private:
  const std::byte* data_;
  std::int64_t size_;
};

class TokenData {
 public:
  virtual ~TokenData() = default;

  /// Returns the name for messages: a prefix of token files, or the flag that asks for generated ones.
  virtual const std::string& name() const = 0;
  virtual bool is_multimodal() const { return false; }
  /// Returns the number of tokens in each sequence. The view is valid as long as this object.
  virtual SequenceLengths lengths() const = 0;
  /// Fills `out` with tokens from a sequence, starting at token `offset`. The range must lie within the sequence.
  /// Throws Error(bad_data) or Error(io) if files have no such tokens or cannot be read.
  virtual void read(std::int64_t sequence, std::int64_t offset, std::span<std::int32_t> out) const = 0;
  /// Announces that `count` tokens from a sequence will be read. Returns immediately.
  virtual void prefetch(std::int64_t, std::int64_t, std::int64_t) const {}
  /// Throws Error(io) if the files have become shorter since they were opened.
  virtual void check_sizes() const {}
};

}  // namespace mtl
