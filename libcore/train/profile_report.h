// Summarizes a profile by phase and by operator: times, work and percentage of the roofline. Also writes the profile as
// a trace for chrome://tracing and Perfetto.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "device/hardware.h"
#include "device/profile.h"

namespace mtl {

/// An operator's calls with equal operands in one phase, summed over the profiled steps.
struct ProfileRow {
  std::string phase, name, detail;
  double calls = 0, ms = 0;
  Counters work = {};
  double bound_ms = 0;  // lower bound for the time of this work on the hardware
  bool is_compute_bound = false;
};

/// A phase. Waiting for other ranks is a separate phase, "communication", wherever it occurs.
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
  std::vector<ProfilePhase> phases;       // ordered by first entry; the last, "other", is the remainder
  std::vector<ProfileRow> rows;           // the longest first
  std::vector<ProfileKernelRow> kernels;  // the longest first; empty without CUPTI
  Hardware hardware;

  /// Returns the rows summed by operator, longest first.
  std::vector<ProfileRow> by_operator() const;
  double bound_ms() const;  // of all operators
};

/// With `tf32`, the TF32 rate bounds fp32 GEMMs. `weights[i]` says how many entries in a run entry i represents. If
/// `weights` is empty, every entry represents itself.
ProfileReport report_profile(const Profile& profile, const Hardware& hardware, bool tf32,
                             const std::vector<double>& weights = {});

/// Returns the tables as text. `title` is the first line.
std::string profile_text(const ProfileReport& report, const std::string& title);
Json profile_json(const ProfileReport& report);
/// Returns events in the Chrome trace format, separated by commas. In the trace, the rank is a process, and phases
/// (with steps), layers, operators, communication and kernels are threads in it.
std::string trace_events(const Profile& profile, int rank, const std::string& host);
/// Returns a trace file with multiple ranks' events. Skips empty strings.
std::string trace_file(const std::vector<std::string>& events);

}  // namespace mtl
