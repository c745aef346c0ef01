// Computes the dropout mask for hidden states one element at a time, as specified in kernels/dropout.h.
#pragma once

#include <map>

#include "kernels/dropout.h"
#include "kernels/row_map.h"
#include "tests/kernels/reference.h"

namespace mtl::test {

inline constexpr std::int64_t kMostSamples = 512;

/// Returns the first sample number in each buffer that samples_from() made, by buffer address.
inline std::map<const void*, std::int64_t>& first_samples() {
  static std::map<const void*, std::int64_t> by_address;
  return by_address;
}

/// Returns a buffer with the sample numbers first, first + 1, ... It is longer than any test needs.
inline Tensor samples_from(std::int64_t first) {
  static std::map<std::int64_t, Owned> kept;
  auto [at, is_new] = kept.try_emplace(first, DType::i64, Shape{kMostSamples});
  for (std::int64_t i = 0; is_new && i < kMostSamples; ++i) at->second.host<std::int64_t>()[i] = first + i;
  Tensor tensor = at->second.tensor();
  first_samples()[tensor.raw()] = first;
  return tensor;
}

/// Returns sample number i in a tensor from samples_from().
inline std::int64_t sample_of(const Tensor& samples, std::int64_t i) { return first_samples().at(samples.raw()) + i; }

/// Returns the factor for element (row, c) in a tensor with `width` columns: 0, or the scale.
inline double hidden_mask(const Dropout& dropout, const RowMap& rows, std::int64_t row, std::int64_t c,
                          std::int64_t width) {
  if (!dropout.active()) return 1;
  const std::int64_t number = rows.first_row + row, sample = number / rows.rows_per_sequence;
  const std::int64_t element = rows.position(row) * width + c;
  const auto words = philox(dropout.key, static_cast<std::uint64_t>(sample_of(rows.samples, sample)),
                            static_cast<std::uint64_t>(element / 8));
  const auto i = static_cast<std::size_t>(element % 8);
  const std::uint32_t bits = i % 2 == 0 ? words[i / 2] & 0xFFFF : words[i / 2] >> 16;
  const std::uint32_t threshold = hidden_dropout_threshold(dropout.probability);
  return bits >= threshold ? 65536.0 / (65536.0 - threshold) : 0;
}

}  // namespace mtl::test
