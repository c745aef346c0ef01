#include "train/metrics.h"

#include <cstdio>

#include "base/error.h"
#include "base/str.h"

namespace mtl {

namespace {

constexpr int kLogVersion = 1;

Json step_object(const StepReport& report) {
  Json out =
      Json::object({{"type", "step"}, {"iteration", report.iteration}, {"consumed_samples", report.consumed_samples}});
  auto optional = [&](const char* name, const std::optional<double>& value) {
    if (value) out.set(name, *value);
  };
  optional("lm_loss", report.lm_loss);
  out.set("learning_rate", report.learning_rate);
  optional("grad_norm", report.grad_norm);
  out.set("loss_scale", report.loss_scale);
  out.set("global_batch_size", report.global_batch_size);
  out.set("skipped_iterations", report.skipped_iterations);
  out.set("nan_iterations", report.nan_iterations);
  out.set("elapsed_ms_per_iteration", report.elapsed_ms_per_iteration);
  out.set("tokens_per_second", report.tokens_per_second);
  optional("tflops_per_device", report.tflops_per_device);
  optional("mfu_a", report.mfu_a);
  optional("mfu_b", report.mfu_b);
  optional("data_stall_ms", report.data_stall_ms);
  optional("communication_wait_ms", report.communication_wait_ms);
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

/// Megatron writes most figures twice, once over iterations and once over samples.
struct StepScalars {
  Scalars by_iteration, by_samples;

  void add(const std::string& tag, double value) {
    by_iteration.emplace_back(tag, value);
    by_samples.emplace_back(tag + " vs samples", value);
  }
};

void write(EventFile& file, const StepScalars& scalars, std::int64_t iteration, std::int64_t samples) {
  file.add(iteration, scalars.by_iteration);
  file.add(samples, scalars.by_samples);
}

}  // namespace

std::string rewind_log(std::string_view text, std::int64_t iteration, const std::string& path) {
  std::string kept;
  std::int64_t number = 0;
  while (!text.empty()) {
    std::size_t end = text.find('\n');
    if (end == std::string_view::npos) break;  // half-written when the run was killed
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    ++number;
    if (trim(line).empty()) continue;
    std::string type;
    std::int64_t at = 0;
    bool is_final = false;
    try {
      Json object = Json::parse(line);
      type = object.at("type").as_string();
      at = object.at("iteration").as_int();
      is_final = object.bool_or("final", false);
    } catch (const Error& error) {
      fail(Exit::bad_data, path, ":", number, ": is no line of a training log (", error.what(),
           "); give --log-jsonl another file");
    }
    bool keeps = type == "start" ? at < iteration : at <= iteration && !is_final;
    if (keeps) kept += cat(line, "\n");
  }
  return kept;
}

Metrics::Metrics(const MetricsOptions& options) : terminal_(options.terminal), world_size_(options.world_size) {
  if (!options.log_jsonl.empty()) {
    if (fs::is_regular_file(options.log_jsonl)) {
      std::string text = read_file(options.log_jsonl);
      std::string kept = rewind_log(text, options.start_iteration, options.log_jsonl);
      if (kept != text) write_file_atomic(options.log_jsonl, kept);
    } else if (!file_exists(options.log_jsonl)) {
      make_directories(fs::path(options.log_jsonl).parent_path().string());
    }
    log_.emplace(options.log_jsonl, true);
    Json start = Json::object({{"type", "start"}, {"version", kLogVersion}, {"iteration", options.start_iteration}});
    if (options.start.is_object()) {
      for (const auto& [key, value] : options.start.as_object()) start.set(key, value);
    }
    write_json(start);
  }
  if (!options.tensorboard_dir.empty()) events_.emplace(options.tensorboard_dir);
}

void Metrics::report(const StepReport& report) {
  if (terminal_) {
    std::printf("%s\n", log_line(report, timestamp()).c_str());
    std::fflush(stdout);
  }
  if (log_) write_json(step_object(report));
  if (!events_) return;
  StepScalars scalars;
  scalars.add("learning-rate", report.learning_rate);
  scalars.add("batch-size", static_cast<double>(report.global_batch_size));
  if (report.lm_loss) scalars.add("lm loss", *report.lm_loss);
  scalars.add("loss-scale", report.loss_scale);
  scalars.add("world-size", static_cast<double>(world_size_));
  if (report.grad_norm) scalars.add("grad-norm", *report.grad_norm);
  scalars.by_iteration.emplace_back("iteration-time", report.elapsed_ms_per_iteration / 1000);  // seconds
  if (report.tflops_per_device) scalars.by_iteration.emplace_back("throughput", *report.tflops_per_device);
  scalars.by_iteration.emplace_back("tokens-per-second", report.tokens_per_second);
  if (report.mfu_a) scalars.by_iteration.emplace_back("mfu-a", *report.mfu_a);
  if (report.mfu_b) scalars.by_iteration.emplace_back("mfu-b", *report.mfu_b);
  if (report.data_stall_ms) scalars.by_iteration.emplace_back("data-stall", *report.data_stall_ms / 1000);
  if (report.communication_wait_ms)
    scalars.by_iteration.emplace_back("communication-wait", *report.communication_wait_ms / 1000);
  write(*events_, scalars, report.iteration, report.consumed_samples);
}

void Metrics::report(const ValidationReport& report) {
  if (terminal_) {
    std::printf("%s\n", log_line(report).c_str());
    std::fflush(stdout);
  }
  if (log_) write_json(validation_object(report));
  if (!events_) return;
  StepScalars scalars;
  scalars.add(cat("lm loss ", report.name), report.loss);
  scalars.add(cat("lm loss ", report.name, " ppl"), report.ppl());
  write(*events_, scalars, report.iteration, report.consumed_samples);
}

void Metrics::flush() {
  if (terminal_ && std::fflush(stdout) != 0) fail_errno("standard output", "write");
  if (log_ && fs::is_regular_file(log_->path())) log_->sync();  // a pipe has nothing to sync
  if (events_) events_->sync();
}

void Metrics::write_json(const Json& object) { log_->write(object.dump() + "\n"); }

}  // namespace mtl
