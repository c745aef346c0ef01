// Attention on the CPU. One call computes one key-value group in one sequence, with all of the group's query heads.
//
// Queries are processed in blocks of 48 with keys in blocks of 192, so that a block of scores stays in L2 (Dao 2023).
// Within a block, the micro-kernels process a few rows at a time, from the window's start up to the diagonal. A call is
// sequential and sums in a fixed order, so results depend on the instruction set, but not on the number of threads or
// the batch size. If the queries are part of a sequence, blocks end at its chunks' ends and where the blocks of the
// entire sequence end, so that each query's sums add in the same order as there.
//
// 16-bit operands are widened to fp32 when they are copied to the work area, where everything is computed in fp32.
// Results are rounded once, when they are written.
#pragma once

#include <algorithm>
#include <cstdint>

#include "device/dtype.h"
#include "device/philox.h"
#include "kernels/row_map.h"

namespace mtl::cpu {

/// Where one group's dropout bytes come from (kernels/dropout.h).
struct AttentionDropout {
  bool active = false;
  PhiloxKey key{};
  std::uint64_t sample = 0;        // global number of this sequence
  std::uint64_t head = 0;          // global number of the group's first query head
  std::uint64_t row_tiles = 0;     // per head, of 16 rows each
  std::uint64_t column_tiles = 0;  // per row of tiles, of 32 columns each
  std::int32_t threshold = 0;      // kept iff byte >= threshold
  float scale = 1;                 // 1 / quantized keep probability
};

/// A group's rows in memory: head r of row t is at element t * stride + r * dim.
struct HeadRows {
  void* first = nullptr;  // elements of the group's dtype
  std::int64_t stride = 0;

  /// T must be the C++ type of the group's dtype.
  template <class T>
  T* row(std::int64_t t) const {
    return static_cast<T*>(first) + t * stride;
  }
};

struct AttentionGroup {
  std::int64_t queries = 0;
  std::int64_t keys = 0;            // from the first key that a query attends to, up to the last
  std::int64_t first_position = 0;  // of query 0, if the queries are not part of a sequence
  SequencePart part;                // whose rows the queries are
  std::int64_t all_keys = 0;        // rows of keys in the tensor, of which they are rows first_key_row and so on
  std::int64_t first_key_row = 0;
  SequencePart key_part;    // whose rows the keys in the tensor are
  std::int64_t window = 0;  // positions that a query attends to, including its own; INT64_MAX: no limit
  std::int64_t heads = 0;   // R
  std::int64_t dim = 0;     // D
  float scale = 0;
  DType dtype = DType::f32;  // of q, k, v and any other HeadRows in a call
  HeadRows q, k, v;
  const std::int32_t* document_start = nullptr;  // (queries) positions in the sequence, or null
  AttentionDropout dropout;

  /// Return a query's and a key's position.
  std::int64_t position(std::int64_t row) const { return first_position + part.position(row, queries); }
  std::int64_t key_position(std::int64_t key) const { return key_part.position(first_key_row + key, all_keys); }
  /// Returns the first key that is not before `position`.
  std::int64_t key_from(std::int64_t position) const {
    return key_part.rows_before(position, all_keys) - first_key_row;
  }
  /// Return the last key that query `row` attends to, unless documents or the window exclude it, which is its own if
  /// that is among the keys; the first key that its window includes; and the first key that it attends to. From a query
  /// to the next, the last key ascends by at most 1 within a chunk. Last keys can be -1.
  std::int64_t last_key(std::int64_t row) const { return key_from(position(row) + 1) - 1; }
  std::int64_t window_key(std::int64_t row) const {
    return window == INT64_MAX ? 0 : key_from(position(row) - window + 1);
  }
  std::int64_t first_key(std::int64_t row) const {
    const std::int64_t start = document_start == nullptr ? 0 : key_from(document_start[row]);
    return std::max({std::int64_t{0}, start, window_key(row)});
  }
  /// Returns the first row after the chunk of consecutive positions that `row` is in.
  std::int64_t chunk_end(std::int64_t row) const {
    return part.is_whole() || row >= queries / 2 ? queries : queries / 2;
  }
};

/// Operands of forward_group(), which writes out and, if not null, logsumexp (R, queries), and of decode_group().
struct AttentionForward {
  AttentionGroup group;
  HeadRows out;
  float* logsumexp = nullptr;
};

/// Operands of backward_group(), which writes dq, and dk and dv of `keys` keys.
struct AttentionBackward {
  AttentionGroup group;
  HeadRows dout, out;
  const float* logsumexp = nullptr;
  HeadRows dq, dk, dv;
};

/// The workspace, of the size that attention_cpu_work.h says, must be 64-byte aligned.
void forward_group(const AttentionForward& call, float* work);
void backward_group(const AttentionBackward& call, float* work);

/// Decoding: one query per head, without logsumexp, document_start and dropout, which are ignored. Writes out. Reads
/// each key and value once.
void decode_group(const AttentionForward& call, float* work);

}  // namespace mtl::cpu
