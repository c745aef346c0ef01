// Records every rank's measured algorithm choices in a checkpoint. A run that resumes in the same layout then uses the
// same algorithms and produces the same bits.
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

/// Returns {"tables": [{"context": ..., "choices": {KEY: CHOICE, ...}}, ...], "of_rank": [0, 0, 1, ...]}. Equal tables
/// are stored only once; `of_rank` gives each rank's index into `tables`.
Json choices_record(const std::vector<SavedChoices>& by_rank);

/// Returns a rank's choices, or empty if a different number of ranks wrote the record. Throws Error(bad_data) if the
/// record is malformed.
std::optional<SavedChoices> choices_of_rank(const Json& record, int rank, int ranks);

}  // namespace mtl
