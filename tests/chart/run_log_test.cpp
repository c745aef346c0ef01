// Logs of several runs: the names of the runs.
#include "chart/run_log.h"

#include <doctest/doctest.h>

#include "base/files.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

using namespace mtl;
using namespace mtl::test;

namespace {

std::vector<std::string> names_of(const std::vector<RunLog>& runs) {
  std::vector<std::string> names;
  for (const RunLog& run : runs) names.push_back(run.name);
  return names;
}

}  // namespace

TEST_CASE("run logs: every run has a name of its own") {
  const ScratchFolder folder;
  const std::string first = folder / "run.jsonl", second = folder / "b/run.jsonl", both = folder / "both.jsonl";
  const std::string line = "{\"iteration\":1,\"lm_loss\":3}\n", start = "{\"type\":\"start\",\"iteration\":0,\"id\":";
  make_directories(folder / "b");
  write_file_atomic(first, line);
  write_file_atomic(second, line);
  write_file_atomic(both, start + "\"x\"}\n" + line + start + "\"y\"}\n" + line);
  Console console("test");
  std::vector<RunLog> runs = read_run_logs({first, second, both}, {}, console);
  CHECK(names_of(runs) == std::vector<std::string>{"run", second, "both (1)", "both (2)"});
  name_runs(runs, "a,b,c,d");
  CHECK(names_of(runs) == std::vector<std::string>{"a", "b", "c", "d"});
  CHECK(error_of([&] { name_runs(runs, "a,b"); }, Exit::usage)
            .starts_with("--names a,b has 2 names for 4 runs; write one name per run"));
  CHECK(contains(error_of([&] { read_run_logs({folder / "none"}, {}, console); }, Exit::io), "none: cannot open"));
}
