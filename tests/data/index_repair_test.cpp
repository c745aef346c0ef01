// An .idx whose pointers wrapped around gets its pointers back from its lengths. Every other fault is refused.
#include "data/index_repair.h"

#include <doctest/doctest.h>

#include <array>
#include <cstring>

#include "tests/data/data_folder.h"
#include "tests/error_of.h"

using namespace mtl;

namespace {

constexpr std::size_t kPointers = 34 + 4 * 4, kDocumentIndices = kPointers + 8 * 4;
constexpr std::int64_t kWrap = std::int64_t{1} << 32;

/// Writes token files with four sequences in three documents, and returns the .idx.
std::string write_four(const std::string& prefix) {
  write_documents(prefix, DataType::i32, {{{1, 2, 3}, {4}}, {}, {{5, 6}, {7}}});
  return read_file(prefix + ".idx");
}

template <class T>
void put(std::string& idx, std::size_t byte, T value) {
  std::memcpy(idx.data() + byte, &value, sizeof value);
}

}  // namespace

TEST_CASE("repair: pointers that wrapped around are computed again, and nothing else changes") {
  Folder folder;
  const std::string prefix = folder.path + "four", sound = write_four(prefix);
  for (const std::int64_t wraps : {std::int64_t{-1}, std::int64_t{1}, INT64_MIN / kWrap, INT64_MAX / kWrap}) {
    std::string idx = sound;
    put(idx, kPointers + 16, 16 + wraps * kWrap);
    put(idx, kPointers + 24, 24 + wraps * kWrap);
    write_file_atomic(prefix + ".idx", idx);
    const std::string message = test::error_of([&] { IndexedDataset data(prefix); });
    CHECK(message.find("mtl-data repair --in-place " + prefix) != std::string::npos);
    CHECK(repair_index(prefix, folder.path + "other.idx").changed == 2);
    CHECK(read_file(folder.path + "other.idx") == sound);
    CHECK(read_file(prefix + ".idx") == idx);
    CHECK(repair_index(prefix, prefix + ".idx").changed == 2);
    CHECK(read_file(prefix + ".idx") == sound);
  }
  CHECK(repair_index(prefix, prefix + ".idx").changed == 0);
}

TEST_CASE("repair: modes stay") {
  Folder folder;
  const std::string prefix = folder.path + "modes", sound = write_four(prefix) + std::string("\1\0\1\2", 4);
  std::string idx = sound;
  put(idx, kPointers + 8, 12 - kWrap);
  write_file_atomic(prefix + ".idx", idx);
  CHECK(repair_index(prefix, prefix + ".idx").changed == 1);
  CHECK(read_file(prefix + ".idx") == sound);
}

TEST_CASE("repair: refuses files in which something else is wrong, and leaves them") {
  Folder folder;
  const std::string prefix = folder.path + "four", sound = write_four(prefix);
  std::string broken_pointer = sound;
  put(broken_pointer, kPointers + 16, 16 - kWrap);
  const auto expect_refused = [&](const std::string& idx, const char* rule) {
    CAPTURE(rule);
    write_file_atomic(prefix + ".idx", idx);
    try {
      repair_index(prefix, folder.path + "out.idx");
      FAIL("accepted");
    } catch (const BrokenRule& broken) {
      CHECK(broken.violation().rule == rule);
    }
    CHECK_FALSE(file_exists(folder.path + "out.idx"));
    // The advice for the wrong pointer is not to repair, because that would not work.
    CHECK(test::error_of([&] { IndexedDataset data(prefix); }).find("repair") == std::string::npos);
  };
  std::string idx = broken_pointer;
  put(idx, 34, std::int32_t{-3});
  expect_refused(idx, "length");
  put(idx, 34, INT32_MAX);
  expect_refused(idx, "bin-size");
  put(idx, 34, std::int32_t{2});
  expect_refused(idx, "pointer");
  idx = broken_pointer;
  put(idx, 34 + 12, std::int32_t{2});
  expect_refused(idx, "bin-size");
  // Lengths that account for the .bin may belong to other sequences.
  for (const std::string& from : {sound, broken_pointer}) {
    idx = from;
    put(idx, 34, std::int32_t{1});
    put(idx, 34 + 4, std::int32_t{3});
    expect_refused(idx, "pointer");
  }
  for (const std::int64_t wrong : {std::int64_t{0}, std::int64_t{-1}, 17 - kWrap, INT64_MIN, INT64_MAX}) {
    idx = sound;
    put(idx, kPointers + 16, wrong);
    expect_refused(idx, "pointer");
  }
  idx = broken_pointer;
  put(idx, kDocumentIndices + 8, std::int64_t{9});
  expect_refused(idx, "documents");
  idx = sound;  // sequences 1 and 3, with one token each, are exchanged in the .bin
  put(idx, kPointers + 8, std::int64_t{24});
  put(idx, kPointers + 24, std::int64_t{12});
  expect_refused(idx, "pointer");
  for (const int i : {0, 1, 2, 3}) put(idx, kPointers + 8 * i, std::array<std::int64_t, 4>{16, 4, 8, 0}[i]);
  expect_refused(idx, "pointer");
  expect_refused(broken_pointer.substr(0, 40), "counts");
  fs::resize_file(prefix + ".bin", 24);
  expect_refused(broken_pointer, "bin-size");
}
