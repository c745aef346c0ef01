// Work on one or all ranks that must have the same outcome on all ranks: either success or the same error.
//
// If only the rank that failed threw its error, the other ranks would continue, or would wait for it forever. Therefore
// the error is sent as text over the control group, and every rank throws the same error with the same exit code.
// Errors from work_on_every_rank() include the rank.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace mtl {

/// An error that all ranks throw at the same point in the program, so that they can still communicate.
class AgreedError : public Error {
 public:
  using Error::Error;
};

/// The result of one rank's work: either an answer or an error, encoded as text.
using Outcome = std::string;

/// Collective: calls work() on every rank and returns all outcomes, by rank. Catches every std::exception from work().
std::vector<Outcome> work_on_every_rank(Communicator& control, const std::function<std::string()>& work);
/// Returns the answers, by rank. If any rank failed, throws the lowest such rank's error as an AgreedError.
std::vector<std::string> answers_of(const std::vector<Outcome>& outcomes);

/// Collective: calls work() on rank 0. All ranks return its answer. If work() throws, all ranks throw its error as an
/// AgreedError.
std::string work_on_first_rank(Communicator& control, const std::function<std::string()>& work);

/// Collective: must be called on all ranks after a fault. Each rank passes its own error, or null if it has none.
/// Throws the error of the lowest rank that has one, as an AgreedError.
[[noreturn]] void throw_first_error(Communicator& control, const std::exception_ptr& own);

}  // namespace mtl
