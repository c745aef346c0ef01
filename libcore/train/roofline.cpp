#include "train/roofline.h"

#include "base/str.h"
#include "engine/step_record.h"
#include "nn/lm_head.h"
#include "optim/precision_presets.h"
#include "run/flops.h"
#include "run/run_plan.h"

namespace mtl {

namespace {

std::string row_text(const ProfileRow& row, double total_ms, const std::string& name, int width) {
  return format("%-*s %8.6g %10.3f %6.1f%% %12.3f %12.2f  %s\n", width, name.c_str(), row.calls, row.bound_ms,
                total_ms > 0 ? 100 * row.bound_ms / total_ms : 0, row.work.flops * 1e-9, row.work.bytes * 1e-6,
                row.is_compute_bound ? "compute" : "memory");
}

std::string heading(const std::string& name, int width) {
  return format("%-*s %8s %10s %7s %12s %12s  %s\n", width, name.c_str(), "calls", "ms", "share", "GFLOP", "MB",
                "bound by");
}

}  // namespace

Roofline predict_step(TrainOptions options, const GptConfig& config, const Hardware& hardware) {
  options.device = Device::cuda;
  Roofline out;
  for (const RankPlan& plan : plan_run(options, config)) {
    const StepRecord step = record_step(config, run_dropout(options), run_shape(options, config, plan.ranks.front()));
    ProfileReport report = report_profile(step.profile, hardware, options.tf32, step.weights);
    if (report.bound_ms() <= out.step_ms) continue;
    out.step_ms = report.bound_ms();
    out.rank = plan.ranks.front();
    out.report = std::move(report);
  }
  const std::int64_t length = options.data.seq_length;
  const RunShape shape = run_shape(options, config, out.rank);
  const std::int64_t table_rows = shape.padded_vocab / shape.layout.grid.size(Axis::tensor);
  out.logits_rows =
      LmHead::piece_rows(Device::cuda, shape.micro_batch * shape.rows_per_sequence(), table_rows, config.hidden_size);
  out.logits_dtype = shape.precision.logits;
  out.logits_bytes = out.logits_rows * table_rows * static_cast<std::int64_t>(size_of(out.logits_dtype));
  out.tokens_per_second = double(options.step_samples() * length) / (out.step_ms * 1e-3);
  const double rate = hardware.tflops(precision_of(options.precision).compute, options.tf32);
  const double peak = rate * 1e12 * double(options.parallel.world);
  out.mfu_a = flops_per_token_a(config, length) * out.tokens_per_second / peak;
  out.mfu_b = flops_per_token_b(config, length) * out.tokens_per_second / peak;
  return out;
}

std::string roofline_text(const Roofline& roofline) {
  const Hardware& hardware = roofline.report.hardware;
  std::string out = cat("roofline of ", hardware.name, ": a bound, not a measurement\n");
  out += format("  %.6g GB/s, %.6g TFLOP/s in 16 bits, %.6g in fp32 (%s)\n", hardware.dram_gbs, hardware.tflops_16,
                hardware.tflops_f32, hardware.source.c_str());
  out +=
      "  every operator at the peak rate of its products or of its bytes; launches, communication and pipeline\n"
      "  bubbles are not counted\n";
  out += format("  step, rank %d: at least %.3f ms; at most %s tokens/s, MFU %.1f%% (6N + 6LCT), %.1f%% (6N + 12LCT)\n",
                roofline.rank, roofline.step_ms,
                with_commas(static_cast<std::int64_t>(roofline.tokens_per_second)).c_str(), 100 * roofline.mfu_a,
                100 * roofline.mfu_b);
  out += format("  output layer: pieces of %s rows, whose %s logits take %s bytes\n",
                with_commas(roofline.logits_rows).c_str(), short_name(roofline.logits_dtype),
                with_commas(roofline.logits_bytes).c_str());
  out += heading("  operator", 28);
  std::vector<ProfileRow> operators = roofline.report.by_operator(), rows = roofline.report.rows;
  for (const ProfileRow& row : operators) out += row_text(row, roofline.step_ms, "  " + row.name, 28);
  out += heading("  operator, operands", 84);
  for (const ProfileRow& row : rows)
    out += row_text(row, roofline.step_ms,
                    format("  %-16s %-26s %s", row.phase.c_str(), row.name.c_str(), row.detail.c_str()), 84);
  return out;
}

Json roofline_json(const Roofline& roofline) {
  Json out = profile_json(roofline.report);
  out.set("rank", roofline.rank);
  out.set("bound_ms", roofline.step_ms);
  out.set("tokens_per_second", roofline.tokens_per_second);
  out.set("mfu_a", roofline.mfu_a);
  out.set("mfu_b", roofline.mfu_b);
  out.set("logits_rows", roofline.logits_rows);
  out.set("logits_bytes", roofline.logits_bytes);
  return out;
}

}  // namespace mtl
