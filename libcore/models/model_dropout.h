// The dropout that a stored model was trained with. It does not change what the model computes, so it is not part of
// GptConfig.
#pragma once

#include <optional>

#include "base/json.h"

namespace mtl {

/// Probabilities, at least 0 and below 1.
struct ModelDropout {
  double hidden = 0;     // on the outputs of attention and MLP
  double attention = 0;  // on attention probabilities
  double embedding = 0;  // on the input of the first layer; differs from `hidden` only in some GPT-2 folders

  bool operator==(const ModelDropout&) const = default;
};

/// Returns the dropout in the form that a checkpoint's training state stores as "dropout".
Json dropout_to_json(const ModelDropout& dropout);
/// Parses what dropout_to_json() returned. Throws Error(bad_data) if a member is missing or not a probability.
ModelDropout dropout_from_json(const Json& json);
/// Throws Error(bad_data) unless `value` is at least 0 and below 1. `name` is the key or argument that holds it.
double checked_dropout(const char* name, double value);

}  // namespace mtl
