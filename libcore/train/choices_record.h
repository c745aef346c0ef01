// What ranks do with the algorithms that each of them has measured. Ranks agree on them before the first step. A
// checkpoint records every rank's, so that a run that resumes in the same layout uses the same algorithms and produces
// the same bits.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace mtl {

struct SavedChoices {
  std::string context;  // choices_context(): the GPU and libraries
  std::map<std::string, std::string> table;

  bool operator==(const SavedChoices&) const = default;
  /// Serializes the choices so that they can be sent to other ranks.
  std::string text() const;
  /// Parses text(). Throws Error(bad_data) if it is malformed.
  static SavedChoices parse(std::string_view text);
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

}  // namespace mtl
