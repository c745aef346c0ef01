// How many threads a process takes when it shares its host with others.
#include <doctest/doctest.h>

#include "base/threads.h"

using namespace mtl;

TEST_CASE("threads: a number given is taken; all cores are shared out among local ranks") {
  CHECK(resolve_threads(3) == 3);
  CHECK(resolve_threads(3, 8) == 3);
  int alone = resolve_threads(0);
  CHECK(alone >= 1);
  CHECK(resolve_threads(0, 1) == alone);
  CHECK(resolve_threads(0, 2) <= alone);
  CHECK(resolve_threads(0, 1 << 20) == 1);
}
