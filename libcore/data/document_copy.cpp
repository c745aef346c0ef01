#include "data/document_copy.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "base/error.h"
#include "base/parallel.h"
#include "data/indexed_format.h"
#include "data/number_writer.h"
#include "data/token_counts.h"

namespace mtl {
namespace {

using Bytes = std::span<const std::byte>;

/// Writes ranges of bytes from many files to one file. Multiple threads first gather small ranges in a buffer, because
/// each copy may have to wait for the disk.
class Gatherer {
 public:
  Gatherer(OutputFile& out, int threads, const CopyProgress& progress)
      : out_(out), threads_(threads), progress_(progress) {}

  void add(Bytes range) {
    while (gathered_ + range.size() > kBuffer) {
      // Write a range larger than the buffer directly, in buffer-sized parts, and gather only the remainder.
      if (gathered_ > 0) flush();
      if (range.size() <= kBuffer) break;
      out_.write(range.data(), kBuffer);
      progress_(kBuffer);
      range = range.subspan(kBuffer);
    }
    if (range.empty()) return;
    ranges_.push_back(range);
    ends_.push_back(gathered_ += range.size());
    if (ranges_.size() == kRanges) flush();
  }

  void flush() {
    buffer_.resize(gathered_);
    const int parts = ranges_.size() < kScattered ? 1 : threads_;
    for_each_part(parts, std::ssize(ranges_), [&](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        std::memcpy(buffer_.data() + ends_[i] - ranges_[i].size(), ranges_[i].data(), ranges_[i].size());
      }
    });
    out_.write(buffer_.data(), gathered_);
    progress_(gathered_);
    ranges_.clear();
    ends_.clear();
    gathered_ = 0;
  }

 private:
  static constexpr std::size_t kBuffer = 8 << 20;
  static constexpr std::size_t kRanges = 1 << 18;  // flush after this many ranges
  static constexpr std::size_t kScattered = 64;    // a single thread copies fewer ranges

  OutputFile& out_;
  int threads_;
  const CopyProgress& progress_;
  std::vector<Bytes> ranges_;
  std::vector<std::size_t> ends_;
  std::size_t gathered_ = 0;
  std::vector<std::byte> buffer_;
};

struct SequenceRange {
  const IndexedDataset& data;
  std::int64_t begin, end;
};

SequenceRange sequences_of(const DocumentRange& range) {
  return {*range.data, range.data->document_begin(range.begin), range.data->document_begin(range.end)};
}

/// Returns the tokens of a range as they are stored.
Bytes stored_tokens(const SequenceRange& range) { return range.data.stored_tokens(range.begin, range.end); }

/// Writes a range's tokens in another type. Throws what convert_tokens() throws.
void write_converted(const SequenceRange& range, IntegerType to, OutputFile& out, const CopyProgress& progress) {
  const std::size_t stored_bytes = item_size(range.data.type());
  std::vector<std::byte> converted(kConversionTokens * to.bytes);
  std::int64_t at = range.data.token_begin(range.begin);
  for (Bytes tokens = stored_tokens(range); !tokens.empty();) {
    const Bytes part = tokens.first(std::min(tokens.size(), kConversionTokens * stored_bytes));
    const std::size_t count = part.size() / stored_bytes;
    convert_tokens(range.data, at, part, to, converted.data());
    out.write(converted.data(), count * to.bytes);
    progress(count * to.bytes);
    at += static_cast<std::int64_t>(count);
    tokens = tokens.subspan(part.size());
  }
}

/// Calls visit(documents, sequences) for each range.
template <class Visit>
void for_each_range(const DocumentList& list, const Visit& visit) {
  for (std::int64_t i = 0; i < list.size; ++i) {
    const DocumentRange range = list.at(i);
    visit(range, sequences_of(range));
  }
}

const CopyProgress kSilent = [](std::uint64_t) {};

}  // namespace

DocumentList list_of(std::vector<DocumentRange> ranges) {
  const auto size = std::ssize(ranges);
  return {size, [ranges = std::move(ranges)](std::int64_t i) { return ranges[i]; }};
}

DocumentCopy::DocumentCopy(const std::string& prefix, DataType type, bool has_modes)
    : has_modes_(has_modes), files_(prefix, type) {}

void DocumentCopy::write(const DocumentList& list, int threads, const CopyProgress& progress) {
  for_each_range(list, [&](const DocumentRange& range, const SequenceRange& sequences) {
    const IndexedDataset& data = *range.data;
    if (data.type() != written().type && !(is_integer(data.type()) && is_integer(written().type))) {
      fail(Exit::bad_data, data.idx_file().path(), " stores ", name_of(data.type()),
           " values, which cannot be converted to ", name_of(written().type));
    }
    if (data.sequences() > 0 && data.is_multimodal() != has_modes_) {
      fail(Exit::bad_data, data.idx_file().path(), " has ", has_modes_ ? "no modes" : "modes (multimodal)");
    }
    files_.written.documents += range.end - range.begin;
    files_.written.sequences += sequences.end - sequences.begin;
  });
  write_bin(list, threads, progress);
  write_idx(list);
  // If the disk is full, seal() throws here. commit() then only renames files, so multiple copies can be committed
  // together.
  files_.seal();
}

void DocumentCopy::write_bin(const DocumentList& list, int threads, const CopyProgress& progress) {
  Gatherer gatherer(files_.bin.out(), threads, progress);
  for_each_range(list, [&](const DocumentRange& range, const SequenceRange& sequences) {
    if (range.data->type() == written().type) return gatherer.add(stored_tokens(sequences));
    gatherer.flush();
    write_converted(sequences, integer_type(written().type), files_.bin.out(), progress);
  });
  gatherer.flush();
  files_.written.tokens = static_cast<std::int64_t>(files_.bin.out().bytes() / item_size(written().type));
}

void DocumentCopy::write_idx(const DocumentList& list) {
  OutputFile& out = files_.idx.out();
  out.write(index_header(written().type, written().sequences, written().documents));
  const auto copy_array = [&](const auto& part_of) {
    Gatherer array(out, 1, kSilent);
    for_each_range(list, [&](const auto&, const SequenceRange& sequences) { array.add(part_of(sequences)); });
    array.flush();
  };
  copy_array([](const SequenceRange& range) { return range.data.stored_lengths(range.begin, range.end); });

  NumberWriter numbers(out);
  for_each_range(list, [&](const auto&, const SequenceRange& sequences) {
    for (std::int64_t i = sequences.begin; i < sequences.end; ++i)
      numbers.add_sum(sequences.data.lengths()[i] * item_size(written().type));
  });

  std::int64_t sequence = 0;
  numbers.add(sequence);
  for_each_range(list, [&](const DocumentRange& range, const auto&) {
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      sequence += range.data->document_begin(i + 1) - range.data->document_begin(i);
      numbers.add(sequence);
    }
  });
  numbers.flush();

  if (!has_modes_) return;
  copy_array([](const SequenceRange& range) {
    if (range.begin == range.end) return Bytes();  // of a data set that may have no modes
    return range.data.modes().subspan(range.begin, range.end - range.begin);
  });
}

}  // namespace mtl
