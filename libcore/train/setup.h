// What a run needs to know before it starts, and the checks of the files that its flags name.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/usage_error.h"
#include "text/tokenizer.h"
#include "train/start.h"

namespace mtl {

struct TrainSetup {
  RunStart start;                        // its config is the resolved one
  std::unique_ptr<Tokenizer> tokenizer;  // null when there is none and none is needed
};

/// Everything that is wrong with a run's flags and files, collected to be reported at once.
class Findings {
 public:
  void problem(std::string where, std::string what) { problems_.push_back({std::move(where), std::move(what)}); }
  /// Runs a part of the preparation; keeps the error that it throws and returns false then.
  template <class Part>
  bool attempt(std::string where, Part part) {
    try {
      part();
      return true;
    } catch (const Error& error) {
      faults_.emplace_back(std::move(where), error);
      return false;
    }
  }
  /// All of it as problems. Throws an Error with the code of the files instead when they alone are at fault;
  /// `flags_are_sound`: nothing else is wrong with the command line.
  std::vector<Problem> finish(bool flags_are_sound) const;

 private:
  std::vector<Problem> problems_;
  std::vector<std::pair<std::string, Error>> faults_;  // where, and what was thrown
};

/// The places of the data make sense; for a run that is not dry, the token files of all splits exist, are sound, and
/// have sequences for their split.
void check_data(const TrainOptions& options, Findings& findings);
/// What the run writes can be written, and rank 0's log replaces no other file. False when --save cannot.
bool check_outputs(const TrainOptions& options, bool is_rank_zero, Findings& findings);
/// The files that the tokenizer's flags name exist. False when one does not.
bool check_tokenizer_files(const TokenizerOptions& tokenizer, Findings& findings);

/// Resolves the configuration in setup.start from the flags, the loaded model and the tokenizer; reports what
/// contradicts. `tokenizer_failed`: there is none, for a reason that was reported.
void configure(const TrainOptions& options, TrainSetup& setup, bool tokenizer_failed,
               const std::function<void(std::string flag, std::string what)>& report_problem);

}  // namespace mtl
