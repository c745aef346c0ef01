#include "train/metrics.h"

#include <algorithm>

#include "base/str.h"

namespace mtl {

/// A figure of a report, in the files.
struct Figure {
  const char* name;         // of an interval, in JSON lines, and after mtl_train_ for Prometheus
  std::string tag;          // in TensorBoard
  Json value;               // null: the interval has none
  bool by_samples = false;  // as in Megatron-LM, TensorBoard also has it against samples
  double divisor = 1;       // TensorBoard's times are in seconds
};

namespace {

constexpr int kLogVersion = 1;

std::vector<Figure> figures_of(const IntervalReport& report) {
  const auto if_present = [](const std::optional<double>& value) { return value ? Json(*value) : Json(); };
  return {{"lm_loss", "lm loss", if_present(report.lm_loss), true},
          {"z_loss", "z loss", if_present(report.z_loss), true},
          {"learning_rate", "learning-rate", report.learning_rate, true},
          {"grad_norm", "grad-norm", if_present(report.grad_norm), true},
          {"num_zeros", "num-zeros", report.num_zeros ? Json(*report.num_zeros) : Json(), true},
          {"params_norm", "params-norm", if_present(report.params_norm), true},
          {"loss_scale", "loss-scale", report.loss_scale, true},
          {"global_batch_size", "batch-size", report.global_batch_size, true},
          {"skipped_iterations", "skipped-iterations", report.skipped_iterations},
          {"nan_iterations", "nan-iterations", report.nan_iterations},
          {"elapsed_ms_per_iteration", "iteration-time", report.elapsed_ms_per_iteration, false, 1000},
          {"tokens_per_second", "tokens-per-second", report.tokens_per_second},
          {"tflops_per_device", "throughput", if_present(report.tflops_per_device)},
          {"mfu_a", "mfu-a", if_present(report.mfu_a)},
          {"mfu_b", "mfu-b", if_present(report.mfu_b)},
          {"lost_updates", "lost-updates", if_present(report.lost_updates)},
          {"lost_updates_copy", "lost-updates-copy", if_present(report.lost_updates_copy)},
          {"data_stall_ms", "data-stall", if_present(report.data_stall_ms), false, 1000},
          {"communication_wait_ms", "communication-wait", if_present(report.communication_wait_ms), false, 1000}};
}

Json step_object(const IntervalReport& report) {
  Json out =
      Json::object({{"type", "step"}, {"iteration", report.iteration}, {"consumed_samples", report.consumed_samples}});
  for (const Figure& figure : figures_of(report)) {
    if (!figure.value.is_null()) out.set(figure.name, figure.value);
  }
  if (report.is_final) out.set("final", true);
  return out;
}

Json validation_object(const ValidationReport& report) {
  Json out = Json::object({{"type", report.name},
                           {"iteration", report.iteration},
                           {"consumed_samples", report.consumed_samples},
                           {"loss", report.loss},
                           {"ppl", report.ppl()}});
  if (!report.set.empty()) out.set("set", report.set);
  if (report.is_final) out.set("final", true);
  return out;
}

}  // namespace

Metrics::Metrics(const MetricsOptions& options, Console& console)
    : options_(options),
      console_(console),
      terminal_sink_("standard output", "line", console),
      log_sink_(options.log_jsonl, "line", console),
      event_sink_(options.tensorboard_dir, "record", console),
      wandb_sink_(options.wandb.save_dir, "row", console),
      textfile_sink_(options.log_prometheus, "report", console),
      textfile_(options.log_prometheus, options.from.run) {
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
  console_.end_progress();
  terminal_sink_.attempt(std::count(lines.begin(), lines.end(), '\n'), [&] {
    const bool was_broken = std::exchange(is_line_broken_, true);
    write_stdout(was_broken ? "\n" + lines : lines);
    is_line_broken_ = false;
  });
}

void Metrics::report(const IntervalReport& report) {
  print(log_line(report, timestamp()) + "\n");
  write_json(step_object(report));
  std::vector<Figure> figures = figures_of(report);
  figures.insert(figures.begin(), {"", "world-size", options_.world_size, true});
  write_curves(figures, report.iteration, report.consumed_samples);
}

void Metrics::report(const ValidationReport& report) {
  print(log_line(report) + "\n");
  write_json(validation_object(report));
  const std::string tag = "lm loss " + report.label();
  write_curves({{"", tag, report.loss, true}, {"", tag + " ppl", report.ppl(), true}}, report.iteration,
               report.consumed_samples);
}

void Metrics::write_json(const Json& object) {
  if (!options_.log_prometheus.empty()) textfile_sink_.attempt(1, [&] { textfile_.write(object); });
  if (options_.log_jsonl.empty()) return;
  log_sink_.attempt(1, [&] {
    if (!log_) open_log();
    log_->write(object.dump() + "\n", short_start().dump() + "\n");
  });
}

void Metrics::write_curves(const std::vector<Figure>& figures, std::int64_t iteration, std::int64_t samples) {
  Scalars by_iteration, by_samples;
  for (const Figure& figure : figures) {
    if (figure.value.is_null()) continue;
    const double value = figure.value.as_number() / figure.divisor;
    by_iteration.emplace_back(figure.tag, value);
    if (figure.by_samples) by_samples.emplace_back(figure.tag + " vs samples", value);
  }
  if (!options_.tensorboard_dir.empty()) {
    event_sink_.attempt(2, [&] {
      if (!events_) open_events();
      events_->add({{iteration, by_iteration}, {samples, by_samples}});
    });
  }
  if (options_.wandb.project.empty()) return;
  wandb_sink_.attempt(1, [&] {
    if (!wandb_) wandb_.emplace(options_.wandb, options_.from, options_.start);
    Scalars row = by_iteration;
    row.emplace_back("samples vs steps", samples);  // for curves against samples, as in Megatron-LM
    wandb_->add(iteration, row);
  });
}

void Metrics::flush() {
  if (log_) log_sink_.attempt(0, [&] { log_->sync(); });
  if (events_) event_sink_.attempt(0, [&] { events_->sync(); });
  if (wandb_) wandb_sink_.attempt(0, [&] { wandb_->sync(); });
}

void Metrics::finish(Exit exit) {
  if (wandb_) wandb_sink_.attempt(0, [&] { wandb_->finish(enum_index(exit)); });
  flush();
  for (LogSink* sink : {&terminal_sink_, &log_sink_, &event_sink_, &wandb_sink_, &textfile_sink_}) sink->report_lost();
}

}  // namespace mtl
