#include "train/run_report.h"

#include <unistd.h>

#include <algorithm>

#include "nn/model_params.h"
#include "run/flops.h"

namespace mtl {

namespace {

double peak_rate(const TrainOptions& options, const RunShape& shape) {
  const double given = options.logging.peak_tflops.value_or(0);
  return given != 0 ? given : measure_peak_tflops(shape.device, shape.threads, shape.precision.compute);
}

}  // namespace

RunReport::RunReport(const TrainOptions& options, const StepRunner& steps, RunProgress& run, Console& console,
                     const std::string& run_id, const Json& data)
    : options_(options),
      steps_(steps),
      run_(run),
      console_(console),
      peak_tflops_(peak_rate(options, steps.shape())),
      metrics_(sinks(run_id, data), console) {}

MetricsOptions RunReport::sinks(const std::string& run_id, const Json& data) const {
  const bool is_open = !run_id.empty();
  return {.terminal = is_open && !console_.quiet,
          .tensorboard_dir = is_open ? options_.logging.tensorboard_dir : "",
          .log_jsonl = is_open ? options_.logging.log_jsonl : "",
          .log_prometheus = is_open ? options_.logging.log_prometheus : "",
          .wandb = is_open ? options_.logging.wandb : WandbOptions(),
          .from = {.run = run_id,
                   .iteration = run_.state.iteration,
                   .consumed_samples = run_.state.consumed_samples,
                   .train_iterations = run_.iterations,
                   .validation_is_due = run_.validation_is_due},
          .world_size = options_.parallel.world,
          .start = Json::object({{"command", options_.command_line},
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
                                 {"data", data}})};
}

/// Adds what follows from the interval's time so far. Returns the peak rate, with which it compares the run's.
double RunReport::add_rates(IntervalReport& report) const {
  const double seconds = step_seconds(), ranks = options_.parallel.world;
  const double samples = double(run_.interval.samples) / double(run_.interval.steps);
  const std::int64_t length = options_.data.seq_length;
  const GptConfig& config = steps_.config();
  report.elapsed_ms_per_iteration = seconds * 1e3;
  report.tflops_per_device =
      samples * megatron_flops(config, steps_.shape().padded_vocab, 1, length) / seconds / 1e12 / ranks;
  report.tokens_per_second = samples * double(length) / seconds;
  const double tera_tokens = report.tokens_per_second / ranks / 1e12;  // per second and device
  const double tflops_b = flops_per_token_b(config, length) * tera_tokens;
  // The machine may have been too busy to show its peak before the first step.
  const double peak = options_.logging.peak_tflops ? peak_tflops_ : std::max(peak_tflops_, tflops_b);
  report.mfu_a = flops_per_token_a(config, length) * tera_tokens / peak;
  report.mfu_b = tflops_b / peak;
  return peak;
}

void RunReport::report_interval(double stalled, bool final) {
  IntervalReport report = run_.interval_report();
  peak_tflops_ = add_rates(report);
  const double steps = run_.interval.steps;
  report.data_stall_ms = (stalled - run_.interval.stalled) * 1e3 / steps;
  if (options_.parallel.world > 1) report.communication_wait_ms = run_.interval.waited * 1e3 / steps;
  report.is_final = final;
  metrics_.report(report);
  if (!final) run_.interval = {.began = now_seconds(), .stalled = stalled};
}

void RunReport::print_begin() const {
  const std::int64_t ranks = options_.parallel.world;
  const RunShape& shape = steps_.shape();
  std::string where = shape.device == Device::cuda ? "GPU" : "CPU process";
  where = ranks == 1 ? "a " + where : cat(ranks, " ", where, shape.device == Device::cuda ? "s" : "es");
  if (shape.device == Device::cpu) where += cat(" of ", shape.threads, shape.threads == 1 ? " thread" : " threads");
  console_.info(cat("training ", with_commas(parameter_count(steps_.config())), " parameters on ", where,
                    ": iterations ", with_commas(run_.state.iteration + 1), " to ", with_commas(run_.iterations),
                    ", each of ", run_.batch_sizes.sizes().size() > 1 ? "up to " : "", run_.batch_sizes.largest(),
                    " x ", options_.data.seq_length, " tokens; the first report comes after iteration ",
                    with_commas(run_.next_due(options_.logging.log_interval))));
}

void RunReport::print_times(const Validation& validation) const {
  constexpr double kSoon = 10;  // seconds
  const double seconds = step_seconds();
  const double to_report = seconds * double(run_.next_due(options_.logging.log_interval) - run_.state.iteration);
  if (to_report < kSoon) return;
  console_.info(cat("the first iteration took ", human_seconds(seconds), "; at this rate it is about ",
                    human_seconds(to_report), " to the first report and ",
                    human_seconds(validation.seconds_left(seconds)), " to the end"));
}

void RunReport::draw_status(const Validation& validation) const {
  if (run_.interval.steps == 0 || !is_terminal(STDERR_FILENO)) return;
  IntervalReport report = run_.interval_report();
  add_rates(report);
  const CheckpointOptions& checkpoint = options_.checkpoint;
  std::string line = cat("iteration ", run_.state.iteration, " of ", run_.iterations);
  if (report.lm_loss) line += format(" | loss %.4f", *report.lm_loss);
  line += cat(" | ", with_commas(static_cast<std::int64_t>(report.tokens_per_second)), " tokens/s");
  line += format(" | MFU %.1f%%", 100 * *report.mfu_a);
  line += cat(" | ", human_seconds(validation.seconds_left(step_seconds())), " left");
  if (!checkpoint.save.empty())
    line += cat(" | next save at ", std::min(run_.next_due(checkpoint.save_interval.value_or(0)),
                                             run_.next_due(checkpoint.non_persistent_interval.value_or(0))));
  console_.status(line);
}

void RunReport::print_status(const std::string& where) const {
  console_.info(cat("iteration ", run_.state.iteration, " of ", run_.iterations, ", ", run_.state.consumed_samples,
                    run_.state.consumed_samples == 1 ? " sample" : " samples", " consumed", where));
}

}  // namespace mtl
