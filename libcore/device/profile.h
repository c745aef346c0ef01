// A profile of some steps in a run: the operators, layers and phases that a stream ran, with their times and counts.
//
// A Stream points to a Profile while it is profiled. Without a Profile, a range costs one comparison with null.
// kernels/dispatch.h records operators; ProfileRange records all other entries. An entry starts and ends with timed
// events in the stream. On cuda, an entry's time is therefore how long the device took, not how long the call took. On
// meta, nothing takes time, and we count only work. Profiled steps are not captured as graphs, because operators in a
// graph have no separate events.
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
  phase,          // a step's forward, backward, optimizer, ...
  layer,          // a layer in the model: embedding, layer, head
  op,             // an operator
  communication,  // the stream waits for other ranks
};

struct ProfileEntry {
  ProfileKind kind;
  std::string name;          // "layernorm_forward", "layer"
  std::int64_t number = -1;  // number of the step, micro-batch or layer; -1: none
  std::string detail = "";   // for operators: shape and dtype of the operands
  DType dtype = DType::f32;  // for operators: dtype of the GEMM operands
  Counters work = {};        // of an operator
  int parent = -1;           // index of the enclosing range
  double begin_ms = 0, end_ms = 0;

  double ms() const { return end_ms - begin_ms; }
  /// "layer 3"
  std::string title() const;
};

/// A GPU kernel, as recorded by CUPTI.
struct ProfileKernel {
  std::string name;  // short_kernel_name()
  int entry = -1;    // index of the operator that launched it; -1: unknown
  double begin_ms = 0, end_ms = 0;
};

/// Removes `void`, anonymous namespaces and parameters: "mtl::cuda::sum_rows<float, 4>".
std::string short_kernel_name(std::string demangled);

/// Entries are nested: the entry that started last ends first. Not thread-safe.
class Profile {
 public:
  explicit Profile(Device device) : device_(device) {}

  /// Starts an entry and returns its index. An operator's work is what the stream has counted since the previous
  /// operator.
  int begin(Stream& stream, ProfileEntry entry);
  /// Does not throw: finish() rethrows the first exception.
  void end(Stream& stream, int index) noexcept;
  /// Sets all entries' times, in milliseconds since the first entry started. Waits for the device. No entry may be
  /// open.
  void finish();

  const std::vector<ProfileEntry>& entries() const { return entries_; }
  /// Kernels, ordered by start time; empty without CUPTI.
  std::vector<ProfileKernel> kernels;

 private:
  Device device_;
  std::vector<ProfileEntry> entries_;
  std::vector<Event> begins_, ends_;  // one per entry; none on meta
  int open_ = -1;                     // the innermost open entry; -1: none
  Counters counted_;                  // the stream's counters after the last operator
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
