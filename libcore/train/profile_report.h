// The report of a profile: times, work and share of the roofline by phase and by operator; and the profile as a trace
// for chrome://tracing and Perfetto.
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

/// A phase; waits for other ranks are a phase of their own, "communication", wherever they occur.
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

/// `tf32`: fp32 matrix products are bounded by TF32's rate. `weights[i]`: the number of entries of a run that entry i
/// represents; if empty, one each.
ProfileReport report_profile(const Profile& profile, const Hardware& hardware, bool tf32,
                             const std::vector<double>& weights = {});

/// Returns the tables as text. `title` is the first line.
std::string profile_text(const ProfileReport& report, const std::string& title);
Json profile_json(const ProfileReport& report);
/// Returns events in the Chrome trace format, separated by commas: the rank is a process; phases (with steps), layers,
/// operators, communication and kernels are its threads.
std::string trace_events(const Profile& profile, int rank, const std::string& host);
/// Returns a trace file of the events of several ranks; skips empty texts.
std::string trace_file(const std::vector<std::string>& events);

}  // namespace mtl
