// Rank lists: described in short form.
#include "layout/rank_list.h"

#include <doctest/doctest.h>

using namespace mtl;

TEST_CASE("rank lists: print runs and steps, and cut the middle of long lists") {
  CHECK(rank_list({3}) == "3");
  CHECK(rank_list({0, 1}) == "0, 1");
  CHECK(rank_list({0, 1, 2, 3, 8, 9, 10, 11}) == "0-3, 8-11");
  CHECK(rank_list({0, 8, 16, 24, 32}) == "0, 8, .. 32");
  CHECK(rank_list({0, 2, 3, 7, 11, 12, 20, 21, 30}) == "0, 2, 3, 7, .., 30");
  CHECK(short_rank_list({0, 1, 2}) == "0-2");
  std::vector<int> scattered{0, 1, 2};
  for (int rank = 10; rank < 1000; rank += 7) scattered.push_back(rank + rank % 3);
  CHECK(short_rank_list(scattered) == "0-2 and 142 more");
}
