// Validation and test: computes losses on held-out data, between two steps or at the end of a run.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/console.h"
#include "train/data_feed.h"
#include "train/metrics.h"
#include "train/run_progress.h"
#include "train/step_runner.h"

namespace mtl {

class Validation {
 public:
  /// Allocates the batches. The caller must keep the arguments alive.
  Validation(const TrainOptions& options, const TrainingData& data, StepRunner& steps, RunProgress& run,
             Console& console);

  /// Throws Error(usage) if the validations to come need more samples than remain. Must be called before the first
  /// step. As in Megatron-LM, the current session's flags determine the size of the validation set, but reading
  /// continues where the previous session stopped.
  void check_samples() const;
  /// Returns the time to the end of the run if an iteration takes `seconds`, with the validations. Until one has been
  /// measured, a batch of it takes a third of an iteration, as a forward pass.
  double seconds_left(double seconds) const;

  /// What ranks do together: before each batch, whose name ends a status line (returns false if the run ends), and
  /// after the last one.
  struct Exchanges {
    std::function<bool(const std::string& where)> answer_requests;
    std::function<void(StepTotals& totals)> sum;
  };
  /// Collective: validates and, after the last iteration (`final`), also tests. Returns false if a request to end
  /// interrupted the validation; a resumed run then repeats the entire validation.
  bool run(bool final, Metrics& metrics, const Exchanges& ranks);

 private:
  std::int64_t validations_left() const;
  bool is_full() const { return options_.batch.full_validation; }
  std::int64_t samples() const { return options_.batch.eval_iters * run_.batch_sizes.largest(); }
  std::int64_t batches_of(const BlendedDataset& set) const;
  std::string set_name(std::size_t number) const;
  std::optional<double> evaluate(const std::shared_ptr<const BlendedDataset>& set, Split split, ValidationReport report,
                                 Metrics& metrics, const Exchanges& ranks);

  const TrainOptions& options_;
  const TrainingData& data_;
  StepRunner& steps_;
  RunProgress& run_;
  Console& console_;
  std::optional<StepBatches> batches_;  // for one data set after the other
  std::optional<double> seconds_;       // the last validation took
};

}  // namespace mtl
