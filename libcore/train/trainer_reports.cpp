// A training run's reports: intervals, validations, the start record, non-finite gradients.
#include <unistd.h>

#include <algorithm>

#include "comm/text_exchange.h"
#include "nn/model_params.h"
#include "train/flops.h"
#include "train/trainer.h"

namespace mtl {

/// `final` means that the run ends before the interval does. The interval's sums are kept, so that an extended run can
/// continue it.
void Trainer::report_interval(bool final) {
  double steps = run_.interval.steps;
  double seconds = (now_seconds() - run_.interval.began) / steps;  // of one iteration
  double samples = double(run_.interval.samples) / steps;
  std::int64_t length = options_.data.seq_length;
  IntervalReport report = run_.interval_report();
  report.elapsed_ms_per_iteration = seconds * 1e3;
  double ranks = options_.parallel.world;
  report.tflops_per_device =
      samples * megatron_flops(steps_.config(), steps_.shape().padded_vocab, 1, length) / seconds / 1e12 / ranks;
  report.tokens_per_second = samples * double(length) / seconds;
  const double tera_tokens = report.tokens_per_second / ranks / 1e12;  // per second and device
  const double tflops_a = flops_per_token_a(steps_.config(), length) * tera_tokens;
  const double tflops_b = flops_per_token_b(steps_.config(), length) * tera_tokens;
  // The machine may have been too busy to show its peak before the first step.
  if (!options_.logging.peak_tflops) peak_tflops_ = std::max(peak_tflops_, tflops_b);
  report.mfu_a = tflops_a / peak_tflops_;
  report.mfu_b = tflops_b / peak_tflops_;
  double stalled = train_feed_->stalled_seconds();
  report.data_stall_ms = (stalled - run_.interval.stalled) * 1e3 / steps;
  if (options_.parallel.world > 1) report.communication_wait_ms = run_.interval.waited * 1e3 / steps;
  report.is_final = final;
  metrics_->report(report);
  if (final) return;
  run_.interval = {};
  run_.interval.began = now_seconds();
  run_.interval.stalled = stalled;
}

void Trainer::report_held_out(const char* name, double loss, bool final, std::int64_t samples_before) {
  metrics_->report(ValidationReport{.iteration = run_.state.iteration,
                                    .consumed_samples = run_.state.consumed_samples,
                                    .name = name,
                                    .loss = loss,
                                    .is_final = final,
                                    .samples_before = samples_before,
                                    .samples = held_out_samples()});
}

/// Says what the run will do, and when it will be heard of again.
void Trainer::print_begin() {
  const std::int64_t ranks = options_.parallel.world;
  std::string where = steps_.shape().device == Device::cuda ? "GPU" : "CPU process";
  where = ranks == 1 ? "a " + where : cat(ranks, " ", where, steps_.shape().device == Device::cuda ? "s" : "es");
  if (steps_.shape().device == Device::cpu)
    where += cat(" of ", steps_.shape().threads, steps_.shape().threads == 1 ? " thread" : " threads");
  console_.info(cat("training ", with_commas(parameter_count(steps_.config())), " parameters on ", where,
                    ": iterations ", with_commas(run_.state.iteration + 1), " to ", with_commas(run_.iterations),
                    ", each of ", run_.batch_sizes.sizes().size() > 1 ? "up to " : "", run_.batch_sizes.largest(),
                    " x ", options_.data.seq_length, " tokens; the first report comes after iteration ",
                    with_commas(run_.next_due(options_.logging.log_interval))));
}

/// Returns the time to the end of the run if an iteration takes `seconds`, with the validations. Until one has been
/// measured, a batch of it takes a third of an iteration, as a forward pass.
double Trainer::seconds_left(double seconds) const {
  const double validation = validation_seconds_.value_or(double(options_.batch.eval_iters) * seconds / 3);
  return double(run_.iterations - run_.state.iteration) * seconds + double(validations_left()) * validation;
}

/// After the first iteration, says how long the next report and the end of a slow run take.
void Trainer::print_times() {
  constexpr double kSoon = 10;  // seconds
  const double seconds = now_seconds() - run_.interval.began;
  const double to_report = seconds * double(run_.next_due(options_.logging.log_interval) - run_.state.iteration);
  if (to_report < kSoon) return;
  console_.info(cat("the first iteration took ", human_seconds(seconds), "; at this rate it is about ",
                    human_seconds(to_report), " to the first report and ", human_seconds(seconds_left(seconds)),
                    " to the end"));
}

/// On a terminal, shows the state of the run below the log, from the interval's steps so far.
void Trainer::draw_status() {
  if (run_.interval.steps == 0 || !is_terminal(STDERR_FILENO)) return;
  const double seconds = (now_seconds() - run_.interval.began) / double(run_.interval.steps);  // of one iteration
  const double tokens =
      double(run_.interval.samples * options_.data.seq_length) / double(run_.interval.steps) / seconds;
  const double flops = flops_per_token_a(steps_.config(), options_.data.seq_length) * tokens;
  const CheckpointOptions& checkpoint = options_.checkpoint;
  std::string line = cat("iteration ", run_.state.iteration, " of ", run_.iterations);
  if (run_.interval.counted > 0) line += format(" | loss %.4f", run_.interval.loss());
  line += cat(" | ", with_commas(static_cast<std::int64_t>(tokens)), " tokens/s");
  line += format(" | MFU %.1f%%", 100 * flops / (double(options_.parallel.world) * peak_tflops_ * 1e12));
  line += cat(" | ", human_seconds(seconds_left(seconds)), " left");
  if (!checkpoint.save.empty()) line += cat(" | next save at ", run_.next_due(checkpoint.save_interval.value_or(0)));
  console_.status(line);
}

void Trainer::print_status(const std::string& where) {
  console_.info(cat("iteration ", run_.state.iteration, " of ", run_.iterations, ", ", run_.state.consumed_samples,
                    run_.state.consumed_samples == 1 ? " sample" : " samples", " consumed", where));
}

Json Trainer::start_record() const {
  return Json::object({{"command", options_.command_line},
                       {"parameters", parameter_count(steps_.config())},
                       {"threads", steps_.shape().threads},
                       {"precision", precision_mode(options_.precision)},
                       {"tf32", options_.tf32},
                       {"attention_backend", options_.attention_backend},
                       {"world_size", options_.parallel.world},
                       {"tensor_parallel", options_.parallel.tensor},
                       {"pipeline_parallel", options_.parallel.pipeline},
                       {"data_parallel", options_.parallel.data()},
                       {"context_parallel", options_.parallel.context},
                       {"peak_tflops", peak_tflops_},
                       {"global_batch_size", run_.batch_sizes.largest()},
                       {"seq_length", options_.data.seq_length},
                       {"train_iterations", run_.iterations},
                       {"data", data_.identity()}});
}

/// Reports which ranks and tensors have infinite or NaN gradients.
void Trainer::report_nonfinite_gradients(const EnqueuedStep& step, bool gradients_remain) {
  constexpr std::size_t kMaxNames = 3;
  std::vector<std::string> names = steps_.nonfinite_gradients(step, gradients_remain);
  std::size_t count = names.size();
  names.resize(std::min(count, kMaxNames));
  std::string own = join(names, ", ");
  if (count > kMaxNames) own += cat(" and ", count - kMaxNames, " more");
  std::vector<std::string> all = gather_texts(ranks_.groups.world(), own), lines;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) continue;
    std::string who = all.size() == 1 ? "" : cat("rank ", rank, " (", ranks_.hosts[rank], "): ");
    lines.push_back("\n  " + who + all[rank]);
  }
  if (!is_rank_zero()) return;
  const char* what = lines.empty() ? ": the gradient is not finite in the sum over all ranks; no update was made"
                                   : ": the gradient is not finite; no update was made";
  console_.warn(cat("iteration ", step.iteration, what, join(lines, "")));
}

}  // namespace mtl
