// The Chrome trace format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
#include "base/enum_index.h"
#include "base/json.h"
#include "base/str.h"
#include "train/profile_report.h"

namespace mtl {

namespace {

enum Row { kPhases = 1, kLayers, kOperators, kCommunication, kKernels };
constexpr const char* kRowNames[] = {"phases", "layers", "operators", "communication", "kernels"};

struct Lane {
  Row row;
  const char* category;
};
/// Returns where the trace shows entries of a kind.
Lane lane_of(ProfileKind kind) {
  constexpr Lane lanes[] = {{kPhases, "step"},
                            {kPhases, "phase"},
                            {kLayers, "layer"},
                            {kOperators, "operator"},
                            {kCommunication, "communication"}};
  return lanes[enum_index(kind)];
}

/// Returns an event that names a process or one of its threads.
Json name_event(const char* what, int rank, int row, const std::string& name) {
  return Json::object(
      {{"ph", "M"}, {"name", what}, {"pid", rank}, {"tid", row}, {"args", Json::object({{"name", name}})}});
}

Json complete_event(const std::string& name, const char* category, int rank, int row, double begin_ms, double end_ms) {
  return Json::object({{"ph", "X"},
                       {"name", name},
                       {"cat", category},
                       {"pid", rank},
                       {"tid", row},
                       {"ts", begin_ms * 1e3},
                       {"dur", (end_ms - begin_ms) * 1e3}});
}

}  // namespace

std::string trace_events(const Profile& profile, int rank, const std::string& host) {
  std::vector<std::string> events{name_event("process_name", rank, 0, cat("rank ", rank, " (", host, ")")).dump()};
  for (int row = kPhases; row <= kKernels; ++row)
    events.push_back(name_event("thread_name", rank, row, kRowNames[row - kPhases]).dump());
  for (const ProfileEntry& entry : profile.entries()) {
    const auto [row, category] = lane_of(entry.kind);
    Json event = complete_event(entry.title(), category, rank, row, entry.begin_ms, entry.end_ms);
    if (entry.kind == ProfileKind::op)
      event.set("args",
                Json::object({{"operands", entry.detail}, {"flops", entry.work.flops}, {"bytes", entry.work.bytes}}));
    events.push_back(event.dump());
  }
  for (const ProfileKernel& kernel : profile.kernels)
    events.push_back(complete_event(kernel.name, "kernel", rank, kKernels, kernel.begin_ms, kernel.end_ms).dump());
  return join(events, ",\n");
}

std::string trace_file(const std::vector<std::string>& events) {
  std::vector<std::string> parts;
  for (const std::string& of_rank : events) {
    if (!of_rank.empty()) parts.push_back(of_rank);
  }
  return "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n" + join(parts, ",\n") + "\n]}\n";
}

}  // namespace mtl
