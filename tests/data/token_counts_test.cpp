#include "data/token_counts.h"

#include <doctest/doctest.h>

#include <fstream>
#include <random>

#include "base/error.h"
#include "data/length_summary.h"
#include "data/npy.h"
#include "tests/data/data_folder.h"

using namespace mtl;

namespace {

/// Calls check_token_range; returns the rule, byte and message of its error, or "".
std::string range_error(const std::string& prefix, std::int64_t vocab_size, int threads) {
  try {
    check_token_range(IndexedDataset(prefix), vocab_size, threads);
  } catch (const BrokenRule& error) {
    return cat(error.violation().rule, " ", error.violation().offset.value(), " ", error.what());
  }
  return "";
}

}  // namespace

TEST_CASE("token counts are the same with any number of threads, in every type") {
  Folder folder;
  std::mt19937 random(4);
  std::vector<std::int32_t> tokens(300000);
  std::vector<std::int64_t> want(128);
  for (auto& token : tokens) ++want[static_cast<std::size_t>(token = static_cast<std::int32_t>(random() % 128))];
  for (const DataType type : {DataType::u8, DataType::i8, DataType::i16, DataType::i32, DataType::i64, DataType::u16}) {
    write_documents(folder.path + "data", type, {{tokens}});
    const IndexedDataset data(folder.path + "data");
    for (const int threads : {1, 2, 7}) CHECK(count_tokens(data, threads) == want);
  }
  write_documents(folder.path + "empty", DataType::u16, {{}});
  CHECK(count_tokens(IndexedDataset(folder.path + "empty"), 3).empty());
}

TEST_CASE("the first token beyond the vocabulary is reported with its location") {
  Folder folder;
  const std::string prefix = folder.path + "data";
  write_documents(prefix, DataType::u16, {{{1, 2}, {3}}, {}, {{4, 5, 60000}, {70}}});
  for (const int threads : {1, 2, 5}) {
    CHECK(range_error(prefix, 60001, threads) == "");
    const std::string message = range_error(prefix, 6, threads);
    CAPTURE(message);
    CHECK(
        starts_with(message, cat("vocabulary 10 ", prefix, ".bin: token 2 of sequence 2, in document 2, is 60000, but ",
                                 "the ids of the vocabulary are 0 to 5 (byte 10); ")));
    CHECK(starts_with(range_error(prefix, 1, threads), "vocabulary 0 "));
  }
  for (const DataType type : {DataType::i8, DataType::i16, DataType::i32, DataType::i64}) {
    write_documents(prefix, type, {{{1, 2, -5, 3}}});
    CHECK(starts_with(range_error(prefix, 1 << 20, 2), cat("vocabulary ", 2 * item_size(type), " ")));
    CHECK(range_error(prefix, 1 << 20, 2).find("is -5,") != std::string::npos);
    CHECK_THROWS_WITH_AS(count_tokens(IndexedDataset(prefix), 2), doctest::Contains("-5, which no vocabulary has"),
                         BrokenRule);
  }
  std::vector<std::int32_t> many(200000, 1);
  many[140000] = 9;
  many[190000] = 8;
  write_documents(prefix, DataType::u16, {{many}});
  for (const int threads : {1, 3}) CHECK(starts_with(range_error(prefix, 8, threads), "vocabulary 280000 "));
}

TEST_CASE("counting with zero threads is refused") {
  Folder folder;
  write_documents(folder.path + "data", DataType::i32, {{{1}}});
  CHECK_THROWS_WITH_AS(count_tokens(IndexedDataset(folder.path + "data"), 0), doctest::Contains("0 parts"), Error);
}

TEST_CASE("a data set of floats is refused") {
  Folder folder;
  write_documents(folder.path + "data", DataType::i32, {{{1}}});
  std::string idx = read_file(folder.path + "data.idx");
  idx[17] = 7;
  std::ofstream(folder.path + "data.idx", std::ios::binary) << idx;
  CHECK_THROWS_WITH_AS(count_tokens(IndexedDataset(folder.path + "data"), 1), doctest::Contains("stores f32"),
                       BrokenRule);
}

TEST_CASE("length summaries have extremes, mean and percentiles; lengths are those of documents or sequences") {
  const LengthSummary none = summarize_lengths({});
  CHECK(none.count == 0);
  CHECK(none.percentiles[4] == 0);
  CHECK(none.max == 0);
  std::vector<std::int64_t> hundred;
  for (std::int64_t i = 100; i > 0; --i) hundred.push_back(i);
  const LengthSummary summary = summarize_lengths(hundred);
  CHECK(summary.count == 100);
  CHECK(summary.min == 1);
  CHECK(summary.max == 100);
  CHECK(summary.mean == 50.5);
  for (std::size_t i = 0; i < kPercentiles.size(); ++i) CHECK(summary.percentiles[i] == kPercentiles[i]);
  CHECK(summarize_lengths({3, 1}).percentiles[4] == 1);
  CHECK(summarize_lengths({3, 1}).percentiles[5] == 3);
  Folder folder;
  write_documents(folder.path + "data", DataType::u16, {{{1, 2}, {3}}, {}, {{4}}});
  const IndexedDataset data(folder.path + "data");
  CHECK(document_lengths(data) == std::vector<std::int64_t>{3, 0, 1});
  CHECK(sequence_lengths(data) == std::vector<std::int64_t>{2, 1, 1});
}

TEST_CASE("a .npy header is a padded Python dictionary") {
  const auto check = [](DataType type, const char* descr) {
    const std::string header = npy_header(type, 12345678901);
    CHECK(header.size() % 64 == 0);
    CHECK(starts_with(header, std::string_view("\x93NUMPY\x01\x00", 8)));
    CHECK(static_cast<unsigned char>(header[8]) + 256 * static_cast<unsigned char>(header[9]) == header.size() - 10);
    CHECK(starts_with(header.substr(10),
                      cat("{'descr': '", descr, "', 'fortran_order': False, 'shape': (12345678901,), }")));
    CHECK(header.back() == '\n');
  };
  check(DataType::u8, "|u1");
  check(DataType::i8, "|i1");
  check(DataType::i16, "<i2");
  check(DataType::u16, "<u2");
  check(DataType::i32, "<i4");
  check(DataType::i64, "<i8");
  check(DataType::f32, "<f4");
  check(DataType::f64, "<f8");
}
