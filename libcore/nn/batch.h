// One micro-batch: the model's input. With context parallelism, this rank's part of it: T is then the number of its
// rows of each sequence, and positions and document starts are those in the whole sequence.
#pragma once

#include "kernels/cross_entropy.h"
#include "kernels/row_map.h"

namespace mtl {

struct Batch {
  Tensor samples;         // (B) i64: each sample's index in the run, which seeds dropout; absent in evaluation
  Tensor tokens;          // (B, T) i32
  Tensor positions;       // (B, T) i32
  Tensor labels;          // (B, T) i32: the token after each position
  Tensor loss_weights;    // (B, T) f32: d(step loss) / d(loss of this token); 0 where the mask is 0
  Tensor document_start;  // (B, T) i32: first position that each query attends to; absent without a document mask
  ZLoss z_loss;           // its losses are (B, T)

  Tensor rotary;                 // (B T, 2, pairs) f32: cosines and sines of the rotary angles; computed by the chunk
  SequencePart part{};           // which of each sequence's positions the T tokens are
  bool resets_positions = true;  // as in RowMap
  std::int64_t decoded = 0;      // decoding: tokens in each whole sequence, cached ones included

  /// Returns the number of tokens in each whole sequence, which may determine the rotary frequencies.
  std::int64_t sequence_length() const { return decoded > 0 ? decoded : rows().seq_length(); }

  /// Maps the B T rows to their positions in the run.
  RowMap rows() const { return {samples, 0, tokens.size(1), part, resets_positions}; }
};

}  // namespace mtl
