// One micro-batch, as the model sees it.
#pragma once

#include "kernels/row_map.h"

namespace mtl {

struct Batch {
  Tensor samples;         // (B) i64: the samples' numbers in the run, which dropout depends on; not in evaluation
  Tensor tokens;          // (B, T) i32
  Tensor positions;       // (B, T) i32
  Tensor labels;          // (B, T) i32, the token after each
  Tensor loss_weights;    // (B, T) f32: d(step loss) / d(loss of this token); 0 where the mask is 0
  Tensor document_start;  // (B, T) i32: first position that each may see; left out when documents are not separated

  Tensor rotary;  // (B T, 2, pairs) f32: cosines and sines of the rows' rotary angles; made by the chunk

  /// Where all (B T) rows belong in the run.
  RowMap rows() const { return {samples, 0, tokens.size(1)}; }
};

}  // namespace mtl
