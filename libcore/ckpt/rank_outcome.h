// What ranks do for a common purpose ends alike on all of them: done, or the same error everywhere.
//
// A rank that fails alone would leave the others waiting for it, or going on as if nothing had happened. Here its error
// becomes text, travels, and is thrown on every rank with its exit code. Where every rank worked it says whose it was.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace mtl {

/// What became of one rank's work: its answer, or its error as text. Made and read here alone.
using Outcome = std::string;

/// Collective: every rank works, and hears what became of everyone's work. Does not throw what the work threw.
std::vector<Outcome> work_on_every_rank(Communicator& world, Stream& stream, const std::function<std::string()>& work);
/// Everyone's answers, by rank; throws the error of the first rank that failed.
std::vector<std::string> answers_of(const std::vector<Outcome>& outcomes);

/// Collective: the first rank works; all return its answer or throw its error.
std::string work_on_first_rank(Communicator& world, Stream& stream, const std::function<std::string()>& work);

}  // namespace mtl
