// The measured choices of every rank in a checkpoint. With them, a run that resumes in the same layout computes with
// the same algorithms and gives the same bits.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace mtl {

struct SavedChoices {
  std::string context;  // kernels/choices_context.h
  std::map<std::string, std::string> table;

  bool operator==(const SavedChoices&) const = default;
  /// Serializes for other ranks.
  std::string text() const;
  /// Throws Error(bad_data).
  static SavedChoices parse(std::string_view text);
};

/// {"tables": [{"context": ..., "choices": {KEY: CHOICE, ...}}, ...], "of_rank": [0, 0, 1, ...]}: equal tables once.
Json choices_record(const std::vector<SavedChoices>& by_rank);

/// Returns the choices of a rank, or empty if the record was written by another number of ranks. Throws
/// Error(bad_data).
std::optional<SavedChoices> choices_of_rank(const Json& record, int rank, int ranks);

}  // namespace mtl
