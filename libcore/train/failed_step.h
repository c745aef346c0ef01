// A step that failed twice with equal results (--rerun-mode validate_results). Either the results are right, and the
// model or its data are at fault, or a machine computes wrong in the same way each time. SAVE/failed_step.json keeps
// what each rank computed, so that the same command on other machines can tell.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "device/step_state.h"

namespace mtl {

/// What a rank computed in a step.
struct RankResult {
  std::string host;
  std::string platform;                  // results on equal platforms have equal bits
  std::int64_t state = 0;                // as StepDigests::state_after of the step before
  std::int64_t gradients = 0, sums = 0;  // as in StepDigests

  bool computed_same(const RankResult& other) const { return gradients == other.gradients && sums == other.sums; }
  Json to_json() const;
  /// Throws Error(bad_data), as Json does.
  static RankResult from_json(const Json& json);
};

struct FailedStep {
  std::int64_t iteration = 0;
  std::string failure;  // "the gradient is not finite"
  std::vector<RankResult> ranks = {};

  std::string to_text() const;
  /// `path` is for messages. Throws Error(bad_data).
  static FailedStep from_text(const std::string& text, const std::string& path);

  /// Returns false if a rank began the step with other weights or optimizer states: then it is another step.
  bool is_same_step(const std::vector<RankResult>& now) const;
  struct Conclusion {
    Exit exit = Exit::ok;  // ok: the run can go on
    std::string text;
  };
  /// Compares the failed step with `now`, the same step by rank in another session. `failure_now` is empty if it did
  /// not fail there. Bits are compared only if all ranks have the platforms that they had.
  Conclusion conclude(const std::vector<RankResult>& now, const std::string& failure_now) const;
};

/// Returns "rank 1 (HOST): other gradients" for each rank whose runs of a step differ, by rank; "" if none does. A rank
/// whose gradients are the same, but not their sums over ranks, got wrong data from others.
std::string describe_differences(const std::vector<RankResult>& first, const std::vector<RankResult>& second);

}  // namespace mtl
