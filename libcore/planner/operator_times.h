// How long operators take, as measured by mtl-train --profile on one rank.
//
// An operator of the profile's operands takes the mean time of its calls there. With other operands, it runs at the
// rate of the most similar call of the same operator: in FLOP/s, or in bytes/s if it has no FLOPs. One that the profile
// does not have runs at the bytes/s of all operators without FLOPs. None is faster than the fastest in the profile.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "device/dtype.h"
#include "device/hardware.h"
#include "device/stream.h"

namespace mtl {

class OperatorTimes {
 public:
  /// Reads rankN.json of a profile (mtl-train(1)). Throws Error(bad_data) if it is not one, or has no operators.
  static OperatorTimes read(const std::string& path);

  /// Returns the milliseconds of a call. `operands` is as in a profile.
  double ms(const std::string& name, const std::string& operands, const Counters& work) const;
  /// True if the profile has calls of this operator.
  bool has(const std::string& name) const { return rows_.contains(name); }
  /// True if the profile has matrix products of this type.
  bool has_products(DType dtype) const;

  /// The device, as the profile states it: its rates are those of a data sheet or of measured kernels.
  const Hardware& device() const { return device_; }
  /// The threads of a profile of a CPU, which are a part of the device's name, otherwise 1.
  int threads() const;
  /// The rates of the fastest calls. 0 if no call has FLOPs.
  double most_flops_per_ms() const { return most_flops_; }
  double most_bytes_per_ms() const { return most_bytes_; }
  /// Milliseconds between an operator and the next, and of a step's work outside of operators: loading and reports.
  double between_ms() const { return between_ms_; }
  double outside_ms() const { return outside_ms_; }

 private:
  /// A description of operands, as "128x2048x64 float32, A^T": its numbers, and the text around them.
  struct Operands {
    std::vector<double> sizes;
    std::string kind;

    static Operands parse(const std::string& text);
    /// Returns how much the sizes differ: 0 if they are equal, and infinity if the text around them differs.
    double distance(const Operands& other) const;
  };
  /// The calls with equal operands in one phase.
  struct Row {
    Operands operands;
    double ms;      // of a call
    Counters work;  // of a call
  };
  std::map<std::string, std::vector<Row>> rows_;  // by operator
  Hardware device_;
  double most_flops_ = 0, most_bytes_ = 0;
  double other_bytes_ = 0;  // bytes per ms of all operators without FLOPs
  double between_ms_ = 0, outside_ms_ = 0;
};

}  // namespace mtl
