#include "data/indexed_dataset.h"

#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "base/error.h"
#include "data/indexed_format.h"
#include "tests/data/data_folder.h"
#include "tests/data/finish.h"
#include "tests/error_of.h"

using namespace mtl;

namespace {

void write_corpus(const std::string& prefix, DataType type) {
  IndexedDatasetWriter writer(prefix, type);
  writer.add_sequence(std::vector<std::int32_t>{1, 2, 3});
  writer.add_sequence(std::vector<std::int32_t>{});
  writer.add_sequence(std::vector<std::int32_t>{4});
  writer.end_document();
  writer.end_document();
  writer.add_sequence(std::vector<std::int32_t>{5, 127});
  writer.end_document();
  CHECK(writer.tokens() == 6);
  CHECK(writer.sequences() == 3);
  CHECK(writer.documents() == 3);
  CHECK_FALSE(file_exists(prefix + ".idx"));
  test::finish(writer);
}

}  // namespace

TEST_CASE("written sequences read back, in every integer type") {
  Folder folder;
  for (const DataType type : {DataType::u8, DataType::i8, DataType::i16, DataType::i32, DataType::i64, DataType::u16}) {
    const std::string prefix = cat(folder.path, name_of(type));
    write_corpus(prefix, type);
    const IndexedDataset data(prefix + ".bin");
    CHECK(data.prefix() == prefix);
    CHECK(data.type() == type);
    CHECK(data.tokens() == 6);
    CHECK(data.bin_bytes() == 6 * item_size(type));
    CHECK(read_sequence(data, 0) == std::vector<std::int32_t>{1, 2, 3});
    CHECK(read_sequence(data, 2) == std::vector<std::int32_t>{5, 127});
    CHECK(data.document_begin(1) == 2);
    CHECK(data.document_begin(2) == 2);
    CHECK(data.document_begin(3) == 3);
    CHECK(data.idx_hash() == hash_file(prefix + ".idx"));
    std::int32_t token = 0;
    data.read(0, 2, {&token, 1});
    CHECK(token == 3);
    CHECK_THROWS_AS(data.read(0, 3, {&token, 1}), Error);
    CHECK_THROWS_AS(data.read(3, 0, {&token, 1}), Error);
    CHECK_THROWS_AS(data.read(0, -1, {&token, 1}), Error);
    CHECK_THROWS_AS(data.read(-1, 0, {&token, 1}), Error);
    CHECK(data.idx_bytes() == file_size(prefix + ".idx"));
    CHECK(data.token_begin(1) == 3);
    CHECK(data.token_begin(3) == 6);
    CHECK(data.modes().empty());
    data.prefetch(2, 1, 1);
  }
}

TEST_CASE("the writer's hashes equal those of its files") {
  Folder folder;
  const std::string prefix = folder.path + "hashed";
  IndexedDatasetWriter writer(prefix, DataType::u16);
  for (int i = 0; i < 300'000; ++i) writer.add_sequence(std::vector<std::int32_t>{i % 1000, 7});  // several flushes
  writer.end_document();
  test::finish(writer);
  const TokenFilesWritten& written = writer.written();
  CHECK(written.bin_bytes == file_size(prefix + ".bin"));
  CHECK(written.idx_bytes == file_size(prefix + ".idx"));
  CHECK(written.bin_hash == hash_file(prefix + ".bin"));
  CHECK(written.idx_hash == hash_file(prefix + ".idx"));
  CHECK(written.tokens == 600'000);
}

TEST_CASE("a file that shrinks while in use is an error, not zeros or a signal") {
  Folder folder;
  const std::string prefix = folder.path + "shrinking";
  IndexedDatasetWriter writer(prefix, DataType::u16);
  writer.add_sequence(std::vector<std::int32_t>(100'000, 9));
  writer.end_document();
  test::finish(writer);
  const IndexedDataset data(prefix);
  std::vector<std::int32_t> tokens(100'000);
  data.check_sizes();
  data.read(0, 0, tokens);
  CHECK(tokens == std::vector<std::int32_t>(100'000, 9));
  for (const std::uintmax_t left : {199'998, 5'000, 0}) {  // cut in the last page, some pages earlier, and to nothing
    CAPTURE(left);
    std::filesystem::resize_file(prefix + ".bin", left);
    CHECK_THROWS_WITH_AS(data.read(0, 0, tokens), doctest::Contains("shrinking.bin was truncated"), Error);
    CHECK_THROWS_WITH_AS(data.check_sizes(), doctest::Contains("was truncated"), Error);
  }
  std::filesystem::resize_file(prefix + ".bin", 200'000);
  std::filesystem::resize_file(prefix + ".idx", 40);
  CHECK_THROWS_WITH_AS(data.check_sizes(), doctest::Contains("shrinking.idx was truncated"), Error);
}

TEST_CASE("a token id that does not fit its type is an error and leaves no file") {
  Folder folder;
  const std::string prefix = folder.path + "narrow";
  {
    IndexedDatasetWriter writer(prefix, DataType::u16);
    CHECK_THROWS_AS(writer.add_sequence(std::vector<std::int32_t>{65536}), Error);
    CHECK_THROWS_AS(writer.add_sequence(std::vector<std::int32_t>{-1}), Error);
  }
  CHECK(std::filesystem::is_empty(folder.path));
  const std::uint16_t narrow[] = {1, 127, 200};
  for (const auto& [type, what] : {std::pair(DataType::u8, ""),
                                   {DataType::i8, "the token id 200 does not fit in 8 bits"},
                                   {DataType::i16, ""},
                                   {DataType::u16, ""},
                                   {DataType::i32, ""},
                                   {DataType::i64, ""}}) {
    IndexedDatasetWriter writer(prefix, type);
    const std::string error = test::error_of([&] { writer.add_sequence(narrow); }, Exit::bad_data);
    CHECK(test::contains(error, what));
    if (!error.empty()) continue;
    writer.end_document();
    test::finish(writer);
    CHECK(read_sequence(IndexedDataset(prefix), 0) == std::vector<std::int32_t>{1, 127, 200});
  }
  IndexedDatasetWriter writer(prefix, DataType::u16);
  CHECK(test::contains(test::error_of([&] {
                         writer.add_sequence(std::vector<std::int32_t>{5, 65536, -1});
                       }),
                       "the token id 65536 does not fit in 16 unsigned bits; check the vocabulary size"));
  CHECK_THROWS_AS(IndexedDatasetWriter(prefix, DataType::f32), Error);
  CHECK(token_type_for_vocab(65499) == DataType::u16);
  CHECK(token_type_for_vocab(65500) == DataType::i32);
}

TEST_CASE("a stored id beyond 32 bits is refused") {
  Folder folder;
  const std::string prefix = folder.path + "wide";
  write_documents(prefix, DataType::i64, {{{1, 2}}});
  for (const std::int64_t id : {INT64_C(1) << 31, -(INT64_C(1) << 31) - 1, std::int64_t{INT32_MIN}}) {
    write_file_atomic(prefix + ".bin", to_little_endian(7, 8) + to_little_endian(static_cast<std::uint64_t>(id), 8));
    const IndexedDataset data(prefix);
    if (id == INT32_MIN)
      CHECK(read_sequence(data, 0) == std::vector<std::int32_t>{7, INT32_MIN});
    else
      CHECK(test::contains(test::error_of([&] { read_sequence(data, 0); }, Exit::bad_data),
                           cat("wide.bin: the token id ", id, " does not fit in 32 bits")));
    CHECK_THROWS_AS(data.stored_tokens(0, 2), Error);
    CHECK_THROWS_AS(data.stored_lengths(1, 0), Error);
    CHECK_THROWS_AS(data.stored_tokens(-1, 0), Error);
  }
}

TEST_CASE("rewriting Megatron-LM's files reproduces every byte") {
  Folder folder;
  for (const char* name : {"items_short", "items_long", "items_pad_id", "items_pad_is_eod", "items_valid_partial"}) {
    const std::string original = cat("golden/gpt_dataset/", name), copy = folder.path + name;
    const IndexedDataset data(original);
    IndexedDatasetWriter writer(copy, data.type());
    for (std::int64_t document = 0; document < data.documents(); ++document) {
      for (std::int64_t i = data.document_begin(document); i < data.document_begin(document + 1); ++i) {
        writer.add_sequence(read_sequence(data, i));
      }
      writer.end_document();
    }
    test::finish(writer);
    for (const char* ending : {".bin", ".idx"}) CHECK(read_file(copy + ending) == read_file(original + ending));
  }
}

namespace {

/// Writes token files with these contents; returns their prefix.
std::string write_files(const Folder& folder, std::string_view idx, std::string_view bin) {
  const std::string prefix = folder.path + "hostile";
  std::ofstream(prefix + ".idx", std::ios::binary) << idx;
  std::ofstream(prefix + ".bin", std::ios::binary) << bin;
  return prefix;
}

/// Opens the files; returns the error, or "".
std::string open_error(const std::string& prefix) {
  try {
    IndexedDataset data(prefix);
  } catch (const Error& error) {
    CHECK(error.code() == Exit::bad_data);
    return error.what();
  }
  return "";
}

template <class T>
std::string with_field(std::string idx, std::size_t at, T value) {
  std::memcpy(idx.data() + at, &value, sizeof value);
  return idx;
}

/// Returns which rule the files break first, and where: rule, file extension, byte.
std::string violation_of(const std::string& prefix) {
  try {
    IndexedDataset data(prefix);
  } catch (const BrokenRule& error) {
    const auto& [rule, file, offset] = error.violation();
    const std::string what = error.what();
    const bool is_advised =
        what.find("re-run mtl-preprocess") != std::string::npos || what.find("mtl-data repair") != std::string::npos;
    CHECK((rule == "magic" || is_advised));
    return cat(rule, " ", file.substr(file.size() - 3), " ", offset.value());
  }
  return "";
}

}  // namespace

TEST_CASE("every broken rule of the format has its message and its byte") {
  Folder folder;
  write_corpus(folder.path + "good", DataType::u16);
  const std::string idx = read_file(folder.path + "good.idx"), bin = read_file(folder.path + "good.bin");
  REQUIRE(idx.size() == 34 + 3 * 12 + 4 * 8);
  CHECK(open_error(write_files(folder, idx, bin)) == "");
  struct Case {
    std::string idx, bin, violation, message;
  };
  const Case cases[] = {
      {"", bin, "header-size idx 0", "the header needs 34 bytes, but the file has 0"},
      {idx.substr(0, 20), bin, "header-size idx 20", "the header needs 34 bytes, but the file has 20"},
      {std::string("TNTIDX\0\0", 8) + idx, bin, "magic idx 0", "make the token files again from their text"},
      {"X" + idx.substr(1), bin, "magic idx 0", "does not begin with MMIDIDX"},
      {"short", bin, "magic idx 0", "does not begin with MMIDIDX"},
      {with_field(idx, 9, std::uint64_t{2}), bin, "version idx 9", "version 2"},
      {with_field(idx, 17, std::uint8_t{0}), bin, "type idx 17", "type code 0"},
      {with_field(idx, 17, std::uint8_t{9}), bin, "type idx 17", "type code 9"},
      {with_field(idx, 18, std::uint64_t{812}), bin, "counts idx 18",
       "sequence_count 812 needs 9,744 bytes after the header, but the file has 68 (byte 18)"},
      {with_field(idx, 18, ~std::uint64_t{0}), bin, "counts idx 18", "more than 2^56"},
      {with_field(idx, 26, std::uint64_t{0}), bin, "counts idx 26", "document_count is 0"},
      {with_field(idx, 26, std::uint64_t{5}), bin, "counts idx 26",
       "sequence_count 3 and document_count 5 need 76 bytes"},
      {with_field(idx, 26, ~std::uint64_t{0}), bin, "counts idx 26", "more than 2^56"},
      {idx + "12", bin, "modes idx 102", "after the last document index is 2"},
      {idx + "1234", bin, "modes idx 102", "after the last document index is 4"},
      {with_field(idx, 34, std::int32_t{-3}), bin, "length idx 34", "sequence 0 has length -3"},
      {with_field(idx, 42, INT32_MIN), bin, "length idx 42", "sequence 2 has length -2147483648"},
      {with_field(idx, 46, std::int64_t{2}), bin, "pointer idx 46",
       "sequence 0 should begin at byte 0 of the .bin, not at 2"},
      {with_field(idx, 34, std::int32_t{2}), bin, "pointer idx 54",
       "sequence 1 should begin at byte 4 of the .bin, not at 6"},
      {with_field(idx, 54, INT64_MIN), bin, "pointer idx 54", "not at -9223372036854775808"},
      {with_field(idx, 42, std::int32_t{3}), bin, "bin-size bin 12",
       "sequences 0 to 2 need 14 bytes, but the file has 12"},
      {with_field(idx, 42, std::int32_t{1}), bin, "bin-size bin 10", "accounts for 10 bytes, but the file has 12"},
      {idx, bin.substr(0, 11), "bin-size bin 11", "sequences 0 to 2 need 12 bytes, but the file has 11"},
      {idx, "", "bin-size bin 0", "sequences 0 to 0 need 6 bytes, but the file has 0"},
      {idx, bin + "x", "bin-size bin 12", "accounts for 12 bytes, but the file has 13"},
      {with_field(idx, 70, std::int64_t{1}), bin, "documents idx 70", "the document index begins with 1, not 0"},
      {with_field(idx, 86, std::int64_t{1}), bin, "documents idx 86", "document index 2 is 1, after 2 of 3 sequences"},
      {with_field(idx, 78, std::int64_t{-1}), bin, "documents idx 78", "document index 1 is -1"},
      {with_field(idx, 78, INT64_MIN), bin, "documents idx 78", "document index 1 is -9223372036854775808"},
      {with_field(idx, 86, std::int64_t{4}), bin, "documents idx 86", "document index 2 is 4, after 2 of 3"},
      {with_field(idx, 94, std::int64_t{2}), bin, "documents idx 94", "the last document ends at sequence 2 of 3"},
  };
  for (const Case& test : cases) {
    const std::string prefix = write_files(folder, test.idx, test.bin), message = open_error(prefix);
    CAPTURE(message);
    CHECK(violation_of(prefix) == test.violation);
    CHECK(message.find(test.message) != std::string::npos);
    CHECK(message.find(cat(" (byte ", split(test.violation, ' ').back(), ")")) != std::string::npos);
  }
  CHECK_THROWS_AS(IndexedDataset(folder.path + "absent"), Error);
}

namespace {

/// Files with ten thousand sequences, each two tokens long. Every fourth document has two sequences.
struct LongFiles {
  static constexpr std::int64_t kSequences = 10000;
  std::string idx, bin;
  std::int64_t documents = 0;

  explicit LongFiles(const Folder& folder) {
    IndexedDatasetWriter writer(folder.path + "long", DataType::u16);
    for (std::int64_t i = 0; i < kSequences; ++i) {
      writer.add_sequence(std::vector<std::int32_t>{1, 2});
      if (i % 5 != 3) writer.end_document();
    }
    documents = writer.documents();
    test::finish(writer);
    idx = read_file(folder.path + "long.idx");
    bin = read_file(folder.path + "long.bin");
  }
};

}  // namespace

TEST_CASE("a broken rule is found in every block of a long file, also at its edges") {
  Folder folder;
  {
    IndexedDatasetWriter writer(folder.path + "unequal", DataType::u16);
    for (std::int32_t i = 0; i < LongFiles::kSequences; ++i)
      writer.add_sequence(std::vector<std::int32_t>(static_cast<std::size_t>(1 + i % 7), i));
    writer.end_document();
    test::finish(writer);
    const IndexedDataset unequal(folder.path + "unequal");
    for (const std::int32_t i : {0, 4095, 4096, 9999})
      CHECK(read_sequence(unequal, i) == std::vector<std::int32_t>(static_cast<std::size_t>(1 + i % 7), i));
  }
  const LongFiles files(folder);
  const std::size_t pointers = 34 + 4 * LongFiles::kSequences, documents = pointers + 8 * LongFiles::kSequences;
  for (const std::size_t i : {0, 1, 4094, 4095, 4096, 4097, 8191, 8192, 9998, 9999}) {
    const auto violation = [&](const std::string& broken) {
      return violation_of(write_files(folder, broken, files.bin));
    };
    CHECK(violation(with_field(files.idx, 34 + 4 * i, std::int32_t{-1})) == cat("length idx ", 34 + 4 * i));
    CHECK(violation(with_field(files.idx, pointers + 8 * i, std::int64_t{-4})) ==
          cat("pointer idx ", pointers + 8 * i));
    const std::string shorter = with_field(files.idx, 34 + 4 * i, std::int32_t{1});
    CHECK(violation(shorter) ==
          (i == 9999 ? cat("bin-size bin ", files.bin.size() - 2) : cat("pointer idx ", pointers + 8 * (i + 1))));
  }
  REQUIRE(files.documents == 8000);
  for (const std::size_t i : {1, 4095, 4096, 4097, 7998}) {
    const auto violation = [&](std::int64_t value) {
      return violation_of(write_files(folder, with_field(files.idx, documents + 8 * i, value), files.bin));
    };
    CHECK(violation(-1) == cat("documents idx ", documents + 8 * i));
    CHECK(violation(10001) == cat("documents idx ", documents + 8 * i));
    CHECK(violation(10000) == cat("documents idx ", documents + 8 * (i + 1)));  // the next entry is less than this one
  }
  // The pointers are consistent with the lengths but point far beyond the end of the .bin.
  std::string hostile = files.idx;
  std::int64_t pointer = 0;
  for (std::size_t i = 0; i < LongFiles::kSequences; ++i) {
    hostile = with_field(std::move(hostile), 34 + 4 * i, INT32_MAX);
    hostile = with_field(std::move(hostile), pointers + 8 * i, pointer);
    pointer += std::int64_t{2} * INT32_MAX;
  }
  CHECK(violation_of(write_files(folder, hostile, files.bin)) == cat("bin-size bin ", files.bin.size()));
}

TEST_CASE("tokens of every type keep their sign") {
  Folder folder;
  for (const DataType type : {DataType::i8, DataType::i16, DataType::i32, DataType::i64}) {
    IndexedDatasetWriter writer(folder.path + "signed", type);
    writer.add_sequence(std::vector<std::int32_t>{-128, -1, 0, 1, 127});
    writer.end_document();
    test::finish(writer);
    CHECK(read_sequence(IndexedDataset(folder.path + "signed"), 0) == std::vector<std::int32_t>{-128, -1, 0, 1, 127});
  }
}

TEST_CASE("documents without tokens remain documents") {
  Folder folder;
  IndexedDatasetWriter writer(folder.path + "empty", DataType::u16);
  writer.end_document();
  writer.end_document();
  test::finish(writer);
  const IndexedDataset data(folder.path + "empty");
  CHECK(data.documents() == 2);
  CHECK(data.sequences() == 0);
  CHECK(data.tokens() == 0);
}

TEST_CASE("finishing with an unended document is an error") {
  Folder folder;
  IndexedDatasetWriter writer(folder.path + "open", DataType::u16);
  writer.add_sequence(std::vector<std::int32_t>{1});
  CHECK_THROWS_AS(test::finish(writer), Error);
}

TEST_CASE("an .idx with one mode per sequence is multimodal") {
  Folder folder;
  write_corpus(folder.path + "good", DataType::u16);
  const std::string modes(3, '\0');
  const IndexedDataset data(
      write_files(folder, read_file(folder.path + "good.idx") + modes, read_file(folder.path + "good.bin")));
  CHECK(data.is_multimodal());
  CHECK(data.modes().size() == 3);
  CHECK(read_sequence(data, 2) == std::vector<std::int32_t>{5, 127});
}

TEST_CASE("reading tokens from a data set of floats is refused") {
  Folder folder;
  write_corpus(folder.path + "good", DataType::i32);
  const std::string idx = with_field(read_file(folder.path + "good.idx"), 17, std::uint8_t{7});
  const IndexedDataset data(write_files(folder, idx, read_file(folder.path + "good.bin")));
  CHECK(test::contains(test::error_of([&] { read_sequence(data, 0); }, Exit::bad_data), "stores f32 values"));
}

TEST_CASE("truncated and bit-flipped files are refused or read safely") {
  Folder folder;
  const std::string idx = read_file("golden/gpt_dataset/items_pad_id.idx"),
                    bin = read_file("golden/gpt_dataset/items_pad_id.bin");
  std::mt19937 random(20260101);
  int accepted = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string broken = idx, tokens = bin;
    if (random() % 3 == 0) broken.resize(random() % broken.size());
    if (random() % 3 == 0) tokens.resize(random() % tokens.size());
    for (std::uint32_t flips = random() % 4; flips > 0 && !broken.empty(); --flips) {
      // Half of the flips hit the header, which is the most fragile part.
      const std::size_t range = random() % 2 == 0 ? std::min<std::size_t>(34, broken.size()) : broken.size();
      broken[random() % range] ^= static_cast<char>(1u << random() % 8);
    }
    try {
      const IndexedDataset data(write_files(folder, broken, tokens));
      ++accepted;
      for (std::int64_t i = 0; i < data.sequences(); ++i) read_sequence(data, i);
    } catch (const Error& error) {
      CHECK(error.code() == Exit::bad_data);
    }
  }
  CHECK(accepted > 0);
}
