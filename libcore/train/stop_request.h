// Requests to save and end that are not signals: a file that the user creates (--kill-switch-path), and a time limit
// (--exit-duration-in-mins). They work under every launcher, whereas launchers delay signals or drop them.
//
// Only rank 0 asks. StepTotals::exchange() tells the other ranks, so that all of them end after the same step.
#pragma once

#include <string>

namespace mtl {

class StopRequest {
 public:
  /// Never requests anything.
  StopRequest() = default;
  /// Requests a stop once the file `path` exists, unless `path` is empty, and after note_step() more than `minutes`
  /// minutes after `began` (now_seconds()), unless `minutes` is 0.
  StopRequest(std::string path, double minutes, double began);
  /// Says that this session has made a step. Without one, the time limit would end every session where it began: in the
  /// validation that an earlier session left incomplete.
  void note_step() { has_stepped_ = true; }

  /// Returns true once a stop is requested, and from then on. Looks for the file at most once per second, because a
  /// step may be short and the file on a slow file system.
  bool is_requested();
  /// Returns the flag that requested the stop, with its value. Empty until is_requested() has returned true.
  const std::string& reason() const { return reason_; }

 private:
  std::string path_, reason_;
  double minutes_ = 0, began_ = 0, next_look_ = 0;
  bool has_stepped_ = false;
};

}  // namespace mtl
