#include "engine/collectives.h"

#include <algorithm>
#include <cmath>

namespace mtl {

namespace {

bool is_start(const ProfileEntry& entry) { return entry.kind == ProfileKind::communication && entry.started < 0; }

/// What a stream did between the start of an operation and the first wait for it.
struct Meanwhile {
  bool has_operators = false;
  double flops = 0;
};

bool is_within(const std::vector<ProfileEntry>& entries, int entry, ProfileKind kind, const char* name) {
  for (; entry >= 0; entry = entries[entry].parent)
    if (entries[entry].kind == kind && entries[entry].name == name) return true;
  return false;
}

/// Before the update, the optimizer only adds up gradients, which does not hide their sums over ranks. The update of
/// other buckets hides gathers.
Meanwhile after_start(const std::vector<ProfileEntry>& entries, std::size_t start) {
  Meanwhile out;
  const bool gathers = entries[start].name == name_of(OperationKind::all_gather);
  for (std::size_t i = start + 1; i < entries.size() && entries[i].started != static_cast<int>(start); ++i) {
    if (entries[i].kind != ProfileKind::op ||
        (!gathers && is_within(entries, static_cast<int>(i), ProfileKind::phase, kUpdatePhase)))
      continue;
    out.has_operators = true;
    out.flops += entries[i].work.flops;
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
    const Meanwhile meanwhile = after_start(entries, i);
    found->operations += std::llround(weight);
    found->bytes += weight * entry.work.bytes;
    if (is_within(entries, static_cast<int>(i), ProfileKind::layer, "layer"))
      found->layer_operations += std::llround(weight);
    found->flops_meanwhile += weight * meanwhile.flops;
    if (meanwhile.has_operators) continue;
    found->exposed_operations += std::llround(weight);
    found->exposed_bytes += weight * entry.work.bytes;
  }
  return out;
}

}  // namespace mtl
