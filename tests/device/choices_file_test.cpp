// The choices file: keeps contexts apart, ignores damage, and survives failures.
#include "device/choices_file.h"

#include <doctest/doctest.h>

#include "base/files.h"
#include "tests/scratch_folder.h"

using namespace mtl;
using namespace mtl::test;

namespace {

using Table = std::map<std::string, std::string>;

struct Warnings {
  std::vector<std::string> all;
  Warn warn() {
    return [this](const std::string& what) { all.push_back(what); };
  }
};

}  // namespace

TEST_CASE("choices_file: returns choices only in their context, newer ones instead of older") {
  ScratchFolder scratch;
  const std::string path = scratch / "new/folder/choices.json";
  Warnings warnings;
  CHECK(read_choices(path, "H100", warnings.warn()).empty());
  write_choices(path, "H100", {{"gemm 1", "66"}, {"gemm 2", "67"}}, warnings.warn());
  write_choices(path, "A100", {{"gemm 1", "21"}}, warnings.warn());
  write_choices(path, "H100", {{"gemm 2", "68 tile=2"}, {"gemm 3", "69"}}, warnings.warn());
  CHECK(read_choices(path, "H100", warnings.warn()) ==
        Table{{"gemm 1", "66"}, {"gemm 2", "68 tile=2"}, {"gemm 3", "69"}});
  CHECK(read_choices(path, "A100", warnings.warn()) == Table{{"gemm 1", "21"}});
  CHECK(read_choices(path, "H200", warnings.warn()).empty());
  CHECK(warnings.all.empty());
}

TEST_CASE("choices_file: ignores a damaged or foreign file with a warning, and replaces it") {
  ScratchFolder scratch;
  const std::string path = scratch / "choices.json";
  write_choices(path, "H100", {{"gemm", "66"}}, [](const std::string& what) { FAIL(what); });
  const std::string whole = read_file(path);
  for (const std::string& text :
       {std::string(), whole.substr(0, whole.size() / 2), std::string("{}"), std::string("[1]"),
        std::string(R"({"format": "other", "version": 1, "contexts": {}})"),
        std::string(R"({"format": "mtl-choices", "version": 2, "contexts": {}})"),
        std::string(R"({"format": "mtl-choices", "version": 1, "contexts": {"H100": {"gemm": 66}}})"),
        std::string(R"({"format": "mtl-choices", "version": 1, "contexts": {"H100": "66"}})")}) {
    CAPTURE(text);
    write_file_atomic(path, text);
    Warnings warnings;
    CHECK(read_choices(path, "H100", warnings.warn()).empty());
    REQUIRE(warnings.all.size() == 1);
    CHECK(warnings.all.front().find(path + " is ignored (") == 0);
    write_choices(path, "H100", {{"gemm", "66"}}, warnings.warn());
    CHECK(read_choices(path, "H100", warnings.warn()) == Table{{"gemm", "66"}});
    CHECK(warnings.all.size() == 1);
  }
}

TEST_CASE("choices_file: warns if the file cannot be written") {
  ScratchFolder scratch;
  write_file_atomic(scratch / "file", "text");
  Warnings warnings;
  write_choices(scratch / "file/choices.json", "H100", {{"gemm", "66"}}, warnings.warn());
  REQUIRE(warnings.all.size() == 1);
  CHECK(warnings.all.front().find("--tuning-cache") != std::string::npos);
}

TEST_CASE("choices_file: prefers XDG_CACHE_HOME to HOME") {
  const auto set = [](const char* name, const char* value) { ::setenv(name, value, 1); };
  const std::string home = std::getenv("HOME") == nullptr ? "" : std::getenv("HOME");
  set("HOME", "/home/ada");
  set("XDG_CACHE_HOME", "/cache");
  CHECK(default_choices_file() == "/cache/mtl/choices.json");
  set("XDG_CACHE_HOME", "relative");
  CHECK(default_choices_file() == "/home/ada/.cache/mtl/choices.json");
  ::unsetenv("XDG_CACHE_HOME");
  set("HOME", "");
  CHECK(default_choices_file().empty());
  set("HOME", home.c_str());
}
