// A profile of some steps of a run: the operators, layers and phases that a stream ran, with their times and counts.
//
// A Stream points to a Profile while the stream is profiled. Without a Profile, a range costs a comparison with null.
// kernels/dispatch.h records operators; ProfileRange records all other entries. The begin and the end of an entry are
// timed events in the stream. On cuda, the time of an entry is therefore the time that the device took, not the time of
// the call. On meta, nothing takes time, and only work is counted. A profiled step is not captured as a graph, because
// operators in a graph have no separate events.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "device/dtype.h"
#include "device/event.h"
#include "device/stream.h"

namespace mtl {

enum class ProfileKind {
  step,           // of the run
  phase,          // of a step: forward, backward, optimizer, ...
  layer,          // of the model: embedding, layer, head
  op,             // an operator
  communication,  // a wait for other ranks in the stream
};

struct ProfileEntry {
  ProfileKind kind;
  std::string name;          // "layernorm_forward", "layer"
  std::int64_t number = -1;  // of the step, micro-batch or layer; -1: none
  std::string detail = "";   // of an operator: shape and dtype of its operands
  DType dtype = DType::f32;  // of an operator: dtype of its products' operands
  Counters work = {};        // of an operator
  int parent = -1;           // index of the enclosing range
  double begin_ms = 0, end_ms = 0;

  double ms() const { return end_ms - begin_ms; }
  /// "layer 3"
  std::string title() const;
};

/// A kernel on a GPU, as CUPTI recorded it.
struct ProfileKernel {
  std::string name;  // short_kernel_name()
  int entry = -1;    // index of the operator that launched it; -1: unknown
  double begin_ms = 0, end_ms = 0;
};

/// Removes `void`, anonymous namespaces and parameters: "mtl::cuda::sum_rows<float, 4>".
std::string short_kernel_name(std::string demangled);

/// Entries are nested: the entry that began last ends first. Not thread-safe.
class Profile {
 public:
  explicit Profile(Device device) : device_(device) {}

  /// Begins an entry and returns its index. The work of an operator is the work that the stream counted since the
  /// previous operator.
  int begin(Stream& stream, ProfileEntry entry);
  /// Does not throw: finish() rethrows the first exception.
  void end(Stream& stream, int index) noexcept;
  /// Sets the times of all entries, in milliseconds since the first entry began. Waits for the device. No entry may be
  /// open.
  void finish();

  const std::vector<ProfileEntry>& entries() const { return entries_; }
  /// Kernels, ordered by start time; empty without CUPTI.
  std::vector<ProfileKernel> kernels;

 private:
  Device device_;
  std::vector<ProfileEntry> entries_;
  std::vector<Event> begins_, ends_;  // of the entries; none on meta
  int open_ = -1;                     // the innermost open entry; -1: none
  Counters counted_;                  // of the stream, after the last operator
  std::exception_ptr failure_;        // of end()
};

/// Records an entry from its construction to its destruction.
class ProfileRange {
 public:
  ProfileRange(Stream& stream, ProfileKind kind, const char* name, std::int64_t number = -1)
      : stream_(stream), profile_(stream.profile()) {
    if (profile_ != nullptr) [[unlikely]]
      index_ = profile_->begin(stream, {.kind = kind, .name = name, .number = number});
  }
  ProfileRange(Stream& stream, ProfileEntry entry) : stream_(stream), profile_(stream.profile()) {
    if (profile_ != nullptr) index_ = profile_->begin(stream, std::move(entry));
  }
  ProfileRange(const ProfileRange&) = delete;
  ~ProfileRange() {
    if (profile_ != nullptr) [[unlikely]]
      profile_->end(stream_, index_);
  }

 private:
  Stream& stream_;
  Profile* profile_;
  int index_ = -1;
};

}  // namespace mtl
