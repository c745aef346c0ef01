// Judges a finished step by its loss and its gradient norm, which are the same on all ranks. It only looks at numbers.
//
// As in Megatron-LM, a loss or a gradient that is not finite ends the run, unless the flags say otherwise or a dynamic
// loss scale makes such gradients a matter of course; a loss or a gradient norm that is far above the first ones is
// only reported. "Far above" is Megatron-LM's is_unexpectedly_large(): at least 10 times the largest of the first 100
// values that were finite. (Megatron-LM looks at the loss of each micro-batch and the norm of each bucket.)
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"
#include "run/options.h"
#include "train/step_totals.h"

namespace mtl {

class StepChecks {
 public:
  /// Messages without the place, "the loss is ..."; empty: none.
  struct Verdict {
    std::string failure;  // the run must end
    std::string warning;
    bool is_expected() const { return failure.empty() && warning.empty(); }
  };

  explicit StepChecks(const TrainOptions& options);
  /// Judges a step, with its totals over all ranks. Must be called once for every step that is not repeated.
  Verdict judge(const StepTotals& totals, const StepReport& report);
  /// Returns and restores what a resumed run continues. Null if no check needs it.
  Json to_json() const;
  void restore(const Json& saved);

 private:
  /// A number of every step, and the largest of its first values.
  struct Watched {
    bool is_watched = false;
    std::int64_t count = 0;  // of the values in `largest`
    double largest = 0;

    std::string judge(const char* name, double value);
    Json to_json() const;
    void restore(const Json* saved);
  };

  bool ends_at_nonfinite_;
  Watched loss_, grad_norm_;
};

}  // namespace mtl
