// Runs work on one or all ranks with the same outcome on every rank: either success or the same error.
//
// If only the failed rank threw its error, the other ranks would continue, or would wait for it forever. We therefore
// send the error as text over the control group. Every rank then throws the same error with the same exit code. Errors
// from work_on_every_rank() include the rank.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace mtl {

/// An error that all ranks throw at the same point in the program, so they can still communicate.
class AgreedError : public Error {
 public:
  using Error::Error;
};

/// Collective. Calls work() on every rank and returns all answers, by rank. If work() throws a std::exception on any
/// rank, all ranks throw the error from the lowest failed rank as an AgreedError.
std::vector<std::string> work_on_every_rank(Communicator& control, const std::function<std::string()>& work);

/// Collective. Calls work() on rank 0 and returns its answer on all ranks. If work() throws, all ranks throw its error
/// as an AgreedError.
std::string work_on_first_rank(Communicator& control, const std::function<std::string()>& work);

/// Collective. Must be called on all ranks after a fault. Each rank passes its own error, or null if it has none. All
/// ranks throw the error from the lowest rank that passed one, as an AgreedError.
[[noreturn]] void throw_first_error(Communicator& control, const std::exception_ptr& own);

}  // namespace mtl
