#include "engine/collectives.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace mtl {

namespace {

bool is_start(const ProfileEntry& entry) { return entry.kind == ProfileKind::communication && entry.started < 0; }

bool is_within(const std::vector<ProfileEntry>& entries, int entry, ProfileKind kind, const char* name) {
  for (; entry >= 0; entry = entries[entry].parent)
    if (entries[entry].kind == kind && entries[entry].name == name) return true;
  return false;
}

/// Returns the FLOPs of the operators between the start of an operation and the first wait for it, or nothing if there
/// are none. Before the update, the optimizer only adds up gradients, which does not hide their sums over ranks. The
/// update of other buckets hides gathers.
std::optional<double> flops_after(const std::vector<ProfileEntry>& entries, std::size_t start) {
  std::optional<double> out;
  const bool gathers = entries[start].name == name_of(OperationKind::all_gather);
  for (std::size_t i = start + 1; i < entries.size() && entries[i].started != static_cast<int>(start); ++i) {
    if (entries[i].kind != ProfileKind::op ||
        (!gathers && is_within(entries, static_cast<int>(i), ProfileKind::phase, kUpdatePhase)))
      continue;
    out = out.value_or(0) + entries[i].work.flops;
  }
  return out;
}

}  // namespace

std::vector<Collectives> collectives_of(const StepRecord& step) {
  const std::vector<ProfileEntry>& entries = step.profile.entries();
  std::vector<Collectives> out;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const ProfileEntry& entry = entries[i];
    const double weight = step.weights[i];
    if (!is_start(entry) || weight == 0 || entry.name == name_of(OperationKind::send) ||
        entry.name == name_of(OperationKind::receive))
      continue;
    auto found = std::find_if(out.begin(), out.end(), [&](const Collectives& each) {
      return each.group == entry.detail && each.operation == entry.name;
    });
    if (found == out.end()) found = out.insert(out.end(), {.group = entry.detail, .operation = entry.name});
    const std::optional<double> meanwhile = flops_after(entries, i);
    found->operations += std::llround(weight);
    found->bytes += weight * entry.work.bytes;
    if (is_within(entries, static_cast<int>(i), ProfileKind::layer, "layer"))
      found->layer_operations += std::llround(weight);
    found->flops_meanwhile += weight * meanwhile.value_or(0);
    if (meanwhile) continue;
    found->exposed_operations += std::llround(weight);
    found->exposed_bytes += weight * entry.work.bytes;
  }
  return out;
}

}  // namespace mtl
