// A lower bound for a step's time on given hardware. Every operator takes as long as its FLOPs or its bytes at the peak
// rates, whichever is longer. The bound excludes launches, communication and pipeline bubbles.
#pragma once

#include <string>

#include "base/json.h"
#include "device/dtype.h"
#include "run/options.h"
#include "train/profile_report.h"

namespace mtl {

struct Roofline {
  ProfileReport report;  // for the rank with the longest bound
  int rank = 0;
  double step_ms = 0, tokens_per_second = 0;       // a lower bound; an upper bound, over all ranks
  double mfu_a = 0, mfu_b = 0;                     // upper bounds
  std::int64_t logits_rows = 0, logits_bytes = 0;  // of a piece of the output layer (LmHead)
  DType logits_dtype = DType::f32;
};

/// Profiles one step on the meta device, which stands for GPUs here, for every kind of rank, and returns the slowest
/// rank's bounds. options.device is ignored: all known hardware is GPUs.
Roofline predict_step(TrainOptions options, const GptConfig& config, const Hardware& hardware);
std::string roofline_text(const Roofline& roofline);
Json roofline_json(const Roofline& roofline);

}  // namespace mtl
