#include <algorithm>
#include <bit>
#include <concepts>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "data/indexed_dataset.h"
#include "data/indexed_format.h"

namespace mtl {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are written in the machine's byte order");

constexpr std::size_t kFlushBytes = 1 << 20;  // a multiple of every type's size

template <class T>
void append_raw(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

/// Stores `tokens` at `to` as type T. Throws Error(bad_data) if an id does not fit T; the bytes at `to` are then
/// undefined.
template <std::integral T, std::integral Token>
void store_tokens(std::span<const Token> tokens, std::byte* to, const std::string& path) {
  if constexpr (std::is_same_v<T, Token>) {
    std::memcpy(to, tokens.data(), tokens.size_bytes());
    return;
  }
  std::int32_t lost = 0;  // lost bits; the loop vectorizes because it has no early exit
  for (const Token token : tokens) {
    const T value = static_cast<T>(token);
    lost |= std::int32_t{token} ^ static_cast<std::int32_t>(value);
    std::memcpy(to, &value, sizeof(T));
    to += sizeof(T);
  }
  if (lost == 0) return;
  const auto bad = std::find_if_not(tokens.begin(), tokens.end(), [](auto token) { return std::in_range<T>(token); });
  fail(Exit::bad_data, path, ": the token id ", *bad, " does not fit in ", 8 * sizeof(T),
       std::is_signed_v<T> ? " bits" : " unsigned bits", "; check the vocabulary size");
}

}  // namespace

IndexedDatasetWriter::IndexedDatasetWriter(const std::string& prefix, DataType type)
    : prefix_(prefix), type_(type), files_(prefix) {
  require(is_integer(type), prefix, ": token ids cannot be stored as ", name_of(type));
}

void IndexedDatasetWriter::add_sequence(std::span<const std::int32_t> tokens) { add_tokens(tokens); }
void IndexedDatasetWriter::add_sequence(std::span<const std::uint16_t> tokens) { add_tokens(tokens); }

template <class Token>
void IndexedDatasetWriter::add_tokens(std::span<const Token> tokens) {
  if (tokens.empty()) return;
  const std::string& path = files_.bin.out().path();
  if (!std::in_range<std::int32_t>(tokens.size())) {
    fail(Exit::bad_data, path, ": a sequence of ", tokens.size(),
         " tokens is longer than the format allows (2^31 - 1)");
  }
  visit_integer_type(type_, [&]<class T>(T) {
    buffer_.resize(kFlushBytes);
    for (auto remaining = tokens; !remaining.empty();) {
      const std::size_t count = std::min(remaining.size(), (kFlushBytes - buffered_) / sizeof(T));
      store_tokens<T>(remaining.first(count), buffer_.data() + buffered_, path);
      remaining = remaining.subspan(count);
      buffered_ += count * sizeof(T);
      if (buffered_ == kFlushBytes) flush();
    }
  });
  lengths_.push_back(static_cast<std::int32_t>(tokens.size()));
  tokens_ += std::ssize(tokens);
}

void IndexedDatasetWriter::end_document() { document_indices_.push_back(sequences()); }

void IndexedDatasetWriter::seal() {
  require(document_indices_.back() == sequences(), files_.bin.out().path(), ": the last document was not ended");
  flush();
  write_index();
  files_.seal();
  written_ = {.prefix = prefix_,
              .type = type_,
              .documents = documents(),
              .sequences = sequences(),
              .tokens = tokens(),
              .bin_bytes = files_.bin.out().bytes(),
              .bin_hash = files_.bin.out().hash(),
              .idx_bytes = files_.idx.out().bytes(),
              .idx_hash = files_.idx.out().hash()};
}

void IndexedDatasetWriter::finish() {
  seal();
  files_.commit();
}

void IndexedDatasetWriter::flush() { files_.bin.write(buffer_.data(), std::exchange(buffered_, 0)); }

void IndexedDatasetWriter::write_index() {
  std::string header(kIndexMagic);
  append_raw(header, kIndexVersion);
  append_raw(header, static_cast<std::uint8_t>(type_));
  append_raw(header, static_cast<std::uint64_t>(lengths_.size()));
  append_raw(header, static_cast<std::uint64_t>(document_indices_.size()));
  files_.idx.write(header);
  files_.idx.write(lengths_.data(), lengths_.size() * sizeof(lengths_[0]));

  std::string pointers;
  std::int64_t pointer = 0;
  for (const std::int32_t length : lengths_) {
    append_raw(pointers, pointer);
    pointer += static_cast<std::int64_t>(length) * static_cast<std::int64_t>(item_size(type_));
    if (pointers.size() >= kFlushBytes) {
      files_.idx.write(pointers);
      pointers.clear();
    }
  }
  files_.idx.write(pointers);
  files_.idx.write(document_indices_.data(), document_indices_.size() * sizeof(document_indices_[0]));
}

}  // namespace mtl
