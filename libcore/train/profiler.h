// Implements --profile: records some steps on the selected ranks. Writes each rank's tables to DIR/rankN.txt and
// DIR/rankN.json, and one trace with all selected ranks to DIR/trace.json.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/console.h"
#include "comm/communicator.h"
#include "device/hardware.h"
#include "device/profile.h"
#include "run/options.h"

namespace mtl {

class Profiler {
 public:
  /// `hosts` is indexed by rank. Collective: all ranks must construct a Profiler and call its functions at the same
  /// steps. Does nothing without --profile.
  Profiler(const ProfileOptions& options, Communicator& world, const std::vector<std::string>& hosts, Console& console);

  /// Must be called before the first step. Determines the rates to compare operators with. `peak_tflops` is this
  /// device's GEMM rate, measured or given.
  void prepare(Device device, int threads, bool tf32, double peak_tflops);
  /// Must be called before and after each step. `done` is the number of completed iterations. In end_step(), it
  /// includes the current step.
  void begin_step(Stream& stream, std::int64_t done);
  void end_step(Stream& stream, std::int64_t done);
  /// Must be called at the end of the run. Writes recorded steps that have not been written yet, and warns if no step
  /// was recorded.
  void finish(Stream& stream);

 private:
  bool is_recorded(std::int64_t done) const {
    return options_.enabled && done >= options_.step_start && done < options_.step_end;
  }
  bool is_chosen() const;
  void write(Stream& stream);
  std::string report() const;

  const ProfileOptions& options_;
  Communicator& world_;
  const std::vector<std::string>& hosts_;
  Console& console_;
  Hardware hardware_;
  bool tf32_ = false;
  std::unique_ptr<Profile> profile_;  // null on ranks that are not profiled
  std::optional<ProfileRange> step_;  // the step being recorded
  std::int64_t recorded_ = 0, first_ = 0;
  bool is_written_ = false;
  std::string why_no_kernels_;
};

/// Returns a device's roofline: from the data sheet if the GPU is known, otherwise measured in about 0.1 s.
Hardware hardware_of(Device device, int threads, double peak_tflops);

}  // namespace mtl
