// Prepares a run: resolves the configuration, and checks the flags and the files they name.
#pragma once

#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/usage_error.h"
#include "text/tokenizer.h"
#include "train/start.h"

namespace mtl {

struct TrainSetup {
  RunStart start;                        // configure() resolves its configuration
  std::unique_ptr<Tokenizer> tokenizer;  // null if none is given or needed
};

/// Collects all problems with a run's flags and files, to report them together.
class Findings {
 public:
  void problem(std::string where, std::string what) { problems_.push_back({std::move(where), std::move(what)}); }
  /// Reports an input that does not exist.
  void missing(const std::string& where, const std::string& what) { fault(where, Error(Exit::io, where, what)); }
  /// Reports an error of an input file, which a flag names.
  void fault(std::string where, Error error) { faults_.emplace_back(std::move(where), std::move(error)); }
  /// Runs part of the preparation. If it throws an Error, stores the error and returns false. If no more files can be
  /// opened, throws that error instead, because every further file would fail like this one.
  template <class Part>
  bool attempt(std::string where, Part part) {
    try {
      part();
      return true;
    } catch (const Error& error) {
      if (const auto* system = dynamic_cast<const SystemError*>(&error); system && system->number() == EMFILE) throw;
      fault(std::move(where), error);
      return false;
    }
  }
  /// Returns all problems. If the command line is valid (`flags_are_valid`) and only inputs are missing or attempts
  /// failed, instead throws their errors, combined into one Error.
  std::vector<Problem> finish(bool flags_are_valid) const;

 private:
  std::vector<Problem> problems_;
  std::vector<std::pair<std::string, Error>> faults_;  // flag or file, and error
};

/// Reports training data that no option names, or that generated tokens replace.
void check_data_source(const TrainOptions& options, const ReportProblem& report);
/// Checks the data paths, unless tokens are generated, and that the token files exist, are valid, and have sequences
/// for every split that the run uses. A dry run, which may be for another machine, only warns of missing files and of
/// splits without sequences.
void check_data(const TrainOptions& options, Findings& findings, Console& console);
/// Checks that the run can write its output files, and that rank 0's log does not overwrite another file. Returns false
/// if --save cannot be written.
bool check_outputs(const TrainOptions& options, bool is_rank_zero, Findings& findings);
/// Checks that the tokenizer files given by flags exist. Returns false if one is missing.
bool check_tokenizer_files(const TokenizerOptions& tokenizer, Findings& findings);

/// Reports options that cuDNN's attention does not support. Must be called once the loaded model's dropout is known.
/// (The first step checks the model sizes.)
void check_fused_attention(const TrainOptions& options, const ReportProblem& report);

/// Resolves the configuration in setup.start from the flags, the loaded model and the tokenizer, and reports
/// contradictions. Sets options.loaded_dropout and setup.start.point.changes. `tokenizer_failed` means that the
/// tokenizer could not be loaded, which has already been reported.
void configure(TrainOptions& options, TrainSetup& setup, bool tokenizer_failed, const ReportProblem& report_problem);

}  // namespace mtl
