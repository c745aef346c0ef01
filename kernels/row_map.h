// Maps a tensor's rows to the run's samples and positions. A micro-batch has B sequences with T positions each. This
// rank holds `rows_per_sequence` positions of each: all T or, with context parallelism, a SequencePart of them. Its
// rows are numbered sequence by sequence. For row i of a tensor:
//   micro-batch row  r = first_row + i
//   position         part.position(r % rows_per_sequence, rows_per_sequence)
//   sequence         r / rows_per_sequence, which is the run's sample samples[r / rows_per_sequence]
#pragma once

#include <cstdint>

#include "device/tensor.h"

namespace mtl {

/// One of `parts` parts of a sequence. The sequence's T positions are cut into 2 `parts` equal chunks; the part
/// consists of chunk `index`, then chunk 2 `parts` - 1 - `index`. So in causal attention, all parts have the same
/// number of scores. Positions ascend from row to row. One part is the entire sequence, of any length.
struct SequencePart {
  int index = 0, parts = 1;

  constexpr bool is_whole() const { return parts == 1; }
  /// Returns the position of row `row` of a part with `rows` rows: 2 chunks.
  constexpr std::int64_t position(std::int64_t row, std::int64_t rows) const {
    const std::int64_t chunk = rows / 2;
    return row < chunk ? index * chunk + row : (2 * parts - 1 - index) * chunk + (row - chunk);
  }
  /// Returns how many of the part's `rows` rows are at positions before `position`.
  constexpr std::int64_t rows_before(std::int64_t position, std::int64_t rows) const {
    const std::int64_t chunk = rows / 2, first = position - index * chunk,
                       second = position - (2 * parts - 1 - index) * chunk, most = rows - chunk;
    return (first < 0 ? 0 : first < chunk ? first : chunk) + (second < 0 ? 0 : second < most ? second : most);
  }
  bool operator==(const SequencePart&) const = default;
};

struct RowMap {
  Tensor samples{};                    // (B) i64; may be absent if no random numbers are drawn
  std::int64_t first_row = 0;          // the micro-batch row that is the tensor's row 0
  std::int64_t rows_per_sequence = 1;  // that this rank holds
  SequencePart part{};                 // which these are
  bool resets_positions = true;        // the batch's positions may differ from position(): documents restart at 0

  /// Returns T.
  std::int64_t seq_length() const { return rows_per_sequence * part.parts; }
  std::int64_t sequence(std::int64_t row) const { return (first_row + row) / rows_per_sequence; }
  std::int64_t position(std::int64_t row) const {
    return part.position((first_row + row) % rows_per_sequence, rows_per_sequence);
  }
};

/// Throws unless all `count` rows can be mapped to samples.
void check_samples(const char* what, const RowMap& rows, std::int64_t count);

}  // namespace mtl
