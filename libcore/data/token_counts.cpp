#include "data/token_counts.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/bisect.h"
#include "base/error.h"
#include "base/parallel.h"
#include "data/indexed_format.h"
#include "data/integer_type.h"

namespace mtl {
namespace {

constexpr std::int64_t kLargestVocabulary = std::int64_t{1} << 27;
constexpr std::int64_t kBlockTokens = 1 << 16;

void require_integers(const IndexedDataset& data) {
  if (is_integer(data.type())) return;
  throw BrokenRule({.rule = "integers", .file = data.idx_file().path(), .offset = kTypeAt},
                   cat("the file stores ", name_of(data.type()), " values, not token ids"),
                   "; use token files of integers");
}

/// Returns stored token number `i`, converted to unsigned.
template <class T>
std::make_unsigned_t<T> stored_at(const IndexedDataset& data, std::int64_t i) {
  std::make_unsigned_t<T> stored;
  std::memcpy(&stored, data.bin_file().bytes().data() + i * sizeof(T), sizeof(T));
  return stored;
}

template <class T>
std::int64_t value_of(std::make_unsigned_t<T> stored) {
  if constexpr (std::is_unsigned_v<T>) return stored;
  constexpr int kShift = 64 - 8 * static_cast<int>(sizeof(T));
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(stored) << kShift) >> kShift;
}

/// Returns the largest token in [begin, end). Tokens are compared as unsigned numbers, so negative tokens are larger
/// than all nonnegative ones.
template <class T>
std::uint64_t largest_token(const IndexedDataset& data, std::int64_t begin, std::int64_t end) {
  std::make_unsigned_t<T> largest = 0;
  for (std::int64_t i = begin; i < end; ++i) largest = std::max(largest, stored_at<T>(data, i));
  return static_cast<std::uint64_t>(value_of<T>(largest));
}

/// Returns the sequence that contains a token: the last sequence that starts at or before it. That sequence is not
/// empty, because an empty sequence starts where the next one does.
std::int64_t sequence_of(const IndexedDataset& data, std::int64_t token) {
  return bisect(data.sequences(), [&](std::int64_t i) { return data.token_begin(i) <= token; }) - 1;
}

std::int64_t document_of(const IndexedDataset& data, std::int64_t sequence) {
  return bisect(data.documents(), [&](std::int64_t i) { return data.document_begin(i) <= sequence; }) - 1;
}

template <class T>
[[noreturn]] void fail_token(const IndexedDataset& data, std::int64_t at, std::int64_t vocab_size) {
  throw BrokenRule(
      {.rule = "vocabulary", .file = data.bin_file().path(), .offset = static_cast<std::uint64_t>(at) * sizeof(T)},
      cat(describe_location(data, at), ", is ", value_of<T>(stored_at<T>(data, at)),
          vocab_size < kLargestVocabulary ? cat(", but the ids of the vocabulary are 0 to ", vocab_size - 1)
                                          : ", which no vocabulary has"),
      "; select the tokenizer that made the data, or re-run mtl-preprocess, or copy the file again");
}

/// Throws BrokenRule for the first token outside the vocabulary. Otherwise returns the largest token, or -1 if there
/// are none.
template <class T>
std::int64_t check_range(const IndexedDataset& data, std::int64_t vocab_size, int threads) {
  const auto limit = static_cast<std::uint64_t>(vocab_size);
  std::vector<std::int64_t> broken(threads, -1), largest(broken.size(), -1);
  for_each_part(threads, data.tokens(), [&](int part, std::int64_t begin, std::int64_t end) {
    const std::size_t p = part;
    for (std::int64_t block = begin; block < end && broken[p] < 0; block += kBlockTokens) {
      const std::int64_t block_end = std::min(end, block + kBlockTokens);
      const std::uint64_t block_largest = largest_token<T>(data, block, block_end);
      if (block_largest < limit) {
        largest[p] = std::max(largest[p], static_cast<std::int64_t>(block_largest));
        continue;
      }
      broken[p] = block;
      while (largest_token<T>(data, broken[p], broken[p] + 1) < limit) ++broken[p];
    }
  });
  for (const std::int64_t at : broken) {
    if (at >= 0) fail_token<T>(data, at, vocab_size);
  }
  return *std::ranges::max_element(largest);
}

}  // namespace

std::string describe_location(const IndexedDataset& data, std::int64_t token) {
  const std::int64_t sequence = sequence_of(data, token);
  return cat("token ", token - data.token_begin(sequence), " of sequence ", sequence, ", in document ",
             document_of(data, sequence));
}

void check_token_range(const IndexedDataset& data, std::int64_t vocab_size, int threads) {
  require_integers(data);
  visit_integer(integer_type(data.type()), [&]<class T>(T) { check_range<T>(data, vocab_size, threads); });
  data.check_sizes();
}

std::vector<std::int64_t> count_tokens(const IndexedDataset& data, int threads) {
  require_integers(data);
  return visit_integer(integer_type(data.type()), [&]<class T>(T) {
    // An extra pass over the data finds the largest id, which determines the number of counts.
    const std::int64_t largest = check_range<T>(data, kLargestVocabulary, threads);
    const std::size_t size = largest + 1;
    // Every thread needs its own array of counts, so use fewer threads if ids are large.
    const int counters = std::max(1, std::min(threads, static_cast<int>((1 << 26) / (size + 1))));
    std::vector<std::vector<std::int64_t>> parts(counters);
    for_each_part(counters, data.tokens(), [&](int part, std::int64_t begin, std::int64_t end) {
      std::vector<std::int64_t> counts(size);
      for (std::int64_t i = begin; i < end; ++i) ++counts[stored_at<T>(data, i)];
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
