// Thread counts for a process that shares its host with other ranks.
#include <doctest/doctest.h>

#include "base/threads.h"

using namespace mtl;

TEST_CASE("threads: a given number is used; otherwise the local ranks share all cores") {
  CHECK(resolve_threads(3) == 3);
  CHECK(resolve_threads(3, 8) == 3);
  int alone = resolve_threads(0);
  CHECK(alone >= 1);
  CHECK(resolve_threads(0, 1) == alone);
  CHECK(resolve_threads(0, 2) <= alone);
  CHECK(resolve_threads(0, 1 << 20) == 1);
}
