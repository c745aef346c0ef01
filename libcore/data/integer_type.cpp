#include "data/integer_type.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/str.h"
#include "data/indexed_format.h"

namespace mtl {
namespace {

using Bytes = std::span<const std::byte>;

constexpr IntegerType kIntegerTypes[] = {{1, false}, {1, true}, {2, false}, {2, true},
                                         {4, false}, {4, true}, {8, false}, {8, true}};

/// Returns the bound as a T. A bound that T cannot represent excludes no T.
template <class T>
T clamped(std::int64_t bound) {
  using Limits = std::numeric_limits<T>;
  if (std::cmp_less(bound, Limits::min())) return Limits::min();
  return std::cmp_greater(bound, Limits::max()) ? Limits::max() : static_cast<T>(bound);
}

template <class T>
std::optional<std::size_t> find_outside_as(Bytes tokens, IdRange range) {
  constexpr std::size_t kBlock = 4096;
  const T low = clamped<T>(range.lowest), high = clamped<T>(range.highest);
  if (low == std::numeric_limits<T>::min() && high == std::numeric_limits<T>::max()) return {};
  const auto is_outside = [&](std::size_t i) {
    const T token = load_at<T>(tokens.data() + i * sizeof(T));
    return token < low || token > high;
  };
  const std::size_t count = tokens.size() / sizeof(T);
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t end = std::min(count, begin + kBlock);
    // Without an early exit, the compiler vectorizes the loop.
    T lowest = 0, highest = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const T token = load_at<T>(tokens.data() + i * sizeof(T));
      lowest = std::min(lowest, token);
      highest = std::max(highest, token);
    }
    if (lowest >= low && highest <= high) continue;
    while (!is_outside(begin)) ++begin;
    return begin;
  }
  return {};
}

template <class From, class To>
void convert_as(Bytes tokens, std::byte* out) {
  const std::size_t count = tokens.size() / sizeof(From);
  for (std::size_t i = 0; i < count; ++i) {
    // NOLINTNEXTLINE(bugprone-signed-char-misuse): a signed type keeps its sign
    const To token = static_cast<To>(load_at<From>(tokens.data() + i * sizeof(From)));
    std::memcpy(out + i * sizeof(To), &token, sizeof(To));
  }
}

}  // namespace

std::string name_of(IntegerType type) { return cat(type.is_signed ? 'i' : 'u', 8 * type.bytes); }

std::optional<IntegerType> parse_integer_type(std::string_view name) {
  for (const IntegerType type : kIntegerTypes) {
    if (name_of(type) == name) return type;
  }
  return {};
}

IntegerType integer_type(DataType type) {
  require(is_integer(type), "tokens stored as ", name_of(type), " are not integers");
  return {static_cast<int>(item_size(type)), name_of(type).front() == 'i'};
}

std::optional<DataType> indexed_type(IntegerType type) {
  for (int code = 1; code <= 8; ++code) {
    const auto stored = static_cast<DataType>(code);
    if (name_of(stored) == name_of(type)) return stored;
  }
  return {};
}

IdRange range_of(IntegerType type) {
  return visit_integer(type, []<class T>(T) {
    const T highest = std::numeric_limits<T>::max();
    const std::int64_t cut = std::cmp_greater(highest, INT64_MAX) ? INT64_MAX : static_cast<std::int64_t>(highest);
    return IdRange{static_cast<std::int64_t>(std::numeric_limits<T>::min()), cut};
  });
}

IdRange common_range(IdRange a, IdRange b) { return {std::max(a.lowest, b.lowest), std::min(a.highest, b.highest)}; }

std::optional<std::size_t> find_outside(IntegerType type, Bytes tokens, IdRange range) {
  return visit_integer(type, [&]<class T>(T) { return find_outside_as<T>(tokens, range); });
}

void convert_ids(IntegerType from, Bytes tokens, IntegerType to, std::byte* out) {
  if (from.bytes == to.bytes) {
    if (!tokens.empty()) std::memcpy(out, tokens.data(), tokens.size());
    return;
  }
  visit_integer(from,
                [&]<class From>(From) { visit_integer(to, [&]<class To>(To) { convert_as<From, To>(tokens, out); }); });
}

std::string token_text(IntegerType type, Bytes tokens, std::size_t position) {
  return visit_integer(type, [&]<class T>(T) {
    const T token = load_at<T>(tokens.data() + position * sizeof(T));
    return std::is_signed_v<T> ? std::to_string(static_cast<std::int64_t>(token))
                               : std::to_string(static_cast<std::uint64_t>(token));
  });
}

}  // namespace mtl
