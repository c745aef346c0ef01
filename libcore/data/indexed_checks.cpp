#include "data/indexed_checks.h"

#include <algorithm>

#include "base/files.h"
#include "base/mapped_pages.h"
#include "base/shell_word.h"
#include "data/indexed_dataset.h"
#include "data/indexed_format.h"

namespace mtl {
namespace {

constexpr std::string_view kRemedy = "; re-run mtl-preprocess, or copy both files again";
/// Sequences or documents per branch-free loop. Even if all these sequences have the maximum length, they have fewer
/// than 2^46 bytes in total.
constexpr std::int64_t kBlockEntries = 4096;

std::string with_commas(std::uint64_t value) {
  return value > INT64_MAX ? std::to_string(value) : mtl::with_commas(value);
}

/// Returns the size of an .idx file's arrays in bytes, for messages. The counts are unchecked, so the sum could
/// overflow.
std::string bytes_needed(std::uint64_t sequences, std::uint64_t indices) {
  constexpr std::uint64_t kSane = std::uint64_t{1} << 56;
  if (sequences > kSane || indices > kSane) return "more than 2^56";
  return with_commas(12 * sequences + 8 * indices);
}

class IndexChecker {
 public:
  IndexChecker(const MappedFile& idx, const MappedFile& bin) : idx_(idx), bin_(bin), data_(idx.bytes().data()) {}

  /// Accepts pointers that wrapped around at 2^32 if `may_wrap`.
  IndexSummary check(bool may_wrap) {
    check_header();
    check_counts();
    if (may_wrap)
      check_lengths();
    else
      check_sequences();
    check_documents();
    release_pages(idx_);
    return summary_;
  }

 private:
  template <class... Parts>
  [[noreturn]] void fail_idx(const char* rule, std::size_t byte, std::string_view remedy, const Parts&... parts) {
    throw BrokenRule({.rule = rule, .file = idx_.path(), .offset = byte}, cat(parts...), remedy);
  }

  void check_header() {
    const std::size_t size = idx_.bytes().size();
    if (starts_with(idx_.text(), kOldIndexMagic)) {
      fail_idx("magic", 0, "; make the token files again from their text with mtl-preprocess",
               "the file is in the old TNTIDX format of lazy and cached datasets");
    }
    if (!starts_with(idx_.text(), kIndexMagic.substr(0, std::min(size, kIndexMagic.size())))) {
      fail_idx("magic", 0, "; use an .idx that mtl-preprocess or Megatron-LM wrote",
               "the file does not begin with MMIDIDX, so it is not an index of token files");
    }
    if (size < kHeaderBytes) {
      fail_idx("header-size", size, kRemedy, "the header needs ", kHeaderBytes, " bytes, but the file has ", size);
    }
    if (const auto version = load_at<std::uint64_t>(data_ + kVersionAt); version != kIndexVersion) {
      fail_idx("version", kVersionAt, kRemedy, "format version ", version, " is not supported; only version 1 is");
    }
    const auto code = load_at<std::uint8_t>(data_ + kTypeAt);
    if (code < 1 || code > 8) fail_idx("type", kTypeAt, kRemedy, "type code ", int{code}, " is not one of 1 to 8");
    summary_.type = static_cast<DataType>(code);
    token_bytes_ = static_cast<std::int64_t>(item_size(summary_.type));
  }

  void check_counts() {
    const auto sequences = load_at<std::uint64_t>(data_ + kSequencesAt);
    const auto indices = load_at<std::uint64_t>(data_ + kDocumentsAt);
    // Divide instead of multiplying: a product with an unchecked count could overflow.
    const std::uint64_t array_bytes = idx_.bytes().size() - kHeaderBytes;
    if (sequences > array_bytes / 12) {
      fail_idx("counts", kSequencesAt, kRemedy, "sequence_count ", sequences, " needs ", bytes_needed(sequences, 0),
               " bytes after the header, but the file has ", with_commas(array_bytes));
    }
    if (indices == 0) fail_idx("counts", kDocumentsAt, kRemedy, "document_count is 0; the minimum is 1");
    if (indices > (array_bytes - 12 * sequences) / 8) {
      fail_idx("counts", kDocumentsAt, kRemedy, "sequence_count ", sequences, " and document_count ", indices, " need ",
               bytes_needed(sequences, indices), " bytes after the header, but the file has ",
               with_commas(array_bytes));
    }
    const std::uint64_t extra = array_bytes - 12 * sequences - 8 * indices;
    summary_.has_modes = extra > 0 && extra == sequences;
    if (extra > 0 && !summary_.has_modes) {
      fail_idx("modes", kHeaderBytes + 12 * sequences + 8 * indices, kRemedy,
               "the number of bytes after the last document index is ", extra,
               ", but must be 0 or the number of sequences, ", sequences);
    }
    summary_.sequences = static_cast<std::int64_t>(sequences);
    summary_.documents = static_cast<std::int64_t>(indices) - 1;
  }

  void check_sequences() {
    std::int64_t at = 0;
    for (std::int64_t begin = 0; begin < summary_.sequences; begin += kBlockEntries) {
      const std::int64_t end = std::min(summary_.sequences, begin + kBlockEntries);
      if (!is_sound_block(begin, end, at)) find_broken_sequence(begin, end, at);
      at = pointer(end - 1) + length(end - 1) * token_bytes_;
      count_checked(12 * (end - begin));
    }
    check_end(at);
  }

  /// Old merges wrote 32-bit pointers, which wrapped around in .bin files over 2 or 4 GiB. We accept such pointers and
  /// no others: others may well be right, and the lengths wrong.
  void check_lengths() {
    std::int64_t at = 0;
    for (std::int64_t i = 0; i < summary_.sequences; ++i) {
      if (length(i) < 0) fail_idx("length", length_at(i), kRemedy, "sequence ", i, " has length ", length(i));
      if (static_cast<std::uint32_t>(pointer(i)) != static_cast<std::uint32_t>(at)) fail_pointer(i, at, kRemedy);
      at += length(i) * token_bytes_;
      if (at > bin_size()) fail_bin(i, at);
      count_checked(12);
    }
    check_end(at);
  }

  void check_documents() {
    if (document(0) != 0) find_broken_document(0, 0);
    for (std::int64_t begin = 0; begin < summary_.documents; begin += kBlockEntries) {
      const std::int64_t end = std::min(summary_.documents, begin + kBlockEntries);
      if (!is_sound_run(begin, end) || document(end) > summary_.sequences) find_broken_document(begin, end);
      count_checked(8 * (end - begin));
    }
    if (document(summary_.documents) != summary_.sequences)
      find_broken_document(summary_.documents, summary_.documents);
  }

  /// Checks that the sequences, which end at byte `at`, account for the entire .bin.
  void check_end(std::int64_t at) {
    if (at != bin_size()) {
      throw BrokenRule({.rule = "bin-size", .file = bin_.path(), .offset = static_cast<std::uint64_t>(at)},
                       cat("the .idx accounts for ", mtl::with_commas(at), " bytes, but the file has ",
                           mtl::with_commas(bin_size())),
                       kRemedy);
    }
    summary_.tokens = at / token_bytes_;
  }

  [[noreturn]] void fail_pointer(std::int64_t sequence, std::int64_t expected, std::string_view remedy) {
    fail_idx("pointer", pointer_at(sequence), remedy, "sequence ", sequence, " should begin at byte ", expected,
             " of the .bin, not at ", pointer(sequence));
  }

  /// Throws because sequences 0 to `sequence` need more bytes than the .bin has.
  [[noreturn]] void fail_bin(std::int64_t sequence, std::int64_t needed) {
    throw BrokenRule({.rule = "bin-size", .file = bin_.path(), .offset = bin_.bytes().size()},
                     cat("sequences 0 to ", sequence, " need ", mtl::with_commas(needed), " bytes, but the file has ",
                         mtl::with_commas(bin_size())),
                     kRemedy);
  }

  /// Returns the remedy for wrong pointers. If they differ from what follows from the lengths only by multiples of
  /// 2^32, they confirm the lengths, and can be computed again.
  std::string pointer_remedy() const {
    try {
      check_index_without_wraps(idx_, bin_);
    } catch (const BrokenRule&) {
      return std::string(kRemedy);
    }
    return cat("; the pointers wrapped around at 2^32, and all else is sound; run `mtl-data repair --in-place ",
               shell_word(dataset_prefix(idx_.path())), "` to compute them again from the lengths");
  }

  /// Returns true if sequences [begin, end) satisfy all rules: no length is negative; the first pointer is `at`; each
  /// later pointer is the previous pointer plus the previous sequence's size in bytes; and the block ends within the
  /// .bin. The values are unchecked, so we use unsigned arithmetic. Wrap-around cannot hide an error, because the block
  /// is short and starts within the .bin, at byte `at`.
  bool is_sound_block(std::int64_t begin, std::int64_t end, std::int64_t at) const {
    const std::byte* lengths = data_ + length_at(begin);
    const std::byte* pointers = data_ + pointer_at(begin);
    const auto token_bytes = static_cast<std::uint64_t>(token_bytes_);
    const std::int64_t last = end - begin - 1;
    std::int32_t signs = 0;
    std::uint64_t differences = load_at<std::uint64_t>(pointers) ^ static_cast<std::uint64_t>(at);
    for (std::int64_t i = 0; i < last; ++i) {
      const auto length = load_at<std::int32_t>(lengths + 4 * i);
      signs |= length;
      const std::uint64_t step =
          load_at<std::uint64_t>(pointers + 8 * (i + 1)) - load_at<std::uint64_t>(pointers + 8 * i);
      differences |= step ^ (static_cast<std::uint32_t>(length) * token_bytes);
    }
    const std::int32_t length = this->length(end - 1);
    if (differences != 0 || (signs | length) < 0) return false;
    return pointer(end - 1) + length * token_bytes_ <= bin_size();
  }

  /// Checks the same rules, sequence by sequence. Throws for the first violation.
  void find_broken_sequence(std::int64_t begin, std::int64_t end, std::int64_t at) {
    for (std::int64_t i = begin; i < end; ++i) {
      if (length(i) < 0) fail_idx("length", length_at(i), kRemedy, "sequence ", i, " has length ", length(i));
      if (pointer(i) != at) fail_pointer(i, at, pointer_remedy());
      at += length(i) * token_bytes_;
      if (at > bin_size()) fail_bin(i, at);
    }
    fail(Exit::failure, idx_.path(), ": sequences ", begin, " to ", end,
         " failed the block check, but pass one by one; the file changed while it was read, or this is a bug in mtl");
  }

  /// Returns true if document indices `begin` to `end`, inclusive, are not negative and never decrease. The difference
  /// of two nonnegative indices cannot overflow.
  bool is_sound_run(std::int64_t begin, std::int64_t end) const {
    const std::byte* indices = data_ + document_at(begin);
    std::int64_t signs = load_at<std::int64_t>(indices);
    for (std::int64_t i = 0; i < end - begin; ++i) {
      const auto next = load_at<std::uint64_t>(indices + 8 * (i + 1));
      signs |= static_cast<std::int64_t>(next | (next - load_at<std::uint64_t>(indices + 8 * i)));
    }
    return signs >= 0;
  }

  void find_broken_document(std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i <= end; ++i) {
      const std::int64_t previous = i == 0 ? 0 : document(i - 1);
      if (i == 0 && document(i) != 0) {
        fail_idx("documents", document_at(i), kRemedy, "the document index begins with ", document(i), ", not 0");
      }
      if (document(i) < previous || document(i) > summary_.sequences) {
        fail_idx("documents", document_at(i), kRemedy, "document index ", i, " is ", document(i), ", after ", previous,
                 " of ", summary_.sequences, " sequences");
      }
    }
    fail_idx("documents", document_at(summary_.documents), kRemedy, "the last document ends at sequence ",
             document(summary_.documents), " of ", summary_.sequences);
  }

  std::size_t length_at(std::int64_t i) const { return kHeaderBytes + 4 * i; }
  std::size_t pointer_at(std::int64_t i) const { return length_at(summary_.sequences) + 8 * i; }
  std::size_t document_at(std::int64_t i) const { return pointer_at(summary_.sequences) + 8 * i; }
  std::int32_t length(std::int64_t i) const { return load_at<std::int32_t>(data_ + length_at(i)); }
  std::int64_t pointer(std::int64_t i) const { return load_at<std::int64_t>(data_ + pointer_at(i)); }
  std::int64_t document(std::int64_t i) const { return load_at<std::int64_t>(data_ + document_at(i)); }
  std::int64_t bin_size() const { return std::ssize(bin_.bytes()); }

  /// Counts `bytes` as checked. Releases .idx pages each time kMappedPages bytes have been checked.
  void count_checked(std::int64_t bytes) {
    if ((checked_bytes_ += bytes) < static_cast<std::int64_t>(kMappedPages)) return;
    release_pages(idx_);
    checked_bytes_ = 0;
  }

  const MappedFile &idx_, &bin_;
  const std::byte* data_;
  std::int64_t checked_bytes_ = 0;
  std::int64_t token_bytes_ = 1;
  IndexSummary summary_;
};

}  // namespace

IndexSummary check_index(const MappedFile& idx, const MappedFile& bin) { return IndexChecker(idx, bin).check(false); }

IndexSummary check_index_without_wraps(const MappedFile& idx, const MappedFile& bin) {
  return IndexChecker(idx, bin).check(true);
}

}  // namespace mtl
