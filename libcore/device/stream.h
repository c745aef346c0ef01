// Where operators run, and what they did there.
//
// cpu computes; meta only checks shapes and counts, so one step on it gives the exact memory, FLOPs and communication
// of any layout without data. (cuda joins them as a third device.)
#pragma once

#include <cstdint>

namespace mtl {

enum class Device { cpu, meta };

/// Work counted by operators: floating-point operations and bytes of operands read and written once.
struct Counters {
  double flops = 0;
  double bytes = 0;

  bool operator==(const Counters&) const = default;
};

class Stream {
 public:
  explicit Stream(Device device, int threads = 1) : device_(device), threads_(threads) {}
  bool is_meta() const { return device_ == Device::meta; }
  Device device() const { return device_; }
  /// How many threads an operator may use on the cpu.
  int threads() const { return threads_; }
  void count(double flops, double bytes) {
    counters_.flops += flops;
    counters_.bytes += bytes;
  }
  const Counters& counters() const { return counters_; }
  void reset_counters() { counters_ = {}; }

 private:
  Device device_;
  int threads_;
  Counters counters_;
};

}  // namespace mtl
