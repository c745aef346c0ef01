#include <algorithm>
#include <bit>
#include <concepts>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "data/indexed_dataset.h"
#include "data/indexed_format.h"
#include "data/integer_type.h"
#include "data/number_writer.h"

namespace mtl {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are written in the machine's byte order");

constexpr std::size_t kFlushBytes = 1 << 20;  // a multiple of every type's size

/// Writes `tokens` at `to` as type T. Throws Error(bad_data) if an id does not fit T; the bytes at `to` are then
/// undefined.
template <std::integral T, std::integral Token>
void write_tokens(std::span<const Token> tokens, std::byte* to, const std::string& path) {
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
  const auto bad = std::ranges::find_if_not(tokens, [](auto token) { return std::in_range<T>(token); });
  fail(Exit::bad_data, path, ": the token id ", *bad, " does not fit in ", 8 * sizeof(T),
       std::is_signed_v<T> ? " bits" : " unsigned bits", "; check the vocabulary size");
}

}  // namespace

IndexedDatasetWriter::IndexedDatasetWriter(const std::string& prefix, DataType type) : files_(prefix, type) {
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
  visit_integer(integer_type(files_.written.type), [&]<class T>(T) {
    buffer_.resize(kFlushBytes);
    for (auto remaining = tokens; !remaining.empty();) {
      const std::size_t count = std::min(remaining.size(), (kFlushBytes - buffered_) / sizeof(T));
      write_tokens<T>(remaining.first(count), buffer_.data() + buffered_, path);
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
  files_.written.documents = documents();
  files_.written.sequences = sequences();
  files_.written.tokens = tokens();
  files_.seal();
}

void IndexedDatasetWriter::finish() {
  seal();
  files_.commit();
}

void IndexedDatasetWriter::flush() { files_.bin.write(buffer_.data(), std::exchange(buffered_, 0)); }

void IndexedDatasetWriter::write_index() {
  OutputFile& out = files_.idx.out();
  out.write(index_header(files_.written.type, sequences(), documents()));
  out.write(lengths_.data(), lengths_.size() * sizeof(lengths_[0]));
  NumberWriter pointers(out);
  for (const std::int64_t length : lengths_) pointers.add_sum(length * item_size(files_.written.type));
  pointers.flush();
  out.write(document_indices_.data(), document_indices_.size() * sizeof(document_indices_[0]));
}

}  // namespace mtl
