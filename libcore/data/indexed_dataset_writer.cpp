#include <bit>
#include <concepts>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "data/indexed_dataset.h"
#include "data/indexed_format.h"

namespace mtl {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are written as they lie in memory");

constexpr std::size_t kFlushBytes = 1 << 20;

template <class T>
void append_raw(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

template <std::integral T>
void append_tokens(std::string& out, std::span<const std::int32_t> tokens, const std::string& path) {
  const std::size_t begin = out.size();
  out.resize(begin + tokens.size() * sizeof(T));
  char* to = out.data() + begin;
  for (const std::int32_t token : tokens) {
    if (!std::in_range<T>(token)) {
      fail(Exit::bad_data, path, ": the token id ", token, " does not fit in ", 8 * sizeof(T), " bits",
           std::is_signed_v<T> ? "" : " without sign", "; is the vocabulary size right?");
    }
    const T value = static_cast<T>(token);
    std::memcpy(to, &value, sizeof(T));
    to += sizeof(T);
  }
}

}  // namespace

IndexedDatasetWriter::IndexedDatasetWriter(const std::string& prefix, DataType type)
    : type_(type), bin_(prefix + ".bin"), idx_(prefix + ".idx") {
  require(is_integer(type), prefix, ": tokens are integers, they cannot be written as ", name_of(type));
}

void IndexedDatasetWriter::add_sequence(std::span<const std::int32_t> tokens) {
  if (tokens.empty()) return;
  const std::string& path = bin_.out().path();
  if (!std::in_range<std::int32_t>(tokens.size())) {
    fail(Exit::bad_data, path, ": a sequence of ", tokens.size(),
         " tokens is longer than the format allows (2^31 - 1)");
  }
  visit_integer_type(type_, [&]<class T>(T) { append_tokens<T>(buffer_, tokens, path); });
  lengths_.push_back(static_cast<std::int32_t>(tokens.size()));
  tokens_ += static_cast<std::int64_t>(tokens.size());
  if (buffer_.size() >= kFlushBytes) flush();
}

void IndexedDatasetWriter::end_document() { document_indices_.push_back(sequences()); }

void IndexedDatasetWriter::seal() {
  require(document_indices_.back() == sequences(), bin_.out().path(), ": the last document was not ended");
  flush();
  write_index();
  bin_.seal();
  idx_.seal();
  sealed_ = true;
}

void IndexedDatasetWriter::finish() {
  if (!sealed_) seal();
  // The .idx comes last: where it stands, the .bin is complete.
  bin_.commit();
  idx_.commit();
}

void IndexedDatasetWriter::flush() {
  bin_.write(buffer_);
  buffer_.clear();
}

void IndexedDatasetWriter::write_index() {
  std::string header(kIndexMagic);
  append_raw(header, kIndexVersion);
  append_raw(header, static_cast<std::uint8_t>(type_));
  append_raw(header, static_cast<std::uint64_t>(lengths_.size()));
  append_raw(header, static_cast<std::uint64_t>(document_indices_.size()));
  idx_.write(header);
  idx_.write(lengths_.data(), lengths_.size() * sizeof(lengths_[0]));

  std::string pointers;
  std::int64_t pointer = 0;
  for (const std::int32_t length : lengths_) {
    append_raw(pointers, pointer);
    pointer += static_cast<std::int64_t>(length) * static_cast<std::int64_t>(item_size(type_));
    if (pointers.size() >= kFlushBytes) {
      idx_.write(pointers);
      pointers.clear();
    }
  }
  idx_.write(pointers);
  idx_.write(document_indices_.data(), document_indices_.size() * sizeof(document_indices_[0]));
}

}  // namespace mtl
