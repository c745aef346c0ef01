#include "data/indexed_dataset.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/hash.h"
#include "base/mapped_pages.h"
#include "data/indexed_format.h"
#include "data/integer_type.h"
#include "data/token_formats.h"

namespace mtl {
namespace {

struct TypeTraits {
  std::string_view name;
  std::size_t bytes;
};
/// By type code, from 1.
constexpr TypeTraits kTypes[] = {{"u8", 1},  {"i8", 1},  {"i16", 2}, {"i32", 4},
                                 {"i64", 8}, {"f64", 8}, {"f32", 4}, {"u16", 2}};

/// Returns the path of the .idx. If there is none, explains files of other tools.
std::string index_path(const std::string& path) {
  std::string idx = dataset_prefix(path) + ".idx";
  if (file_exists(idx)) return idx;
  if (const auto missing = explain_missing_index(path)) fail(missing->code, missing->message);
  return idx;
}

}  // namespace

std::size_t item_size(DataType type) { return kTypes[static_cast<int>(type) - 1].bytes; }
std::string_view name_of(DataType type) { return kTypes[static_cast<int>(type) - 1].name; }
bool is_integer(DataType type) { return type != DataType::f32 && type != DataType::f64; }

DataType token_type_for_vocab(std::int64_t vocab_size) { return vocab_size < 65500 ? DataType::u16 : DataType::i32; }

std::string dataset_prefix(std::string_view path) {
  if (ends_with(path, ".bin") || ends_with(path, ".idx")) path.remove_suffix(4);
  return std::string(path);
}

IndexedDataset::IndexedDataset(std::string_view path)
    : prefix_(dataset_prefix(path)),
      idx_(index_path(std::string(path))),
      bin_(prefix_ + ".bin"),
      open_idx_(idx_.path()),
      open_bin_(bin_.path()) {
  summary_ = check_index(idx_, bin_);
}

/// Returns a number of the .idx.
std::int64_t IndexedDataset::number_at(std::size_t byte) const {
  return load_at<std::int64_t>(idx_.bytes().data() + byte);
}

SequenceLengths IndexedDataset::lengths() const { return {idx_.bytes().data() + kHeaderBytes, sequences()}; }

std::int64_t IndexedDataset::document_begin(std::int64_t document) const {
  return number_at(kHeaderBytes + 12 * sequences() + 8 * document);
}

std::int64_t IndexedDataset::token_begin(std::int64_t sequence) const {
  if (sequence == sequences()) return tokens();
  const auto at = kHeaderBytes + 4 * sequences() + 8 * sequence;
  return number_at(at) / static_cast<std::int64_t>(item_size(type()));
}

std::span<const std::byte> IndexedDataset::stored_tokens(std::int64_t begin, std::int64_t end) const {
  require(begin >= 0 && begin <= end && end <= sequences(), prefix_, ": no sequences ", begin, " to ", end);
  const std::size_t size = item_size(type()), first = token_begin(begin) * size;
  return bin_.bytes().subspan(first, token_begin(end) * size - first);
}

std::span<const std::byte> IndexedDataset::stored_lengths(std::int64_t begin, std::int64_t end) const {
  require(begin >= 0 && begin <= end && end <= sequences(), prefix_, ": no sequences ", begin, " to ", end);
  return idx_.bytes().subspan(kHeaderBytes + 4 * begin, 4 * (end - begin));
}

std::span<const std::byte> IndexedDataset::modes() const {
  const std::size_t count = is_multimodal() ? sequences() : 0;
  return idx_.bytes().last(count);
}

void IndexedDataset::read(std::int64_t sequence, std::int64_t offset, std::span<std::int32_t> out) const {
  require(sequence >= 0 && sequence < sequences(), prefix_, ": no sequence ", sequence);
  const auto count = std::ssize(out);
  require(offset >= 0 && count <= lengths()[sequence] - offset, prefix_, ": sequence ", sequence, " has ",
          lengths()[sequence], " tokens, not ", count, " from ", offset);
  if (!is_integer(type()))
    fail(Exit::bad_data, idx_.path(), " stores ", name_of(type()),
         " values, not token ids; use token files of integers");
  const IntegerType stored = integer_type(type());
  const std::size_t size = stored.bytes;
  std::size_t at = (token_begin(sequence) + offset) * size;
  require(at <= bin_bytes() && out.size() * size <= bin_bytes() - at, prefix_, ": sequence ", sequence,
          " extends past the end of the .bin file");
  // Read the file instead of its memory map, so that a truncated file or a failing disk causes an Error instead of a
  // signal.
  std::array<std::byte, 8192> buffer;
  while (!out.empty()) {
    const auto part = out.first(std::min(out.size(), buffer.size() / size));
    const auto from = std::span(buffer).first(part.size() * size);
    open_bin_.read(at, from);
    if (const auto outside = find_outside(stored, from, range_of(kI32)))
      fail(Exit::bad_data, bin_.path(), ": the token id ", token_text(stored, from, *outside),
           " does not fit in 32 bits");
    convert_ids(stored, from, kI32, std::as_writable_bytes(part).data());
    at += from.size();
    out = out.subspan(part.size());
  }
}

void IndexedDataset::check_sizes() const {
  open_idx_.check_size(idx_bytes());
  open_bin_.check_size(bin_bytes());
}

void IndexedDataset::prefetch(std::int64_t sequence, std::int64_t offset, std::int64_t count) const {
  const std::size_t size = item_size(type());
  bin_.will_need((token_begin(sequence) + offset) * size, count * size);
}

std::uint64_t IndexedDataset::idx_hash() const { return hash_mapped(idx_); }

}  // namespace mtl
