#include "train/log_line.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/str.h"

namespace mtl {

namespace {

/// Formats with one decimal, like Megatron-LM. Numbers below 1 get three significant digits, because a small model
/// would otherwise show 0.0.
std::string rate_text(double value) {
  constexpr int kMaxDecimals = 12;
  if (!(value > 0 && value < 1)) return format("%.1f", value);
  return format("%.*f", std::min(kMaxDecimals, 2 - static_cast<int>(std::floor(std::log10(value)))), value);
}

/// Removes the meaningless sign of a NaN, which printf would show.
double plain_nan(double value) { return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value; }

}  // namespace

double ValidationReport::ppl() const { return std::isnan(loss) ? loss : std::exp(std::min(20.0, loss)); }

std::string log_line(const IntervalReport& report, const std::string& timestamp) {
  auto integer = [](std::int64_t value) { return static_cast<long long>(value); };
  std::string out = format(" [%s] iteration %8lld/%8lld |", timestamp.c_str(), integer(report.iteration),
                           integer(report.train_iterations));
  out += format(" consumed samples: %12lld |", integer(report.consumed_samples));
  out += format(" elapsed time per iteration (ms): %.1f |", report.elapsed_ms_per_iteration);
  if (report.tflops_per_device)
    out += cat(" throughput per GPU (TFLOP/s/GPU): ", rate_text(*report.tflops_per_device), " |");
  out += format(" learning rate: %.6E |", report.learning_rate);
  out += format(" global batch size: %5lld |", integer(report.global_batch_size));
  if (report.lm_loss) out += format(" lm loss: %.6E |", plain_nan(*report.lm_loss));
  if (report.z_loss) out += format(" z loss: %.6E |", plain_nan(*report.z_loss));
  out += format(" loss scale: %.1f |", report.loss_scale);
  if (report.grad_norm) out += format(" grad norm: %.3f |", plain_nan(*report.grad_norm));
  if (report.num_zeros) out += format(" num zeros: %lld |", integer(*report.num_zeros));
  if (report.params_norm) out += format(" params norm: %.3f |", plain_nan(*report.params_norm));
  out += format(" number of skipped iterations: %3lld |", integer(report.skipped_iterations));
  out += format(" number of nan iterations: %3lld |", integer(report.nan_iterations));
  out += format(" tokens per second: %.1f |", report.tokens_per_second);
  if (report.mfu_a) out += cat(" MFU A: ", rate_text(100 * *report.mfu_a), "% |");
  if (report.mfu_b) out += cat(" MFU B: ", rate_text(100 * *report.mfu_b), "% |");
  if (report.lost_updates) out += cat(" lost updates: ", rate_text(100 * *report.lost_updates), "% |");
  if (report.lost_updates_copy)
    out += cat(" lost updates of the copy: ", rate_text(100 * *report.lost_updates_copy), "% |");
  if (report.data_stall_ms) out += format(" data stall (ms): %.1f |", *report.data_stall_ms);
  if (report.communication_wait_ms) out += format(" communication wait (ms): %.1f |", *report.communication_wait_ms);
  return out;
}

std::string log_line(const ValidationReport& report) {
  std::string place = cat("iteration ", report.iteration);
  if (report.is_final) place += cat(" on ", report.name, " set");
  std::string text = cat(" ", report.set.empty() ? "validation" : report.label(), " loss at ", place, " | ");
  text += format("lm loss value: %.6E | lm loss PPL: %.6E | ", plain_nan(report.loss), plain_nan(report.ppl()));
  text += cat(report.name, " samples ", with_commas(report.samples_before + 1), " to ",
              with_commas(report.samples_before + report.samples), " | ");
  std::string dashes(text.size() + 1, '-');
  return cat(dashes, "\n", text, "\n", dashes);
}

}  // namespace mtl
