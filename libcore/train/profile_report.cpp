#include "train/profile_report.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace mtl {

namespace {

/// Returns an entry's phase: the innermost phase or communication that is or contains the entry.
std::string phase_of(const std::vector<ProfileEntry>& entries, std::size_t place) {
  for (int at = static_cast<int>(place); at >= 0; at = entries[at].parent) {
    if (entries[at].kind == ProfileKind::communication) return "communication";
    if (entries[at].kind == ProfileKind::phase) return entries[at].name;
  }
  return "other";
}

ProfilePhase& phase_named(std::vector<ProfilePhase>& phases, const std::string& name) {
  auto found =
      std::find_if(phases.begin(), phases.end(), [&](const ProfilePhase& phase) { return phase.name == name; });
  if (found != phases.end()) return *found;
  phases.push_back({name});
  return phases.back();
}

/// Sorts by time in descending order. Predictions have no times and are sorted by bound.
void sort_by_time(std::vector<ProfileRow>& rows) {
  std::stable_sort(rows.begin(), rows.end(), [](const ProfileRow& a, const ProfileRow& b) {
    return std::pair(a.ms, a.bound_ms) > std::pair(b.ms, b.bound_ms);
  });
}

void add(ProfileRow& sum, const ProfileRow& row) {
  sum.calls += row.calls;
  sum.ms += row.ms;
  sum.work.flops += row.work.flops;
  sum.work.bytes += row.work.bytes;
  if (row.bound_ms > sum.bound_ms) sum.is_compute_bound = row.is_compute_bound;
  sum.bound_ms += row.bound_ms;
}

std::vector<ProfileKernelRow> kernel_rows(const Profile& profile) {
  std::map<std::pair<std::string, std::string>, ProfileKernelRow> sums;
  for (const ProfileKernel& kernel : profile.kernels) {
    const std::string op = kernel.entry < 0 ? "none" : profile.entries().at(kernel.entry).name;
    ProfileKernelRow& sum = sums.try_emplace({op, kernel.name}, ProfileKernelRow{op, kernel.name}).first->second;
    ++sum.calls;
    sum.ms += kernel.end_ms - kernel.begin_ms;
  }
  std::vector<ProfileKernelRow> rows;
  for (auto& [key, row] : sums) rows.push_back(std::move(row));
  std::stable_sort(rows.begin(), rows.end(),
                   [](const ProfileKernelRow& a, const ProfileKernelRow& b) { return a.ms > b.ms; });
  return rows;
}

}  // namespace

ProfileReport report_profile(const Profile& profile, const Hardware& hardware, bool tf32,
                             const std::vector<double>& weights) {
  const std::vector<ProfileEntry>& entries = profile.entries();
  ProfileReport report;
  report.hardware = hardware;
  std::map<std::tuple<std::string, std::string, std::string>, ProfileRow> rows;
  double in_phases = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const ProfileEntry& entry = entries[i];
    const double weight = weights.empty() ? 1 : weights.at(i);
    if (entry.kind == ProfileKind::step) {
      if (report.steps++ == 0) report.first_step = entry.number;
      report.ms += weight * entry.ms();
    } else if (entry.kind == ProfileKind::phase || entry.kind == ProfileKind::communication) {
      const std::string outer = entry.parent < 0 ? "other" : phase_of(entries, entry.parent);
      phase_named(report.phases, phase_of(entries, i)).ms += weight * entry.ms();
      if (outer == "other") in_phases += weight * entry.ms();
      if (outer != "other") phase_named(report.phases, outer).ms -= weight * entry.ms();  // not counted twice
    } else if (entry.kind == ProfileKind::op) {
      ProfileRow row{.phase = phase_of(entries, i),
                     .name = entry.name,
                     .detail = entry.detail,
                     .calls = weight,
                     .ms = weight * entry.ms(),
                     .work = {.flops = weight * entry.work.flops, .bytes = weight * entry.work.bytes}};
      const bool in_tf32 = tf32 && entry.name == "gemm";  // fp32 attention does not use TF32
      row.bound_ms = weight * hardware.bound_ms(entry.work, entry.dtype, in_tf32);
      row.is_compute_bound = hardware.is_compute_bound(entry.work, entry.dtype, in_tf32);
      phase_named(report.phases, row.phase).operators_ms += row.ms;
      add(rows.try_emplace({row.phase, row.name, row.detail}, ProfileRow{row.phase, row.name, row.detail})
              .first->second,
          row);
    }
  }
  const ProfilePhase other = phase_named(report.phases, "other");
  std::erase_if(report.phases, [](const ProfilePhase& phase) { return phase.name == "other"; });
  report.phases.push_back(
      {.name = "other", .ms = std::max(0.0, report.ms - in_phases), .operators_ms = other.operators_ms});
  for (auto& [key, row] : rows) report.rows.push_back(std::move(row));
  sort_by_time(report.rows);
  report.kernels = kernel_rows(profile);
  return report;
}

std::vector<ProfileRow> ProfileReport::by_operator() const {
  std::map<std::string, ProfileRow> sums;
  for (const ProfileRow& row : rows) add(sums.try_emplace(row.name, ProfileRow{"", row.name, ""}).first->second, row);
  std::vector<ProfileRow> out;
  for (auto& [name, row] : sums) out.push_back(std::move(row));
  sort_by_time(out);
  return out;
}

double ProfileReport::bound_ms() const {
  double sum = 0;
  for (const ProfileRow& row : rows) sum += row.bound_ms;
  return sum;
}

}  // namespace mtl
