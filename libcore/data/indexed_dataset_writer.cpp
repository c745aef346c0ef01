#include <algorithm>
#include <bit>
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

}  // namespace

IndexedDatasetWriter::IndexedDatasetWriter(const std::string& prefix, DataType type) : files_(prefix, type) {
  require(is_integer(type), prefix, ": token ids cannot be stored as ", name_of(type));
}

void IndexedDatasetWriter::add_sequence(std::span<const std::int32_t> tokens) {
  add_tokens(kI32, std::as_bytes(tokens));
}
void IndexedDatasetWriter::add_sequence(std::span<const std::uint16_t> tokens) {
  add_tokens(kU16, std::as_bytes(tokens));
}

/// Adds tokens that are stored as `from`.
void IndexedDatasetWriter::add_tokens(IntegerType from, std::span<const std::byte> tokens) {
  if (tokens.empty()) return;
  const std::string& path = files_.bin.out().path();
  const IntegerType to = integer_type(files_.written.type);
  const std::size_t count = tokens.size() / from.bytes;
  if (!std::in_range<std::int32_t>(count))
    fail(Exit::bad_data, path, ": a sequence of ", count, " tokens is longer than the format allows (2^31 - 1)");
  if (const auto outside = find_outside(from, tokens, range_of(to)))
    fail(Exit::bad_data, path, ": the token id ", token_text(from, tokens, *outside), " does not fit in ", 8 * to.bytes,
         to.is_signed ? " bits" : " unsigned bits", "; check the vocabulary size");
  buffer_.resize(kFlushBytes);
  for (auto remaining = tokens; !remaining.empty();) {
    const std::size_t part = std::min(remaining.size() / from.bytes, (kFlushBytes - buffered_) / to.bytes);
    convert_ids(from, remaining.first(part * from.bytes), to, buffer_.data() + buffered_);
    remaining = remaining.subspan(part * from.bytes);
    buffered_ += part * to.bytes;
    if (buffered_ == kFlushBytes) flush();
  }
  lengths_.push_back(static_cast<std::int32_t>(count));
  files_.written.tokens += lengths_.back();
}

void IndexedDatasetWriter::end_document() { document_indices_.push_back(sequences()); }

void IndexedDatasetWriter::seal() {
  require(document_indices_.back() == sequences(), files_.bin.out().path(), ": the last document was not ended");
  flush();
  write_index();
  files_.written.documents = documents();
  files_.written.sequences = sequences();
  files_.seal();
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
