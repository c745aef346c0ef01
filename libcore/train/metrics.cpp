#include "train/metrics.h"

#include <algorithm>

#include "base/str.h"

namespace mtl {

namespace {

constexpr int kLogVersion = 1;

Json step_object(const IntervalReport& report) {
  Json out =
      Json::object({{"type", "step"}, {"iteration", report.iteration}, {"consumed_samples", report.consumed_samples}});
  auto set_if_present = [&](const char* name, const std::optional<double>& value) {
    if (value) out.set(name, *value);
  };
  set_if_present("lm_loss", report.lm_loss);
  set_if_present("z_loss", report.z_loss);
  out.set("learning_rate", report.learning_rate);
  set_if_present("grad_norm", report.grad_norm);
  out.set("loss_scale", report.loss_scale);
  out.set("global_batch_size", report.global_batch_size);
  out.set("skipped_iterations", report.skipped_iterations);
  out.set("nan_iterations", report.nan_iterations);
  out.set("elapsed_ms_per_iteration", report.elapsed_ms_per_iteration);
  out.set("tokens_per_second", report.tokens_per_second);
  set_if_present("tflops_per_device", report.tflops_per_device);
  set_if_present("mfu_a", report.mfu_a);
  set_if_present("mfu_b", report.mfu_b);
  set_if_present("lost_updates", report.lost_updates);
  set_if_present("lost_updates_copy", report.lost_updates_copy);
  set_if_present("data_stall_ms", report.data_stall_ms);
  set_if_present("communication_wait_ms", report.communication_wait_ms);
  if (report.is_final) out.set("final", true);
  return out;
}

Json validation_object(const ValidationReport& report) {
  Json out = Json::object({{"type", report.name},
                           {"iteration", report.iteration},
                           {"consumed_samples", report.consumed_samples},
                           {"loss", report.loss},
                           {"ppl", report.ppl()}});
  if (report.is_final) out.set("final", true);
  return out;
}

/// Like Megatron-LM, writes most metrics twice: against iterations and against samples.
struct StepScalars {
  Scalars by_iteration, by_samples;

  void add(const std::string& tag, double value) {
    by_iteration.emplace_back(tag, value);
    by_samples.emplace_back(tag + " vs samples", value);
  }
};

}  // namespace

Metrics::Metrics(const MetricsOptions& options, Console& console)
    : options_(options),
      console_(console),
      terminal_sink_("standard output", "line", console),
      log_sink_(options.log_jsonl, "line", console),
      event_sink_(options.tensorboard_dir, "record", console) {
  if (!options.log_jsonl.empty()) log_sink_.attempt(1, [&] { open_log(); });
  if (!options.tensorboard_dir.empty()) event_sink_.attempt(0, [&] { open_events(); });
}

/// Rewinds the log and writes the start line. If this fails, the next report tries both again.
void Metrics::open_log() {
  Json start = short_start();
  if (options_.start.is_object()) {
    for (const auto& [key, value] : options_.start.as_object()) start.set(key, value);
  }
  log_.emplace(options_.log_jsonl, options_.from, start.dump() + "\n");
}

/// Returns the part of the start line that says which run wrote the lines after it.
Json Metrics::short_start() const {
  Json start = Json::object({{"type", "start"}, {"version", kLogVersion}, {"iteration", options_.from.iteration}});
  if (!options_.from.run.empty()) start.set("run", options_.from.run);
  return start;
}

void Metrics::open_events() {
  events_.emplace(options_.tensorboard_dir, options_.from.iteration, options_.from.consumed_samples);
}

void Metrics::print(const std::string& lines) {
  if (!options_.terminal) return;
  console_.erase_status();
  terminal_sink_.attempt(std::count(lines.begin(), lines.end(), '\n'), [&] {
    const bool was_broken = std::exchange(is_line_broken_, true);
    write_stdout(was_broken ? "\n" + lines : lines);
    is_line_broken_ = false;
  });
}

void Metrics::report(const IntervalReport& report) {
  print(log_line(report, timestamp()) + "\n");
  write_json(step_object(report));
  StepScalars scalars;
  scalars.add("learning-rate", report.learning_rate);
  scalars.add("batch-size", report.global_batch_size);
  if (report.lm_loss) scalars.add("lm loss", *report.lm_loss);
  if (report.z_loss) scalars.add("z loss", *report.z_loss);
  scalars.add("loss-scale", report.loss_scale);
  scalars.add("world-size", options_.world_size);
  if (report.grad_norm) scalars.add("grad-norm", *report.grad_norm);
  scalars.by_iteration.emplace_back("iteration-time", report.elapsed_ms_per_iteration / 1000);  // seconds
  if (report.tflops_per_device) scalars.by_iteration.emplace_back("throughput", *report.tflops_per_device);
  scalars.by_iteration.emplace_back("tokens-per-second", report.tokens_per_second);
  if (report.mfu_a) scalars.by_iteration.emplace_back("mfu-a", *report.mfu_a);
  if (report.mfu_b) scalars.by_iteration.emplace_back("mfu-b", *report.mfu_b);
  if (report.lost_updates) scalars.by_iteration.emplace_back("lost-updates", *report.lost_updates);
  if (report.lost_updates_copy) scalars.by_iteration.emplace_back("lost-updates-copy", *report.lost_updates_copy);
  if (report.data_stall_ms) scalars.by_iteration.emplace_back("data-stall", *report.data_stall_ms / 1000);
  if (report.communication_wait_ms)
    scalars.by_iteration.emplace_back("communication-wait", *report.communication_wait_ms / 1000);
  write_scalars(scalars.by_iteration, scalars.by_samples, report.iteration, report.consumed_samples);
}

void Metrics::report(const ValidationReport& report) {
  print(log_line(report) + "\n");
  write_json(validation_object(report));
  StepScalars scalars;
  scalars.add(cat("lm loss ", report.name), report.loss);
  scalars.add(cat("lm loss ", report.name, " ppl"), report.ppl());
  write_scalars(scalars.by_iteration, scalars.by_samples, report.iteration, report.consumed_samples);
}

void Metrics::write_json(const Json& object) {
  if (options_.log_jsonl.empty()) return;
  log_sink_.attempt(1, [&] {
    if (!log_) open_log();
    log_->write(object.dump() + "\n", short_start().dump() + "\n");
  });
}

void Metrics::write_scalars(const Scalars& by_iteration, const Scalars& by_samples, std::int64_t iteration,
                            std::int64_t samples) {
  if (options_.tensorboard_dir.empty()) return;
  event_sink_.attempt(2, [&] {
    if (!events_) open_events();
    events_->add({{iteration, by_iteration}, {samples, by_samples}});
  });
}

void Metrics::flush() {
  if (log_) log_sink_.attempt(0, [&] { log_->sync(); });
  if (events_) event_sink_.attempt(0, [&] { events_->sync(); });
}

void Metrics::finish() {
  flush();
  for (LogSink* sink : {&terminal_sink_, &log_sink_, &event_sink_}) sink->report_lost();
}

}  // namespace mtl
