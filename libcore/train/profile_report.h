// Summarizes a profile by phase and by operator: times, work and share of the roofline. Also writes the profile as a
// trace for chrome://tracing and Perfetto.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "device/hardware.h"
#include "device/profile.h"

namespace mtl {

/// Calls of an operator with equal operands in one phase, summed over the steps of a profile.
struct ProfileRow {
  std::string phase, name, detail;
  double calls = 0, ms = 0;
  Counters work = {};
  double bound_ms = 0;  // lower bound of the time of this work on the hardware
  bool is_compute_bound = false;
};

/// A phase. Waits for other ranks form a separate phase, "communication", wherever they occur.
struct ProfilePhase {
  std::string name;
  double ms = 0, operators_ms = 0;
};

struct ProfileKernelRow {
  std::string op, name;
  double calls = 0, ms = 0;
};

struct ProfileReport {
  std::int64_t first_step = 0, steps = 0;
  double ms = 0;                          // of all steps
  std::vector<ProfilePhase> phases;       // in the order of their first entries; the last, "other", is the remainder
  std::vector<ProfileRow> rows;           // the longest first
  std::vector<ProfileKernelRow> kernels;  // the longest first; empty without CUPTI
  Hardware hardware;

  /// Returns the rows summed by operator, the longest first.
  std::vector<ProfileRow> by_operator() const;
  double bound_ms() const;  // of all operators
};

/// With `tf32`, the rate of TF32 bounds fp32 matrix products. `weights[i]` is the number of entries of a run that entry
/// i represents; if `weights` is empty, every entry represents itself.
ProfileReport report_profile(const Profile& profile, const Hardware& hardware, bool tf32,
                             const std::vector<double>& weights = {});

/// Returns the tables as text. `title` is the first line.
std::string profile_text(const ProfileReport& report, const std::string& title);
Json profile_json(const ProfileReport& report);
/// Returns events in the Chrome trace format, separated by commas. The trace shows the rank as a process, and phases
/// (with steps), layers, operators, communication and kernels as threads of that process.
std::string trace_events(const Profile& profile, int rank, const std::string& host);
/// Returns a trace file of the events of several ranks; skips empty texts.
std::string trace_file(const std::vector<std::string>& events);

}  // namespace mtl
