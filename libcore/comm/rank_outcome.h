// Work of several ranks that must end the same way on all of them: done, or with the same error.
//
// If one rank failed alone, the other ranks would wait for it forever, or continue. Here its error is sent over the
// control group as text, and every rank throws it with its exit code. Errors of work_on_every_rank() name the rank.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace mtl {

/// An error that all ranks throw at the same point, so that they can still communicate.
class AgreedError : public Error {
 public:
  using Error::Error;
};

/// The result of one rank's work: its answer, or its error as text.
using Outcome = std::string;

/// Collective: calls `work` on every rank; returns all ranks' outcomes, by rank. Catches every std::exception of
/// `work`.
std::vector<Outcome> work_on_every_rank(Communicator& control, const std::function<std::string()>& work);
/// Returns the answers, by rank; throws the error of the first rank that failed, as AgreedError.
std::vector<std::string> answers_of(const std::vector<Outcome>& outcomes);

/// Collective: calls `work` on rank 0; all ranks return its answer or throw its error, as AgreedError.
std::string work_on_first_rank(Communicator& control, const std::function<std::string()>& work);

/// Collective, after a fault: every rank passes its own error, or null. Throws the error of the first rank that has
/// one, as AgreedError.
[[noreturn]] void throw_first_error(Communicator& control, const std::exception_ptr& own);

}  // namespace mtl
