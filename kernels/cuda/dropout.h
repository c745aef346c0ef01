// The hidden-state masks from kernels/dropout.h, with the same bits as on the cpu. A pack of 8 elements needs one
// Philox call. The call has about 100 instructions, which a memory-bound kernel hides. If the row width is not a
// multiple of 8, every element needs its own call.
#pragma once

#include "kernels/cuda/pack.h"
#include "kernels/cuda/philox.h"
#include "kernels/dropout.h"
#include "kernels/row_map.h"

namespace mtl::cuda {

/// A tensor's mask, as a kernel argument.
struct HiddenMask {
  PhiloxKey key;
  const std::int64_t* samples = nullptr;  // null: dropout is off
  std::int64_t first_row, rows_per_sequence, width;
  SequencePart part;
  std::uint32_t threshold = 0;
  float scale = 1;

  HiddenMask(const Dropout& dropout, const RowMap& rows, std::int64_t columns)
      : key(dropout.key),
        first_row(rows.first_row),
        rows_per_sequence(rows.rows_per_sequence),
        width(columns),
        part(rows.part) {
    if (!dropout.active()) return;
    samples = rows.samples.data<std::int64_t>();
    threshold = hidden_dropout_threshold(dropout.probability);
    scale = threshold >= 65536 ? 0 : 65536.0f / static_cast<float>(65536 - threshold);
  }
};

/// The mask for one row of the tensor.
class RowMask {
 public:
  __device__ RowMask(const HiddenMask& mask, std::int64_t row) : mask_(mask) {
    if (mask.samples == nullptr) return;
    const std::int64_t number = mask.first_row + row, sequence = number / mask.rows_per_sequence;
    sample_ = static_cast<std::uint64_t>(mask.samples[sequence]);
    const std::int64_t held = number - sequence * mask.rows_per_sequence;
    first_ = static_cast<std::uint64_t>(mask.part.position(held, mask.rows_per_sequence) * mask.width);
  }

  /// Returns the factors for columns [column, column + n): 0 or the scale, or 1 if dropout is off. For a pack of 8,
  /// both `column` and the row width must be multiples of 8.
  template <int n>
  __device__ Pack<n> factors(int column) const {
    Pack<n> out;
    if (mask_.samples == nullptr) {
      for (int j = 0; j < n; ++j) out[j] = 1;
      return out;
    }
    const std::uint64_t element = first_ + static_cast<unsigned>(column);
    const std::array<std::uint32_t, 4> words = philox(mask_.key, sample_, element / 8);
#pragma unroll
    for (unsigned j = 0; j < n; ++j)
      out[static_cast<int>(j)] = philox_bits(words, n == 8 ? j : element) >= mask_.threshold ? mask_.scale : 0;
    return out;
  }

 private:
  const HiddenMask& mask_;
  std::uint64_t sample_ = 0, first_ = 0;  // first_: the row's first element in the sample
};

}  // namespace mtl::cuda
