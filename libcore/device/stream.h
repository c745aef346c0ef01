// Streams. Operators run on a stream, and the stream counts their work.
//
// The devices cpu and, in a build with CUDA, cuda compute results. The meta device only checks shapes and counts work.
// One step on meta therefore gives the exact memory, FLOPs and communication for any layout, without data. A dry run
// has a target: the device whose run we plan.
#pragma once

#include <memory>

#include "device/attention_backend.h"
#include "device/choices.h"
#include "device/cuda_stream.h"

namespace mtl {

enum class Device { cpu, cuda, meta };

/// Work counted by operators: floating-point operations and operand bytes. Each operand counts as read or written once.
struct Counters {
  double flops = 0;
  double bytes = 0;

  bool operator==(const Counters&) const = default;
};

/// State that a device's operators keep between calls, such as compiled GEMMs. Each device derives its own class.
class StreamCache {
 public:
  StreamCache() = default;
  StreamCache(const StreamCache&) = delete;
  virtual ~StreamCache() = default;
};

class Profile;  // profile.h

/// Operators on a stream run one after another. On cuda, they run asynchronously to the calls.
class Stream {
 public:
  /// On meta, `target` is the device to plan scratch memory for. It has no effect on other devices.
  explicit Stream(Device device, int threads = 1, Device target = Device::cpu);
  ~Stream();
  Stream(const Stream&) = delete;
  bool is_meta() const { return device_ == Device::meta; }
  Device device() const { return device_; }
  Device target() const { return target_; }
  /// Returns how many cpu threads an operator may use.
  int threads() const { return threads_; }
  void count(double flops, double bytes) {
    counters_.flops += flops;
    counters_.bytes += bytes;
  }
  /// Returns CUDA's stream, or null on other devices.
  cuda::StreamHandle handle() const { return handle_; }
  /// Returns true if the stream's commands are being recorded into a graph (device/graph.h). The host must not wait for
  /// them.
  bool is_captured() const { return handle_ != nullptr && cuda::is_captured(handle_); }
  /// Returns true if fp32 GEMMs on cuda may round operands to TF32. TF32 has fp32's range and a 10-bit mantissa.
  bool tf32() const { return tf32_; }
  void set_tf32(bool tf32) { tf32_ = tf32; }
  /// Returns which attention implementations cuda may use.
  AttentionBackend attention_backend() const { return attention_backend_; }
  void set_attention_backend(AttentionBackend backend) { attention_backend_ = backend; }
  /// Blocks the host until all commands on the stream are complete. On the cpu, operators are complete when they
  /// return.
  void synchronize() const;
  const Counters& counters() const { return counters_; }
  void reset_counters() { counters_ = {}; }
  /// Returns the profile that records operators, or null. The caller must keep it alive while the stream uses it.
  Profile* profile() const { return profile_; }
  void set_profile(Profile* profile) { profile_ = profile; }
  /// Returns the operators' state on this device. Null until an operator needs it and creates it.
  std::unique_ptr<StreamCache>& cache() const { return cache_; }
  /// Like cache(), but for attention.
  std::unique_ptr<StreamCache>& attention_cache() const { return attention_cache_; }
  /// Returns measured algorithm choices for operators on this stream.
  Choices& choices() const { return choices_; }

 private:
  Device device_, target_;
  int threads_;
  cuda::StreamHandle handle_;
  bool tf32_ = false;
  AttentionBackend attention_backend_ = AttentionBackend::automatic;
  Counters counters_;
  Profile* profile_ = nullptr;
  mutable std::unique_ptr<StreamCache> cache_, attention_cache_;
  mutable Choices choices_;
};

}  // namespace mtl
