// Requests to save and end by a file or a time limit.
#include "train/stop_request.h"

#include <doctest/doctest.h>

#include "base/console.h"
#include "base/files.h"
#include "tests/comm/thread_group.h"
#include "tests/scratch_folder.h"
#include "train/step_totals.h"

using namespace mtl;
using namespace mtl::test;

TEST_CASE("a stop file requests the end once it exists, even if it disappears again") {
  const ScratchFolder folder;
  const std::string path = folder.path() + "/stop";
  StopRequest missing(path, 0, now_seconds());
  CHECK(!missing.is_requested());
  CHECK(missing.reason().empty());
  OutputFile{path};
  CHECK(!missing.is_requested());  // looked less than a second ago
  StopRequest found(path, 0, now_seconds());
  CHECK(found.is_requested());
  CHECK(found.reason() == "--kill-switch-path " + path);
  fs::remove(path);
  CHECK(found.is_requested());
}

TEST_CASE("a time limit requests the end once it has passed; 0 and no request at all never do") {
  const double minute_ago = now_seconds() - 60;
  StopRequest none, later("", 1.5, minute_ago), unlimited("", 0, minute_ago), passed("", 0.5, minute_ago);
  CHECK(!passed.is_requested());  // no step yet
  for (StopRequest* request : {&none, &later, &unlimited, &passed}) {
    request->note_step();
    CHECK(request->is_requested() == (request == &passed));
  }
  CHECK(passed.reason() == "--exit-duration-in-mins 0.5");
}

TEST_CASE("all ranks end if rank 0 has a stop request") {
  for (bool is_requested : {false, true}) {
    run_ranks(RankGrid({.data = 3}), [&](int rank, const ProcessGroups& groups) {
      StopRequest request;
      if (rank == 0 && is_requested) request = StopRequest("", 0.5, now_seconds() - 60);
      request.note_step();
      StepTotals totals;
      totals.stop = request.is_requested();
      totals.exchange(groups.world());
      CHECK(totals.ends() == is_requested);
      CHECK(totals.end == 0);
    });
  }
}
