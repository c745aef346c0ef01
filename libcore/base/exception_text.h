// The messages of exceptions that are not mtl's own, for the user.
#pragma once

#include <exception>
#include <string>

namespace mtl {

/// Returns the message of any exception. For one that is not an Error, says what it means.
std::string describe_exception(const std::exception& error);

}  // namespace mtl
