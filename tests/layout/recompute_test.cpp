// Recomputation: which layers are recomputed, compared with Megatron-LM's description of its methods.
#include "layout/recompute.h"

#include <doctest/doctest.h>

using namespace mtl;

TEST_CASE("layers are grouped by granularity and method") {
  using Granularity = Recompute::Granularity;
  using Method = Recompute::Method;
  const auto groups = [](Granularity granularity, Method method, std::int64_t count, std::int64_t layers) {
    return recompute_groups({granularity, method, count}, layers);
  };
  using Groups = std::vector<LayerGroup>;  // first, count, is_recomputed
  const Groups kept = {{0, 1, false}, {1, 1, false}, {2, 1, false}};
  CHECK(groups(Granularity::none, Method::uniform, 2, 3) == kept);
  CHECK(groups(Granularity::selective, Method::uniform, 2, 3) == kept);  // only attention is recomputed
  CHECK(groups(Granularity::full, Method::uniform, 2, 5) == Groups{{0, 2, true}, {2, 2, true}, {4, 1, true}});
  CHECK(groups(Granularity::full, Method::block, 2, 4) ==
        Groups{{0, 1, true}, {1, 1, true}, {2, 1, false}, {3, 1, false}});
  CHECK(groups(Granularity::full, Method::block, 9, 2) == Groups{{0, 1, true}, {1, 1, true}});
  CHECK(groups(Granularity::full, Method::uniform, 1, 0).empty());
}
