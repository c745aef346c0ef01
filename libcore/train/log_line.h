// A training run's reports, and their text in Megatron's format.
//
// A report is a struct of numbers. Every sink (terminal, TensorBoard, JSON lines: metrics.h) writes the same numbers.
// The text matches Megatron-LM (megatron/training/training.py: training_log, evaluate_and_print_results) field by
// field, so that scripts that parse Megatron-LM logs can also parse ours. Our additional metrics follow Megatron-LM's
// last field in the same style.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace mtl {

/// A log interval. A metric that is not available (all steps skipped, a single rank) is empty, and its field is
/// omitted.
struct IntervalReport {
  std::int64_t iteration = 0;         // the interval's last iteration, counted from 1
  std::int64_t train_iterations = 0;  // of the whole run
  std::int64_t consumed_samples = 0;
  double elapsed_ms_per_iteration = 0;
  double learning_rate = 0;  // of the last step
  std::int64_t global_batch_size = 0;
  std::optional<double> lm_loss{};  // mean over the interval's updates
  std::optional<double> z_loss{};   // likewise, with --z-loss-coeff
  double loss_scale = 1;
  std::optional<double> grad_norm{};
  std::optional<std::int64_t> num_zeros{};  // elements of the last step's gradient that equal 0
  std::optional<double> params_norm{};      // after the last step's update
  std::int64_t skipped_iterations = 0;
  std::int64_t nan_iterations = 0;
  std::optional<double> tflops_per_device{};  // model FLOPs per device and second / 1e12
  double tokens_per_second = 0;               // of the whole job
  std::optional<double> mfu_a{};              // fraction of the peak; 6N + 6LCT FLOPs per token
  std::optional<double> mfu_b{};              // fraction of the peak; 6N + 12LCT FLOPs per token
  std::optional<double> data_stall_ms{};      // per iteration, waiting for data
  // Time per iteration that a rank waited for summed gradients and updated weights, for the rank that waited least.
  // (The other ranks also waited for slower ranks.) Absent with a single rank.
  std::optional<double> communication_wait_ms{};
  // lost_updates: fraction of nonzero updates that do not change the updated weight. lost_updates_copy: fraction of
  // nonzero updates that do not change the weight's narrower copy, which layers read. Both are absent if layers compute
  // in fp32. lost_updates_copy is also absent if layers read the updated weights themselves.
  std::optional<double> lost_updates{}, lost_updates_copy{};
  bool is_final = false;  // the run ended within the interval; an extended run reports the entire interval again
};

/// A held-out loss: over the validation set during training, or over the validation or test set at the end.
struct ValidationReport {
  std::int64_t iteration = 0;
  std::int64_t consumed_samples = 0;
  std::string name = "validation";  // or "test"
  std::string set{};                // of several validation sets: its name
  double loss = 0;
  bool is_final = false;
  std::int64_t samples_before = 0, samples = 0;  // of the set: read by earlier validations, and by this one

  /// Returns "validation", or "validation-web" for the set web, as Megatron-LM writes it.
  std::string label() const { return set.empty() ? name : name + "-" + set; }
  /// Returns exp(min(20, loss)), or NaN if the loss is NaN, for which Megatron-LM logs exp(20).
  double ppl() const;
};

/// Returns " [2026-11-21 12:00:00] iteration        1/     500 | consumed samples: ... |", without a newline.
std::string log_line(const IntervalReport& report, const std::string& timestamp);

/// Returns three lines: dashes, " validation loss at iteration 100 | lm loss value: 3.1E+00 | lm loss PPL: 2.2E+01 |
/// validation samples 1 to 160 | ", dashes. At the end of training, as in Megatron-LM, "on validation set" or "on test
/// set" follows the iteration. The samples tell this line from the periodic one of the same iteration. Of several
/// validation sets, the text begins with " validation-NAME loss at".
std::string log_line(const ValidationReport& report);

}  // namespace mtl
