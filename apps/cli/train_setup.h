// Everything a run needs to know before it starts, and everything that can be wrong with it by then: files that are not
// there, a model that contradicts the flags, a tokenizer of another size. All of it is reported together with what is
// wrong with the flags themselves.
#pragma once

#include "cli/flags.h"
#include "train/setup.h"

namespace mtl {

/// Opens what the flags name; to be called once all flags are known (Flags::parse). A single fault that is not the
/// command line's (a broken file) is thrown as it is, with its own exit status; everything else becomes a problem of
/// `flags`. Rank 0 finds the start, too; the other ranks receive it (train/start.h), and complete their setup then.
void prepare_training(const TrainOptions& options, Flags& flags, bool is_rank_zero, TrainSetup& setup);

/// The tokenizer and the configuration for a start that another rank, or a second look, has found. Throws UsageError.
void complete_setup(const TrainOptions& options, TrainSetup& setup);

}  // namespace mtl
