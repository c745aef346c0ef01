// Returns the messages of expected errors.
#pragma once

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace mtl::test {

/// Calls `function`; returns the message of the Error it throws, or "". Checks the exit code if `code` is given.
template <class Function>
std::string error_of(const Function& function, std::optional<Exit> code = {}) {
  try {
    function();
  } catch (const Error& error) {
    if (code) CHECK(error.code() == *code);
    return error.what();
  }
  return "";
}

inline bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

}  // namespace mtl::test
