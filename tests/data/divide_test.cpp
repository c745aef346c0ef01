#include "data/divide.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "tests/data/data_folder.h"
#include "tests/error_of.h"

using namespace mtl;

namespace {

using PartBounds = std::vector<std::int64_t>;

/// Writes one document per length.
IndexedDataset documents_of(const Folder& folder, const std::vector<std::size_t>& lengths) {
  Documents documents;
  for (const std::size_t length : lengths) {
    documents.push_back({std::vector<std::int32_t>(length, 1)});
  }
  write_documents(folder.path + "data", DataType::u16, documents);
  return IndexedDataset(folder.path + "data");
}

}  // namespace

TEST_CASE("documents are divided by weights, halves rounded to even") {
  Folder folder;
  const IndexedDataset ten = documents_of(folder, std::vector<std::size_t>(10, 1));
  CHECK(divide_documents(ten, {8, 1, 1}) == PartBounds{0, 8, 9, 10});
  CHECK(divide_documents(ten, {.5, .5}) == PartBounds{0, 5, 10});
  CHECK(divide_documents(ten, {1, 3}) == PartBounds{0, 2, 10});
  CHECK(divide_documents(ten, {3, 1}) == PartBounds{0, 8, 10});
  CHECK(divide_documents(ten, {1}) == PartBounds{0, 10});
  CHECK(divide_documents(ten, {1e-9, 1}) == PartBounds{0, 0, 10});
  CHECK(divide_documents(ten, std::vector<double>(7, .1)).back() == 10);
  for (const double scale : {1e308, 5e-324 * 4}) {  // the sum of the weights overflows, or they are denormal
    CAPTURE(scale);
    CHECK(divide_documents(ten, {scale, scale}) == PartBounds{0, 5, 10});
    CHECK(divide_tokens(ten, {scale, scale}) == PartBounds{0, 5, 10});
  }
}

TEST_CASE("documents are divided by numbers, one of which may be the rest") {
  Folder folder;
  const IndexedDataset ten = documents_of(folder, std::vector<std::size_t>(10, 1));
  CHECK(divide_by_counts(ten, {3, 7}) == PartBounds{0, 3, 10});
  CHECK(divide_by_counts(ten, {3, std::nullopt, 2}) == PartBounds{0, 3, 8, 10});
  CHECK(divide_by_counts(ten, {10, std::nullopt}) == PartBounds{0, 10, 10});
  for (const std::int64_t many : {std::int64_t{8}, INT64_MAX})
    CHECK(test::contains(test::error_of([&] { divide_by_counts(ten, {3, many}); }, Exit::usage), "more than the 10"));
  CHECK(test::contains(test::error_of([&] { divide_by_counts(ten, {3, 6}); }, Exit::usage), "fewer than the 10"));
  CHECK(test::contains(test::error_of([&] { divide_by_counts(ten, {3, std::nullopt, 8}); }), "; use smaller numbers"));
}

TEST_CASE("tokens are divided at the nearest end of a document") {
  Folder folder;
  const IndexedDataset data = documents_of(folder, {10, 1, 1, 0, 8, 20});  // ends: 10 11 12 12 20 40
  CHECK(divide_tokens(data, {1, 1}) == PartBounds{0, 5, 6});
  CHECK(divide_tokens(data, {11, 29}) == PartBounds{0, 2, 6});
  CHECK(divide_tokens(data, {4, 36}) == PartBounds{0, 0, 6});
  CHECK(divide_tokens(data, {5, 35}) == PartBounds{0, 0, 6});  // halfway between: picks the earlier end
  CHECK(divide_tokens(data, {6, 34}) == PartBounds{0, 1, 6});
  CHECK(divide_tokens(data, {1, 1, 1, 1}) == PartBounds{0, 1, 5, 5, 6});
  CHECK(divide_tokens(documents_of(folder, {5, 5, 0, 0}), {1, 1}) == PartBounds{0, 1, 4});
}

TEST_CASE("shuffled documents follow NumPy's permutation") {
  // numpy.random.RandomState(1234).permutation(10)
  CHECK(shuffled_documents(10, 1234) == std::vector<std::uint32_t>{7, 2, 9, 1, 0, 8, 4, 5, 6, 3});
  CHECK(shuffled_documents(0, 1).empty());
  CHECK_THROWS_AS(shuffled_documents(INT64_C(1) << 32, 1), Error);
}

TEST_CASE("a random sample of documents is distinct and sorted, repeats for the same seed, and can be all of them") {
  CHECK(sample_documents(1000, 20, 5) == sample_documents(1000, 20, 5));
  CHECK(sample_documents(1000, 20, 5) != sample_documents(1000, 20, 6));
  for (const std::int64_t count : {0, 1, 7, 999, 1000}) {
    const PartBounds drawn = sample_documents(1000, count, 3);
    CHECK(drawn.size() == static_cast<std::size_t>(count));
    CHECK(std::is_sorted(drawn.begin(), drawn.end()));
    CHECK(std::adjacent_find(drawn.begin(), drawn.end()) == drawn.end());
    CHECK(std::all_of(drawn.begin(), drawn.end(), [](std::int64_t i) { return i >= 0 && i < 1000; }));
  }
  CHECK_THROWS_AS(sample_documents(3, 4, 1), Error);
  // The documents of a seed stay the same. Of numbers that are nearly as large as draws, many draws are rejected.
  CHECK(sample_documents(1000, 5, 3) == PartBounds{101, 349, 403, 583, 791});
  CHECK(sample_documents(INT64_C(3) << 61, 3, 6) ==
        PartBounds{3414452427424513901, 5063037658077946386, 6409718480720517074});
}

TEST_CASE("every set of documents is drawn about equally often") {
  std::map<PartBounds, int> drawn;
  for (std::uint32_t seed = 0; seed < 10000; ++seed) ++drawn[sample_documents(5, 2, seed)];
  CHECK(drawn.size() == 10);
  for (const auto& [set, times] : drawn) {
    CHECK(times > 850);  // 1000 expected, minus 5 standard deviations
    CHECK(times < 1150);
  }
}
