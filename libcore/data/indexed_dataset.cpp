#include "data/indexed_dataset.h"

#include <concepts>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "data/indexed_format.h"

namespace mtl {
namespace {

constexpr std::string_view kRemedy = "; re-run mtl-preprocess, or copy both files again";

template <class T>
T load_at(std::span<const std::byte> bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

/// What the arrays of an .idx take, for messages: the counts may be anything.
std::string bytes_needed(std::uint64_t sequences, std::uint64_t indices) {
  constexpr std::uint64_t kSane = std::uint64_t{1} << 56;
  if (sequences > kSane || indices > kSane) return "more than 2^56";
  return with_commas(static_cast<std::int64_t>(12 * sequences + 8 * indices));
}

template <std::integral T>
void convert_tokens(std::span<const std::byte> from, std::span<std::int32_t> out, const std::string& path) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    const T token = load_at<T>(from, i * sizeof(T));
    if (!std::in_range<std::int32_t>(token)) fail(Exit::bad_data, path, ": the token id ", token, " is beyond 32 bits");
    out[i] = static_cast<std::int32_t>(token);
  }
}

}  // namespace

std::size_t item_size(DataType type) {
  switch (type) {
    case DataType::u8:
    case DataType::i8:
      return 1;
    case DataType::i16:
    case DataType::u16:
      return 2;
    case DataType::i32:
    case DataType::f32:
      return 4;
    case DataType::i64:
    case DataType::f64:
      return 8;
  }
  fail(Exit::failure, "no data type has the code ", static_cast<int>(type));
}

std::string_view name_of(DataType type) {
  constexpr std::string_view names[] = {"u8", "i8", "i16", "i32", "i64", "f64", "f32", "u16"};
  return names[static_cast<int>(type) - 1];
}

bool is_integer(DataType type) { return type != DataType::f32 && type != DataType::f64; }

DataType token_type_for_vocab(std::int64_t vocab_size) { return vocab_size < 65500 ? DataType::u16 : DataType::i32; }

std::string dataset_prefix(std::string_view path) {
  if (ends_with(path, ".bin") || ends_with(path, ".idx")) path.remove_suffix(4);
  return std::string(path);
}

IndexedDataset::IndexedDataset(std::string_view path)
    : prefix_(dataset_prefix(path)), idx_(prefix_ + ".idx"), bin_(prefix_ + ".bin") {
  check_header();
  check_sequences();
  check_documents();
}

template <class T>
T IndexedDataset::load(std::size_t byte) const {
  return load_at<T>(idx_.bytes(), byte);
}

void IndexedDataset::check_header() {
  const std::string& path = idx_.path();
  if (starts_with(idx_.text(), kOldIndexMagic)) {
    fail(Exit::bad_data, path, ": is in the old TNTIDX format of lazy and cached datasets",
         "; make it again from its text with mtl-preprocess");
  }
  if (idx_bytes() < kHeaderBytes) {
    fail(Exit::bad_data, path, ": the header needs ", kHeaderBytes, " bytes, the file has ", idx_bytes(), kRemedy);
  }
  if (!starts_with(idx_.text(), kIndexMagic)) {
    fail(Exit::bad_data, path, ": does not begin with MMIDIDX, so it is no index of token files");
  }
  if (const auto version = load<std::uint64_t>(kVersionAt); version != kIndexVersion) {
    fail(Exit::bad_data, path, ": version ", version, " of the format is not known, only 1");
  }
  const auto code = load<std::uint8_t>(kTypeAt);
  if (code < 1 || code > 8) fail(Exit::bad_data, path, ": type code ", int{code}, " is none of 1 to 8", kRemedy);
  type_ = static_cast<DataType>(code);

  const auto sequences = load<std::uint64_t>(kSequencesAt), indices = load<std::uint64_t>(kDocumentsAt);
  if (indices == 0) fail(Exit::bad_data, path, ": document_count is 0, the least is 1", kRemedy);
  // Divided, not multiplied: a count from the file may overflow any product.
  const std::uint64_t rest = idx_bytes() - kHeaderBytes;
  if (sequences > rest / 12) {
    fail(Exit::bad_data, path, ": sequence_count ", sequences, " needs ", bytes_needed(sequences, 0),
         " bytes after the header, the file has ", with_commas(static_cast<std::int64_t>(rest)), kRemedy);
  }
  if (indices > (rest - 12 * sequences) / 8) {
    fail(Exit::bad_data, path, ": sequence_count ", sequences, " and document_count ", indices, " need ",
         bytes_needed(sequences, indices), " bytes after the header, the file has ",
         with_commas(static_cast<std::int64_t>(rest)), kRemedy);
  }
  const std::uint64_t extra = rest - 12 * sequences - 8 * indices;
  is_multimodal_ = extra > 0 && extra == sequences;
  if (extra > 0 && !is_multimodal_) {
    fail(Exit::bad_data, path, ": ", extra, " bytes follow the last document index", kRemedy);
  }
  sequences_ = static_cast<std::int64_t>(sequences);
  documents_ = static_cast<std::int64_t>(indices) - 1;
}

void IndexedDataset::check_sequences() {
  const auto size = static_cast<std::int64_t>(item_size(type_)), size_of_bin = static_cast<std::int64_t>(bin_bytes());
  for (std::int64_t i = 0; i < sequences_; ++i) {
    if (lengths()[i] < 0) fail(Exit::bad_data, idx_.path(), ": sequence ", i, " has length ", lengths()[i], kRemedy);
    const auto pointer = load<std::int64_t>(kHeaderBytes + static_cast<std::size_t>(4 * sequences_ + 8 * i));
    if (pointer != tokens_ * size) {
      fail(Exit::bad_data, idx_.path(), ": sequence ", i, " should begin at byte ", tokens_ * size,
           " of the .bin, not at ", pointer, kRemedy);
    }
    tokens_ += lengths()[i];
    // Checked here, so that lengths from a hostile file cannot overflow the sum.
    if (tokens_ * size > size_of_bin) {
      fail(Exit::bad_data, bin_.path(), ": sequences 0 to ", i, " need ", with_commas(tokens_ * size),
           " bytes, the file has ", with_commas(size_of_bin), kRemedy);
    }
  }
  if (tokens_ * size != size_of_bin) {
    fail(Exit::bad_data, bin_.path(), ": the .idx accounts for ", with_commas(tokens_ * size), " bytes, the file has ",
         with_commas(size_of_bin), kRemedy);
  }
}

void IndexedDataset::check_documents() {
  std::int64_t last = 0;
  for (std::int64_t i = 0; i <= documents_; ++i) {
    const std::int64_t begin = document_begin(i);
    if (begin < last || begin > sequences_ || (i == 0 && begin != 0)) {
      fail(Exit::bad_data, idx_.path(), ": document index ", i, " is ", begin, ", after ", last, " of ", sequences_,
           " sequences", kRemedy);
    }
    last = begin;
  }
  if (last != sequences_) {
    fail(Exit::bad_data, idx_.path(), ": the last document ends at sequence ", last, " of ", sequences_, kRemedy);
  }
}

SequenceLengths IndexedDataset::lengths() const { return {idx_.bytes().data() + kHeaderBytes, sequences_}; }

std::int64_t IndexedDataset::document_begin(std::int64_t document) const {
  return load<std::int64_t>(kHeaderBytes + static_cast<std::size_t>(12 * sequences_ + 8 * document));
}

void IndexedDataset::read(std::int64_t sequence, std::int64_t offset, std::span<std::int32_t> out) const {
  require(sequence >= 0 && sequence < sequences_, prefix_, ": no sequence ", sequence);
  const auto count = static_cast<std::int64_t>(out.size());
  require(offset >= 0 && count <= lengths()[sequence] - offset, prefix_, ": sequence ", sequence, " has ",
          lengths()[sequence], " tokens, not ", count, " from ", offset);
  const auto pointer = load<std::int64_t>(kHeaderBytes + static_cast<std::size_t>(4 * sequences_ + 8 * sequence));
  const std::size_t size = item_size(type_);
  const auto from = bin_.bytes().subspan(static_cast<std::size_t>(pointer) + static_cast<std::size_t>(offset) * size,
                                         out.size() * size);
  switch (type_) {
    case DataType::u8:
      return convert_tokens<std::uint8_t>(from, out, bin_.path());
    case DataType::i8:
      return convert_tokens<std::int8_t>(from, out, bin_.path());
    case DataType::i16:
      return convert_tokens<std::int16_t>(from, out, bin_.path());
    case DataType::u16:
      return convert_tokens<std::uint16_t>(from, out, bin_.path());
    case DataType::i32:
      return convert_tokens<std::int32_t>(from, out, bin_.path());
    case DataType::i64:
      return convert_tokens<std::int64_t>(from, out, bin_.path());
    case DataType::f32:
    case DataType::f64:
      break;
  }
  fail(Exit::bad_data, idx_.path(), ": holds ", name_of(type_), ", not token ids");
}

void IndexedDataset::prefetch(std::int64_t sequence, std::int64_t offset, std::int64_t count) const {
  const auto pointer = load<std::int64_t>(kHeaderBytes + static_cast<std::size_t>(4 * sequences() + 8 * sequence));
  const std::size_t size = item_size(type());
  bin_.will_need(static_cast<std::size_t>(pointer) + static_cast<std::size_t>(offset) * size,
                 static_cast<std::size_t>(count) * size);
}

std::uint64_t IndexedDataset::idx_hash() const { return hash_bytes(idx_.bytes().data(), idx_.bytes().size()); }

}  // namespace mtl
