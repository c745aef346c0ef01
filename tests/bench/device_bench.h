// Times operators as a training step on a GPU runs them: on operands that are not in its cache, without gaps between
// the calls.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "device/memory.h"
#include "device/stream.h"

namespace mtl::test {

class DeviceBench {
 public:
  /// An operand, once for each set of operands. Calls use the sets in turn.
  static constexpr int kSets = 4;
  using Operands = std::array<Tensor, kSets>;
  using Call = std::function<void(Stream&, Arena& scratch, int set)>;

  /// A `tiny` bench has few calls, for rehearsals. Prints the device.
  DeviceBench(Device device, bool tiny);
  Stream& stream() { return stream_; }
  bool tiny() const { return tiny_; }

  /// Returns tensors that exist until clear(), with the same numbers between -1 and 1 in each, or zeros.
  Operands random(DType dtype, const Shape& shape);
  Operands zeros(DType dtype, const Shape& shape);
  void fill(const Operands& operands);
  void clear() { buffers_.clear(); }

  /// Times `call`, and prints a line with the time of one call, and with the GB/s and their share of a copy that moves
  /// as many bytes, or the TFLOP/s if the operator counts FLOPs.
  void run(const std::string& name, const Call& call);
  /// Prints `name`, and the fastest time of each kernel that `call` starts, or why CUPTI cannot record them. Prints
  /// nothing without a GPU.
  void kernels(const std::string& name, const Call& call);
  /// Prints how long the device takes from an event to the next if there is one small operator between them, which is
  /// how a profiled step times its operators.
  void events();

 private:
  /// Returns how many seconds a call takes on average in a graph of many, or, without graphs, in a row.
  double seconds_per_call(const std::function<void(int set)>& call);
  /// Returns the GB/s, read and written, of a copy that moves this many bytes.
  double copy_gbs(double bytes);

  Stream stream_;
  bool tiny_;
  std::vector<Buffer> buffers_;
};

/// Parses the arguments `DEVICE [GROUP [tiny]]` of a program, and calls `time`. Returns the program's exit code.
int run_on_device(int argc, char** argv, const std::vector<std::string>& groups,
                  const std::function<void(DeviceBench&, const std::string& group)>& time);

/// True if the arguments begin with the name of a device.
bool names_device(int argc, char** argv);

}  // namespace mtl::test
