// Work that ranks do for a common purpose ends alike on all of them: done, or with the same error.
//
// A rank that fails alone would leave the others waiting for it, or continuing as if nothing had happened. Here its
// error becomes text, travels over the control group, and is thrown on every rank with its exit code. Where every rank
// worked, the error names the rank.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace mtl {

/// An error that every rank throws at the same point: the ranks can still communicate and continue together.
class AgreedError : public Error {
 public:
  using Error::Error;
};

/// The result of one rank's work: its answer, or its error as text. Written and parsed here alone.
using Outcome = std::string;

/// Collective: every rank works, and receives the outcome of every rank's work. Does not throw what the work threw.
std::vector<Outcome> work_on_every_rank(Communicator& control, const std::function<std::string()>& work);
/// The answers, by rank; throws the error of the first rank that failed, as AgreedError.
std::vector<std::string> answers_of(const std::vector<Outcome>& outcomes);

/// Collective: the first rank works; all return its answer or throw its error, as AgreedError.
std::string work_on_first_rank(Communicator& control, const std::function<std::string()>& work);

/// Collective, after a fault: every rank gives its own error, or null when it has none. Throws the error of the first
/// rank that has one, as AgreedError.
[[noreturn]] void throw_first_error(Communicator& control, const std::exception_ptr& own);

}  // namespace mtl
