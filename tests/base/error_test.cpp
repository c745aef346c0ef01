// Errors: their messages are complete.
#include "base/error.h"

#include <doctest/doctest.h>

#include "base/usage_error.h"

using namespace mtl;

TEST_CASE("error: a NUL byte does not end a message") {
  const std::string name("gp\0t2", 5);
  CHECK(std::string(Error(Exit::bad_data, cat("\"", name, "\" is unknown; use gpt2")).what()) ==
        "\"gp\\0t2\" is unknown; use gpt2");
  const Error at(Exit::bad_data, name, "is unknown; use gpt2");
  CHECK(at.where() == "gp\\0t2");
  CHECK(at.message() == "is unknown; use gpt2");
  CHECK(std::string(UsageError({{name, "is unknown"}, {"--lr", "is 0"}}).what()).ends_with("--lr   is 0"));
}
