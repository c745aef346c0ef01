#include "data/indexed_dataset.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "base/error.h"

using namespace mtl;

namespace {

/// A folder of this test's own.
struct Folder {
  Folder() : path(cat("/tmp/mtl_data_test.", getpid(), "/")) { make_directories(path); }
  ~Folder() { remove_tree(path); }
  std::string path;
};

std::vector<std::int32_t> read_sequence(const IndexedDataset& data, std::int64_t sequence) {
  std::vector<std::int32_t> out(static_cast<std::size_t>(data.lengths()[sequence]));
  data.read(sequence, 0, out);
  return out;
}

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
  writer.finish();
}

}  // namespace

TEST_CASE("what is written is read again, in every integer type") {
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
  }
}

TEST_CASE("an id that does not fit is an error and leaves no file") {
  Folder folder;
  const std::string prefix = folder.path + "narrow";
  {
    IndexedDatasetWriter writer(prefix, DataType::u16);
    CHECK_THROWS_AS(writer.add_sequence(std::vector<std::int32_t>{65536}), Error);
    CHECK_THROWS_AS(writer.add_sequence(std::vector<std::int32_t>{-1}), Error);
  }
  CHECK(std::filesystem::is_empty(folder.path));
}

TEST_CASE("Megatron-LM's files are written again byte for byte") {
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
    writer.finish();
    for (const char* ending : {".bin", ".idx"}) CHECK(read_file(copy + ending) == read_file(original + ending));
  }
}

namespace {

/// Two files with this content; returns their prefix.
std::string put(const Folder& folder, std::string_view idx, std::string_view bin) {
  const std::string prefix = folder.path + "hostile";
  std::ofstream(prefix + ".idx", std::ios::binary) << idx;
  std::ofstream(prefix + ".bin", std::ios::binary) << bin;
  return prefix;
}

/// What opening the files says, "" when they are good.
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

}  // namespace

TEST_CASE("every broken rule of the format has its message") {
  Folder folder;
  write_corpus(folder.path + "good", DataType::u16);
  const std::string idx = read_file(folder.path + "good.idx"), bin = read_file(folder.path + "good.bin");
  REQUIRE(idx.size() == 34 + 3 * 12 + 4 * 8);
  const auto message = [&](const std::string& broken) { return open_error(put(folder, broken, bin)); };
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  CHECK(message(idx) == "");
  CHECK(has(message(idx.substr(0, 20)), "the header needs 34 bytes, the file has 20"));
  CHECK(has(message(std::string("TNTIDX\0\0", 8) + idx), "make it again from its text with mtl-preprocess"));
  CHECK(has(message("X" + idx.substr(1)), "does not begin with MMIDIDX"));
  CHECK(has(message(with_field(idx, 9, std::uint64_t{2})), "version 2"));
  CHECK(has(message(with_field(idx, 17, std::uint8_t{9})), "type code 9"));
  CHECK(has(message(with_field(idx, 18, std::uint64_t{812})), "sequence_count 812 needs 9,744 bytes"));
  CHECK(has(message(with_field(idx, 18, ~std::uint64_t{0})), "more than 2^56"));
  CHECK(has(message(with_field(idx, 26, std::uint64_t{0})), "document_count is 0"));
  CHECK(has(message(with_field(idx, 26, std::uint64_t{5})), "sequence_count 3 and document_count 5 need 76 bytes"));
  CHECK(has(message(idx + "12"), "2 bytes follow the last document index"));
  CHECK(has(message(with_field(idx, 34, std::int32_t{-3})), "sequence 0 has length -3"));
  CHECK(has(message(with_field(idx, 34, std::int32_t{2})), "sequence 1 should begin at byte 4 of the .bin, not at 6"));
  CHECK(has(message(with_field(idx, 70, std::int64_t{1})), "document index 0 is 1"));
  CHECK(has(message(with_field(idx, 86, std::int64_t{1})), "document index 2 is 1, after 2"));
  CHECK(has(message(with_field(idx, 94, std::int64_t{2})), "the last document ends at sequence 2 of 3"));
  CHECK(has(open_error(put(folder, idx, bin.substr(0, 11))), "sequences 0 to 2 need 12 bytes, the file has 11"));
  CHECK(has(open_error(put(folder, idx, bin + "x")), "accounts for 12 bytes, the file has 13"));
  CHECK_THROWS_AS(IndexedDataset(folder.path + "absent"), Error);
}

TEST_CASE("documents without a single token are still documents") {
  Folder folder;
  IndexedDatasetWriter writer(folder.path + "empty", DataType::u16);
  writer.end_document();
  writer.end_document();
  writer.finish();
  const IndexedDataset data(folder.path + "empty");
  CHECK(data.documents() == 2);
  CHECK(data.sequences() == 0);
  CHECK(data.tokens() == 0);
}

TEST_CASE("a document that was not ended is a mistake") {
  Folder folder;
  IndexedDatasetWriter writer(folder.path + "open", DataType::u16);
  writer.add_sequence(std::vector<std::int32_t>{1});
  CHECK_THROWS_AS(writer.finish(), Error);
}

TEST_CASE("a mode per sequence marks multimodal data") {
  Folder folder;
  write_corpus(folder.path + "good", DataType::u16);
  const std::string modes(3, '\0');
  const IndexedDataset data(
      put(folder, read_file(folder.path + "good.idx") + modes, read_file(folder.path + "good.bin")));
  CHECK(data.is_multimodal());
  CHECK(read_sequence(data, 2) == std::vector<std::int32_t>{5, 127});
}

TEST_CASE("floats are no token ids") {
  Folder folder;
  write_corpus(folder.path + "good", DataType::i32);
  const std::string idx = with_field(read_file(folder.path + "good.idx"), 17, std::uint8_t{7});
  const IndexedDataset data(put(folder, idx, read_file(folder.path + "good.bin")));
  CHECK_THROWS_AS(read_sequence(data, 0), Error);
}

TEST_CASE("cut and flipped files are refused, or read without harm") {
  Folder folder;
  const std::string idx = read_file("golden/gpt_dataset/items_pad_id.idx"),
                    bin = read_file("golden/gpt_dataset/items_pad_id.bin");
  std::mt19937 random(20260101);
  int good = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string broken = idx, tokens = bin;
    if (random() % 3 == 0) broken.resize(random() % broken.size());
    if (random() % 3 == 0) tokens.resize(random() % tokens.size());
    for (std::uint32_t flips = random() % 4; flips > 0 && !broken.empty(); --flips) {
      // Half of the flips meet the header, where most harm can be done.
      const std::size_t range = random() % 2 == 0 ? std::min<std::size_t>(34, broken.size()) : broken.size();
      broken[random() % range] ^= static_cast<char>(1u << random() % 8);
    }
    try {
      const IndexedDataset data(put(folder, broken, tokens));
      ++good;
      for (std::int64_t i = 0; i < data.sequences(); ++i) read_sequence(data, i);
    } catch (const Error& error) {
      CHECK(error.code() == Exit::bad_data);
    }
  }
  CHECK(good > 0);
}
