// A run's sizes and options, except those of the model.
#pragma once

#include <cstdint>

#include "device/precision.h"
#include "device/stream.h"
#include "kernels/row_map.h"
#include "layout/layout.h"
#include "nn/model_build.h"
#include "optim/param_memory.h"
#include "optim/update_rule.h"

namespace mtl {

struct RunShape {
  std::int64_t micro_batch = 1;    // B: sequences per micro-batch
  std::int64_t seq_length = 1;     // T, in whole sequences
  std::int64_t micro_batches = 1;  // per step, on this rank
  std::int64_t padded_vocab = 0;
  bool documents = false;        // batches contain document starts
  bool resets_positions = true;  // as in RowMap
  // The loss is the mean over all tokens of a step, instead of the mean over micro-batches of their tokens' means.
  bool per_token_loss = false;
  float z_loss = 0;           // the coefficient of the z-loss, 0: none
  int threads = 1;            // threads per operator; each thread has its own workspace
  int batch_sets = 1;         // number of steps whose batches are in memory at the same time
  bool graphs = false;        // run steps as CUDA graphs
  bool copies_saves = false;  // copy what a checkpoint contains, so that steps go on while it is written
  bool saves_states = true;   // checkpoints contain the rules' states, not only weights
  Layout layout = {};         // of this rank
  ParamStorage storage = {};
  Recompute recompute = {};
  std::int64_t offloaded_layers = 0;  // as in ModelBuild
  Device device = Device::cpu;
  Precision precision = {};
  RuleSet rules = single_rule<AdamW>();  // none: evaluation

  /// The positions of each sequence that this rank holds, and their number.
  SequencePart part() const { return {layout.coordinate(Axis::context), layout.size(Axis::context)}; }
  std::int64_t rows_per_sequence() const { return seq_length / layout.size(Axis::context); }
};

}  // namespace mtl
