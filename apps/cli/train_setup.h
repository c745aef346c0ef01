// Prepares a run: finds the starting state, loads the tokenizer, and resolves the configuration. Reports missing files,
// a model that contradicts the flags, and a tokenizer of the wrong size together with the problems of the flags.
#pragma once

#include "cli/flags.h"
#include "train/setup.h"

namespace mtl {

/// Opens the files that the flags name. For the `prepare` argument of Flags::parse(). If broken files are the only
/// problem, throws their error with its exit code; otherwise, every error becomes a problem of `flags`. Only rank 0
/// finds the starting state and loads the tokenizer. The other ranks receive the starting state (train/start.h) and
/// then call complete_setup().
void prepare_training(const TrainOptions& options, Flags& flags, bool is_rank_zero, TrainSetup& setup);

/// Loads the tokenizer and resolves the configuration for a starting state that rank 0 sent, or that replaces a damaged
/// one. Throws UsageError if the tokenizer or the configuration contradicts the flags.
void complete_setup(const TrainOptions& options, TrainSetup& setup);

}  // namespace mtl
