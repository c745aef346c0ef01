// Everything a run needs to know before it starts, and everything that can be wrong with it by then: files that are not
// there, a model that contradicts the flags, a tokenizer of another size. All of it is reported together with what is
// wrong with the flags themselves.
#pragma once

#include <memory>

#include "cli/flags.h"
#include "text/tokenizer.h"
#include "train/start.h"

namespace mtl {

struct TrainSetup {
  RunStart start;                        // its config is the resolved one
  std::unique_ptr<Tokenizer> tokenizer;  // null when there is none and none is needed
};

/// To be called once from a check of `flags`. A single fault that is none of the command line's (a broken file) is
/// thrown as it is, with its own exit status; everything else becomes a problem of `flags`.
/// Only a rank that `speaks` tells what it found.
void prepare_training(const TrainOptions& options, Flags& flags, bool speaks, TrainSetup& setup);

}  // namespace mtl
