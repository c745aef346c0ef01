// Profiles some steps in a run: records the operators, layers and phases that a stream ran, with their times and
// counts.
//
// A Stream points to a Profile while it is profiled. Without a Profile, a range costs one comparison with null.
// kernels/dispatch.h records operators. ProfileRange records all other entries. An entry starts and ends with timed
// events in the stream, so on cuda, its time is how long the device took, not how long the call took. On meta, nothing
// takes time, and we count only work. Profiled steps are not captured as graphs, because operators in a graph have no
// separate events.
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
  step,   // a training step
  phase,  // a step's forward, backward, optimizer, ...
  layer,  // embedding, layer or head
  op,
  communication,  // the stream waits for other ranks; on meta, also the start of an operation between ranks
};

struct ProfileEntry {
  ProfileKind kind;
  std::string name;          // "layernorm_forward", "layer"
  std::int64_t number = -1;  // step, micro-batch or layer number; -1: none
  std::string detail = "";   // for operators: operand shapes and dtype; for starts of operations: the group
  DType dtype = DType::f32;  // for operators: of the operand in `detail`
  Counters work = {};        // for operators; for starts of operations, `bytes` is what the rank sends
  int started = -1;          // for waits on meta: index of the operation's start
  int parent = -1;           // index of the enclosing range
  double begin_ms = 0, end_ms = 0;

  double ms() const { return end_ms - begin_ms; }
  /// Returns text such as "layer 3".
  std::string title() const;
};

/// A GPU kernel that CUPTI recorded.
struct ProfileKernel {
  std::string name;  // short_kernel_name()
  int entry = -1;    // index of the operator that launched it; -1: unknown
  double begin_ms = 0, end_ms = 0;
};

/// Removes `void`, anonymous namespaces and parameters, to give "mtl::cuda::sum_rows<float, 4>".
std::string short_kernel_name(std::string demangled);

/// Entries nest: the last to start is the first to end. Not thread-safe.
class Profile {
 public:
  explicit Profile(Device device) : device_(device) {}

  /// Starts an entry and returns its index. An operator's work is everything the stream has counted since the previous
  /// operator.
  int begin(Stream& stream, ProfileEntry entry);
  /// Does not throw. finish() rethrows the first exception.
  void end(Stream& stream, int index) noexcept;
  /// Waits for the device and sets all entries' times, in milliseconds since the first entry started. All entries must
  /// have ended.
  void finish();

  const std::vector<ProfileEntry>& entries() const { return entries_; }
  /// Sorted by start time. Empty without CUPTI.
  std::vector<ProfileKernel> kernels;

 private:
  Device device_;
  std::vector<ProfileEntry> entries_;
  std::vector<Event> begins_, ends_;  // one per entry; none on meta
  int open_ = -1;                     // the innermost open entry; -1: none
  Counters counted_;                  // the stream's counters after the last operator
  std::exception_ptr failure_;        // first exception in end()
};

/// Records an entry that lasts from construction to destruction.
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
