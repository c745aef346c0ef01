// The reports of a training run, and their text in Megatron's format.
//
// The reports are plain figures; every sink (terminal, TensorBoard, JSON lines: metrics.h) writes the same ones. The
// text is Megatron-LM's (megatron/training/training.py: training_log, evaluate_and_print_results), field for field,
// so that scripts which read its logs read ours; our own figures follow its last field in the same style.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace mtl {

/// One log interval. A figure that does not exist (all steps skipped, a single rank) is empty, and its field omitted.
struct IntervalReport {
  std::int64_t iteration = 0;         // the last one of the interval, counted from 1
  std::int64_t train_iterations = 0;  // of the whole run
  std::int64_t consumed_samples = 0;
  double elapsed_ms_per_iteration = 0;
  double learning_rate = 0;  // of the last step
  std::int64_t global_batch_size = 0;
  std::optional<double> lm_loss{};  // mean over the interval's updates
  double loss_scale = 1;
  std::optional<double> grad_norm{};
  std::int64_t skipped_iterations = 0;
  std::int64_t nan_iterations = 0;
  std::optional<double> tflops_per_device{};  // model FLOPs per device and second / 1e12
  double tokens_per_second = 0;               // of the whole job
  std::optional<double> mfu_a{};              // fraction of the peak; 6N + 6LCT FLOPs per token
  std::optional<double> mfu_b{};              // fraction of the peak; 6N + 12LCT FLOPs per token
  std::optional<double> data_stall_ms{};      // per iteration, waiting for data
  // Per iteration, the wait for summed gradients and updated weights on the rank that waited least; the other ranks
  // also waited for slower ranks. Absent on a single rank.
  std::optional<double> communication_wait_ms{};
  // The shares of nonzero updates that leave the updated weight, and the narrower copy of it that layers read,
  // bit-identical. Absent if layers compute in fp32; the second also if they read the updated weights themselves.
  std::optional<double> lost_updates{}, lost_updates_copy{};
  bool is_final = false;  // the run ended within the interval; a prolonged run reports the whole interval again
};

/// A loss over held-out data: during training, or at the end of it (then for the validation and the test set).
struct ValidationReport {
  std::int64_t iteration = 0;
  std::int64_t consumed_samples = 0;
  std::string name = "validation";  // or "test"
  double loss = 0;
  bool is_final = false;

  /// exp(min(20, loss)); NaN for NaN, where Megatron-LM logs exp(20).
  double ppl() const;
};

/// " [2026-11-21 12:00:00] iteration        1/     500 | consumed samples: ... |", without a newline.
std::string log_line(const IntervalReport& report, const std::string& timestamp);

/// Three lines: dashes, " validation loss at iteration 100 | lm loss value: 3.1E+00 | lm loss PPL: 2.2E+01 | ", dashes.
/// At the end of training Megatron adds "on validation set" or "on test set" after the iteration.
std::string log_line(const ValidationReport& report);

}  // namespace mtl
