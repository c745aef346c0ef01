// The text of an error that is expected.
#pragma once

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace mtl::test {

/// What `function` throws, or "". Checks the exit code when one is given.
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
