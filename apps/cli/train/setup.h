// Prepares a run: finds the starting state, loads the tokenizer, and resolves the configuration. Reports missing files,
// a model that contradicts the flags, and a tokenizer of the wrong size along with the flags' own problems.
#pragma once

#include "cli/flags.h"
#include "train/setup.h"

namespace mtl {

/// Opens the files that flags name. Should be passed to Flags::parse() as `prepare`. If broken files are the only
/// problem, throws their error with its exit code; otherwise every error becomes a problem in `flags`. Only rank 0
/// finds the starting state and loads the tokenizer. The other ranks receive the starting state (train/start.h), then
/// call complete_setup().
void prepare_training(TrainOptions& options, Flags& flags, bool is_rank_zero, TrainSetup& setup);

/// Loads the tokenizer and resolves the configuration for a starting state that rank 0 sent or that replaces a damaged
/// one. Throws UsageError if the tokenizer or the configuration contradicts the flags.
void complete_setup(TrainOptions& options, TrainSetup& setup);

}  // namespace mtl
