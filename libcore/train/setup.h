// Preparation of a run: resolves its start, architecture and tokenizer, and checks the files that its flags name.
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
  RunStart start;                        // with the resolved configuration
  std::unique_ptr<Tokenizer> tokenizer;  // null if none is given or needed
};

/// Collects all problems of a run's flags and files, to report them at once.
class Findings {
 public:
  void problem(std::string where, std::string what) { problems_.push_back({std::move(where), std::move(what)}); }
  /// Runs a part of the preparation; if it throws, stores the error and returns false.
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
  std::vector<std::pair<std::string, Error>> faults_;  // flag or file, and error
};

/// The places of the data make sense; for a run that is not dry, the token files of all splits exist, are sound, and
/// have sequences for their split.
void check_data(const TrainOptions& options, Findings& findings);
/// Checks that the run's output files can be written and that rank 0's log replaces no other file. Returns false if
/// --save cannot be written.
bool check_outputs(const TrainOptions& options, bool is_rank_zero, Findings& findings);
/// Checks that the files of the tokenizer's flags exist; returns false if one does not.
bool check_tokenizer_files(const TokenizerOptions& tokenizer, Findings& findings);

/// Resolves the configuration in setup.start from the flags, the loaded model and the tokenizer; reports what
/// contradicts. `tokenizer_failed`: there is none, for a reason that was reported.
void configure(const TrainOptions& options, TrainSetup& setup, bool tokenizer_failed,
               const std::function<void(std::string flag, std::string what)>& report_problem);

}  // namespace mtl
