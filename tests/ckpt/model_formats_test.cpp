// The table of model formats: what it says is what the documentation says, and its tests exist.
#include <doctest/doctest.h>

#include "base/files.h"
#include "base/str.h"
#include "ckpt/model_formats.h"

using namespace mtl;

namespace {

std::string as_code(std::string_view text) { return text.empty() ? "" : cat("`", text, "`"); }

}  // namespace

TEST_CASE("model formats: docs/models.md has exactly the rows of the table") {
  std::vector<std::string> expected;
  for (const ModelFormat& row : model_formats())
    expected.push_back(cat("| ", row.name, " | ", as_code(row.recognized), " | ", row.versions, " | ", row.reads, " | ",
                           as_code(row.writes), " | ", as_code(row.proof), " |"));
  std::vector<std::string> documented;
  bool is_inside = false;
  for (const std::string& line : split(read_file("../docs/models.md"), '\n')) {
    if (is_inside && starts_with(line, "| ")) documented.push_back(line);
    is_inside = starts_with(line, "| format | a folder contains |") || (is_inside && starts_with(line, "|"));
  }
  CHECK(documented == expected);
}

TEST_CASE("model formats: every row names a test that exists") {
  for (const ModelFormat& row : model_formats()) {
    CAPTURE(row.name);
    CHECK(file_exists(std::string(row.proof)));
  }
}
