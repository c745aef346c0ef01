// Token frequencies and sequence lengths: their summaries.
#include "data/token_stats.h"

#include <doctest/doctest.h>

#include "data/length_summary.h"
#include "tests/data/data_folder.h"

using namespace mtl;

TEST_CASE("token frequencies: summarized by entropy, coverage and rank") {
  const TokenStats stats = summarize_tokens({0, 2, 4, 2});
  CHECK(stats.used == 3);
  CHECK(stats.ranked == std::vector<std::int64_t>{2, 1, 3});
  CHECK(stats.entropy == doctest::Approx(1.5));
  CHECK(stats.coverage == std::array<std::int64_t, 4>{1, 3, 3, 3});
  CHECK(summarize_tokens({0, 7}).entropy == 0);
  CHECK(summarize_tokens({}).used == 0);

  const Folder folder;
  write_documents(folder.path + "data", DataType::u16, {{{1, 3}, {3}}, {}, {{3}}});
  const IndexedDataset data(folder.path + "data");
  const DataStats all = collect_stats(data, 4, 2);
  CHECK(all.counts == std::vector<std::int64_t>{0, 1, 0, 3});
  CHECK(all.ids.ranked == std::vector<std::int64_t>{3, 1});
  CHECK(all.documents.count == 3);
  CHECK(all.documents.max == 3);
  CHECK(all.sequences.count == 3);
  CHECK(all.sequences.max == 2);
  CHECK_THROWS_AS(collect_stats(data, 3, 2), Error);
}

TEST_CASE("length histogram: buckets of powers of two; empty sequences and documents counted separately") {
  const Folder folder;
  write_documents(folder.path + "data", DataType::u16, {{{1}, {1, 2, 3}}, {}, {{1, 2, 3, 4}}});
  const LengthHistogram lengths = histogram_of(IndexedDataset(folder.path + "data"));
  CHECK(lengths.min == 1);
  CHECK(lengths.max == 4);
  CHECK(lengths.mean == doctest::Approx(8.0 / 3));
  CHECK(lengths.empty_documents == 1);
  CHECK(lengths.buckets[1] == 1);
  CHECK(lengths.buckets[2] == 1);
  CHECK(lengths.buckets[3] == 1);
  write_documents(folder.path + "data", DataType::u16, {{}});
  const LengthHistogram none = histogram_of(IndexedDataset(folder.path + "data"));
  CHECK(none.min == 0);
  CHECK(none.mean == 0);
  CHECK(bucket_begin(3) == 4);
  CHECK(bucket_end(3) == 7);
}
