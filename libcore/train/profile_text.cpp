// Formats a profile's tables as text and as JSON.
#include <algorithm>

#include "base/str.h"
#include "train/profile_report.h"

namespace mtl {

namespace {

double share(double part, double total) { return total > 0 ? 100 * part / total : 0; }
double rate(double amount, double ms, double unit) { return ms > 0 ? amount / (ms * 1e-3) / unit : 0; }

std::string rates_text(const Hardware& hardware) {
  std::string rates = format("%.4g GB/s", hardware.dram_gbs);
  if (hardware.tflops_16 > 0) rates += format(", %.4g TFLOP/s in 16 bits", hardware.tflops_16);
  if (hardware.tflops_tf32 > 0) rates += format(", %.4g in TF32", hardware.tflops_tf32);
  if (hardware.tflops_f32 > 0) rates += format(", %.4g TFLOP/s in fp32", hardware.tflops_f32);
  return cat("roofline: ", hardware.name, ", ", rates, " (", hardware.source, ")\n");
}

std::string row_text(const ProfileRow& row, const ProfileReport& report) {
  const double steps = double(std::max<std::int64_t>(1, report.steps));
  return format("%9.6g %10.3f %6.1f%% %10.3f %10.2f %9.3f %9.1f %8.1f%%", row.calls / steps, row.ms / steps,
                share(row.ms, report.ms), row.work.flops / steps * 1e-9, row.work.bytes / steps * 1e-6,
                rate(row.work.flops, row.ms, 1e12), rate(row.work.bytes, row.ms, 1e9), share(row.bound_ms, row.ms));
}

std::string heading(const std::string& left, std::size_t width) {
  return format("%-*s %9s %10s %7s %10s %10s %9s %9s %9s\n", static_cast<int>(width), left.c_str(), "calls", "ms",
                "share", "GFLOP", "MB", "TFLOP/s", "GB/s", "roofline");
}

std::string line(const std::string& left, std::size_t width, const ProfileRow& row, const ProfileReport& report) {
  return format("%-*s %s\n", static_cast<int>(width), left.c_str(), row_text(row, report).c_str());
}

std::string phases_text(const ProfileReport& report) {
  const double steps = double(std::max<std::int64_t>(1, report.steps));
  std::string out = format("%-24s %10s %7s %14s\n", "phase", "ms", "share", "operators, ms");
  for (const ProfilePhase& phase : report.phases)
    out += format("%-24s %10.3f %6.1f%% %14.3f\n", phase.name.c_str(), phase.ms / steps, share(phase.ms, report.ms),
                  phase.operators_ms / steps);
  return out;
}

std::string kernels_text(const ProfileReport& report) {
  if (report.kernels.empty()) return "";
  const double steps = double(std::max<std::int64_t>(1, report.steps));
  std::string out = "\n" + format("%9s %10s  %-26s %s\n", "calls", "ms", "operator", "kernel");
  for (const ProfileKernelRow& row : report.kernels)
    out += format("%9.6g %10.3f  %-26s %s\n", row.calls / steps, row.ms / steps, row.op.c_str(), row.name.c_str());
  return out;
}

Json row_json(const ProfileRow& row) {
  Json out = Json::object({{"operator", row.name}});
  if (!row.phase.empty()) out.set("phase", row.phase);
  if (!row.detail.empty()) out.set("operands", row.detail);
  out.set("calls", row.calls);
  out.set("ms", row.ms);
  out.set("flops", row.work.flops);
  out.set("bytes", row.work.bytes);
  out.set("bound_ms", row.bound_ms);
  out.set("bound_by", row.is_compute_bound ? "compute" : "memory");
  return out;
}

}  // namespace

std::string profile_text(const ProfileReport& report, const std::string& title) {
  const double steps = double(std::max<std::int64_t>(1, report.steps));
  double operators = 0;
  for (const ProfileRow& row : report.rows) operators += row.ms;
  std::string out = title + "\n" + rates_text(report.hardware);
  out += format("figures are per step: %.3f ms, of which operators %.3f ms (%.1f%%), whose bound is %.3f ms\n\n",
                report.ms / steps, operators / steps, share(operators, report.ms), report.bound_ms() / steps);
  out += phases_text(report) + "\n" + heading("operator", 26);
  for (const ProfileRow& row : report.by_operator()) out += line(row.name, 26, row, report);
  out += kernels_text(report) + "\n" + heading(format("%-16s %-26s operands", "phase", "operator"), 84);
  for (const ProfileRow& row : report.rows)
    out += line(format("%-16s %-26s %s", row.phase.c_str(), row.name.c_str(), row.detail.c_str()), 84, row, report);
  return out;
}

Json profile_json(const ProfileReport& report) {
  const Hardware& hardware = report.hardware;
  Json phases = Json::array(), operators = Json::array(), rows = Json::array(), kernels = Json::array();
  for (const ProfilePhase& phase : report.phases)
    phases.push(Json::object({{"phase", phase.name}, {"ms", phase.ms}, {"operators_ms", phase.operators_ms}}));
  for (const ProfileRow& row : report.by_operator()) operators.push(row_json(row));
  for (const ProfileRow& row : report.rows) rows.push(row_json(row));
  for (const ProfileKernelRow& row : report.kernels)
    kernels.push(Json::object({{"operator", row.op}, {"kernel", row.name}, {"calls", row.calls}, {"ms", row.ms}}));
  return Json::object({{"version", 1},
                       {"first_step", report.first_step},
                       {"steps", report.steps},
                       {"ms", report.ms},
                       {"roofline", Json::object({{"name", hardware.name},
                                                  {"gb_per_s", hardware.dram_gbs},
                                                  {"tflops_16", hardware.tflops_16},
                                                  {"tflops_tf32", hardware.tflops_tf32},
                                                  {"tflops_f32", hardware.tflops_f32},
                                                  {"source", hardware.source}})},
                       {"phases", std::move(phases)},
                       {"operators", std::move(operators)},
                       {"rows", std::move(rows)},
                       {"kernels", std::move(kernels)}});
}

}  // namespace mtl
