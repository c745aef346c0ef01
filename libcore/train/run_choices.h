// The algorithms that a run selects by measuring on a GPU: loads them, lets the ranks agree on them, and stores them.
// A checkpoint records every rank's, so that a run that resumes in the same layout uses the same algorithms and
// produces the same bits. On a device on which nothing is measured, calls do nothing.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/console.h"
#include "base/json.h"
#include "comm/communicator.h"
#include "train/step_runner.h"

namespace mtl {

struct SavedChoices {
  std::string context;  // choices_context(): the GPU and libraries
  std::map<std::string, std::string> table;

  bool operator==(const SavedChoices&) const = default;
};

/// Returns the table that a rank uses once all ranks have measured: its own keys, each with the choice of the lowest
/// rank that has the key in the same context.
std::map<std::string, std::string> agreed_table(const SavedChoices& own, const std::vector<SavedChoices>& by_rank);

/// Returns {"tables": [{"context": ..., "choices": {KEY: CHOICE, ...}}, ...], "of_rank": [0, 0, 1, ...]}. Equal tables
/// are stored only once; `of_rank` gives each rank's index into `tables`.
Json choices_record(const std::vector<SavedChoices>& by_rank);

/// Returns a rank's choices, or empty if a different number of ranks wrote the record. Throws Error(bad_data) if the
/// record is malformed.
std::optional<SavedChoices> choices_of_rank(const Json& record, int rank, int ranks);

class RunChoices {
 public:
  /// The caller must keep the arguments alive.
  RunChoices(StepRunner& steps, Communicator& world, Console& console);

  /// Loads the choices in `extra`, the TrainState::extra of the resumed checkpoint, then those in the file
  /// `tuning_cache` (TrainOptions). All other choices are measured when needed.
  void load(const Json& extra, const std::string& tuning_cache);
  /// Collective. Ranks with the same GPU and libraries use the same algorithms from the first step on, as the next run
  /// does, which finds them in the file. So that every rank has measured what it needs, this rehearses the step. Ranks
  /// that resume keep the algorithms of their checkpoint.
  void agree(const StepBatch& batch);
  /// Collective: rank 0 adds new choices to the file.
  void store() { gather(); }
  /// Collective: like store(), and returns what a checkpoint records, or null.
  Json record();

 private:
  std::vector<SavedChoices> gather();

  StepRunner& steps_;
  Communicator& world_;
  Console& console_;
  bool agreed_ = false;                         // ranks need not agree again
  std::string context_;                         // empty: we do not measure on this device
  std::string file_;                            // empty: none
  std::map<std::string, std::string> in_file_;  // choices in the file, as last read or written
};

}  // namespace mtl
