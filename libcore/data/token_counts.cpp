#include "data/token_counts.h"

#include <algorithm>
#include <type_traits>

#include "base/bisect.h"
#include "base/error.h"
#include "base/parallel.h"
#include "data/indexed_format.h"

namespace mtl {
namespace {

constexpr std::int64_t kLargestVocabulary = std::int64_t{1} << 27;

void require_integers(const IndexedDataset& data) {
  if (is_integer(data.type())) return;
  throw BrokenRule({.rule = "integers", .file = data.idx_file().path(), .offset = kTypeAt},
                   cat("the file stores ", name_of(data.type()), " values, not token ids"),
                   "; use token files of integers");
}

/// Returns the sequence that contains a token: the last sequence that starts at or before it. That sequence is not
/// empty, because an empty sequence starts where the next one does.
std::int64_t sequence_of(const IndexedDataset& data, std::int64_t token) {
  return bisect(data.sequences(), [&](std::int64_t i) { return data.token_begin(i) <= token; }) - 1;
}

std::int64_t document_of(const IndexedDataset& data, std::int64_t sequence) {
  return bisect(data.documents(), [&](std::int64_t i) { return data.document_begin(i) <= sequence; }) - 1;
}

}  // namespace

std::string describe_location(const IndexedDataset& data, std::int64_t token) {
  const std::int64_t sequence = sequence_of(data, token);
  return cat("token ", token - data.token_begin(sequence), " of sequence ", sequence, ", in document ",
             document_of(data, sequence));
}

void convert_tokens(const IndexedDataset& data, std::int64_t first, std::span<const std::byte> tokens, IntegerType to,
                    std::byte* out) {
  const IntegerType from = integer_type(data.type());
  if (const auto outside = find_outside(from, tokens, range_of(to))) {
    const std::int64_t token = first + static_cast<std::int64_t>(*outside);
    const std::string id = token_text(from, tokens, *outside);
    fail_at(Exit::bad_data, data.bin_file().path(), describe_location(data, token), ", is ", id,
            ", which does not fit in ", name_of(to), " (byte ", token * from.bytes, "); choose ",
            id.front() == '-' ? "another" : "a larger", " --token-type");
  }
  convert_ids(from, tokens, to, out);
}

void check_token_range(const IndexedDataset& data, std::int64_t vocab_size, int threads) {
  require_integers(data);
  const IntegerType type = integer_type(data.type());
  const std::span<const std::byte> tokens = data.bin_file().bytes();
  std::vector<std::int64_t> broken(threads, -1);
  for_each_part(threads, data.tokens(), [&](int part, std::int64_t begin, std::int64_t end) {
    const auto of_part = tokens.subspan(begin * type.bytes, (end - begin) * type.bytes);
    const auto outside = find_outside(type, of_part, {0, vocab_size - 1});
    if (outside) broken[part] = begin + static_cast<std::int64_t>(*outside);
  });
  for (const std::int64_t at : broken) {
    if (at < 0) continue;
    throw BrokenRule(
        {.rule = "vocabulary",
         .file = data.bin_file().path(),
         .offset = static_cast<std::uint64_t>(at) * static_cast<std::uint64_t>(type.bytes)},
        cat(describe_location(data, at), ", is ", token_text(type, tokens, at),
            vocab_size < kLargestVocabulary ? cat(", but the ids of the vocabulary are 0 to ", vocab_size - 1)
                                            : ", which no vocabulary has"),
        "; select the tokenizer that made the data, or re-run mtl-preprocess, or copy the file again");
  }
  data.check_sizes();
}

std::vector<std::int64_t> count_tokens(const IndexedDataset& data, int threads) {
  require_integers(data);
  return visit_integer(integer_type(data.type()), [&]<class T>(T) {
    using Id = std::make_unsigned_t<T>;
    const auto id_at = [tokens = data.bin_file().bytes().data()](std::int64_t i) {
      return load_at<Id>(tokens + i * sizeof(T));
    };
    // An extra pass over the data finds the largest id, which determines the number of counts. As unsigned numbers,
    // negative tokens are larger than all others.
    std::vector<std::int64_t> largest(threads, -1);
    for_each_part(threads, data.tokens(), [&](int part, std::int64_t begin, std::int64_t end) {
      Id most = 0;
      for (std::int64_t i = begin; i < end; ++i) most = std::max(most, id_at(i));
      const auto extended = static_cast<std::uint64_t>(static_cast<T>(most));
      if (begin < end) largest[part] = std::min<std::uint64_t>(extended, kLargestVocabulary);
    });
    const std::size_t size = *std::ranges::max_element(largest) + 1;
    if (size > kLargestVocabulary) check_token_range(data, kLargestVocabulary, threads);  // throws
    // Every thread needs its own array of counts, so use fewer threads if ids are large.
    const int counters = std::max(1, std::min(threads, static_cast<int>((1 << 26) / (size + 1))));
    std::vector<std::vector<std::int64_t>> parts(counters);
    for_each_part(counters, data.tokens(), [&](int part, std::int64_t begin, std::int64_t end) {
      std::vector<std::int64_t> counts(size);
      for (std::int64_t i = begin; i < end; ++i) ++counts[id_at(i)];
      parts[part] = std::move(counts);
    });
    std::vector<std::int64_t> sum = std::move(parts.front());
    for (std::size_t p = 1; p < parts.size(); ++p) {
      for (std::size_t id = 0; id < size; ++id) sum[id] += parts[p][id];
    }
    data.check_sizes();
    return sum;
  });
}

}  // namespace mtl
