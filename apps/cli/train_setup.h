// Prepares a run: finds its start, loads the tokenizer, and resolves the configuration. Missing files, a model that
// contradicts the flags and a tokenizer of another size are reported together with the problems of the flags.
#pragma once

#include "cli/flags.h"
#include "train/setup.h"

namespace mtl {

/// Opens the files that the flags name; for the `prepare` of Flags::parse. Throws the error of broken files, with its
/// exit code, if there are no other problems; otherwise every error becomes a problem of `flags`. Only rank 0 finds the
/// start and loads the tokenizer; other ranks receive the start (train/start.h), and then call complete_setup().
void prepare_training(const TrainOptions& options, Flags& flags, bool is_rank_zero, TrainSetup& setup);

/// Loads the tokenizer and resolves the configuration for a start that rank 0 sent, or that replaces a damaged one.
/// Throws UsageError if they contradict the flags.
void complete_setup(const TrainOptions& options, TrainSetup& setup);

}  // namespace mtl
