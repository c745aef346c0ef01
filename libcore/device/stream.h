// Streams: where operators run, and the counts of their work.
//
// The cpu computes, and so does cuda in a build that has it; meta only checks shapes and counts, so that one step on
// meta gives the exact memory, FLOPs and communication of any layout without data. A dry run has a target, the device
// whose run it plans.
#pragma once

#include <cstdint>
#include <memory>

#include "device/attention_backend.h"
#include "device/choices.h"
#include "device/cuda_stream.h"

namespace mtl {

enum class Device { cpu, cuda, meta };

/// Work counted by operators: floating-point operations, and bytes of operands, each read or written once.
struct Counters {
  double flops = 0;
  double bytes = 0;

  bool operator==(const Counters&) const = default;
};

/// State that a device's operators keep from call to call, such as compiled products; each device derives its own
/// class.
class StreamCache {
 public:
  StreamCache() = default;
  StreamCache(const StreamCache&) = delete;
  virtual ~StreamCache() = default;
};

class Profile;  // profile.h

/// Operators of a stream run one after another; on cuda asynchronously to the call.
class Stream {
 public:
  /// `target`, the device whose operators' scratch is planned, has an effect only on meta.
  explicit Stream(Device device, int threads = 1, Device target = Device::cpu);
  ~Stream();
  Stream(const Stream&) = delete;
  bool is_meta() const { return device_ == Device::meta; }
  Device device() const { return device_; }
  Device target() const { return target_; }
  /// The threads that an operator may use on the cpu.
  int threads() const { return threads_; }
  void count(double flops, double bytes) {
    counters_.flops += flops;
    counters_.bytes += bytes;
  }
  /// CUDA's stream; null on the other devices.
  cuda::StreamHandle handle() const { return handle_; }
  /// True if the stream's commands are being recorded into a graph (device/graph.h): the host must not wait for them.
  bool is_captured() const { return handle_ != nullptr && cuda::is_captured(handle_); }
  /// True if products of fp32 on cuda may round their operands to TF32, which has fp32's range and 10 bits of mantissa.
  bool tf32() const { return tf32_; }
  void set_tf32(bool tf32) { tf32_ = tf32; }
  /// The implementations of attention that cuda may use.
  AttentionBackend attention_backend() const { return attention_backend_; }
  void set_attention_backend(AttentionBackend backend) { attention_backend_ = backend; }
  /// Blocks the host until all commands of the stream are done. On the cpu operators are done when they return.
  void synchronize() const;
  const Counters& counters() const { return counters_; }
  void reset_counters() { counters_ = {}; }
  /// The profile that records operators; null: none are recorded. It must outlive its use here.
  Profile* profile() const { return profile_; }
  void set_profile(Profile* profile) { profile_ = profile; }
  /// State of the device's operators, which create it when they first need it; null before.
  std::unique_ptr<StreamCache>& cache() const { return cache_; }
  /// Likewise for the attention operators.
  std::unique_ptr<StreamCache>& attention_cache() const { return attention_cache_; }
  /// The measured choices of its operators' algorithms.
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
