// --profile: records some steps of a run and writes what the chosen ranks did: DIR/rankN.txt and rankN.json, the
// tables, and DIR/trace.json, the trace of all of them.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/console.h"
#include "comm/communicator.h"
#include "device/hardware.h"
#include "device/profile.h"
#include "train/options.h"

namespace mtl {

class Profiler {
 public:
  /// `hosts` by rank. All ranks make one and call all functions at the same steps; without --profile these do nothing.
  Profiler(const ProfileOptions& options, Communicator& world, const std::vector<std::string>& hosts, Console& console);

  /// Call before the first step: determines the rates that operators are compared with. `peak_tflops`, as measured or
  /// given, is that of products on this device.
  void prepare(Device device, int threads, bool tf32, double peak_tflops);
  /// Call around a step. `done`: iterations before it.
  void begin_step(Stream& stream, std::int64_t done);
  void end_step(Stream& stream, std::int64_t done);
  /// Call at the end of the run: writes the recorded steps; warns if there are none.
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
  std::unique_ptr<Profile> profile_;  // null on ranks without a profile
  std::optional<ProfileRange> step_;  // the step being recorded
  std::int64_t recorded_ = 0, first_ = 0;
  bool is_written_ = false;
  std::string why_no_kernels_;
};

/// The roofline of a device: the data sheet's of a GPU that is known, else what is measured; takes about 0.1 s then.
Hardware hardware_of(Device device, int threads, double peak_tflops);

}  // namespace mtl
