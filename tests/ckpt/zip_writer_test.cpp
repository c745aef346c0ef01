// Archives and torch files: what the writers write, the readers can read.
#include "ckpt/zip_writer.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "base/crc32.h"
#include "ckpt/torch_file.h"
#include "ckpt/torch_writer.h"
#include "ckpt/zip_archive.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

using namespace mtl;

TEST_CASE("entries of a zip archive begin at multiples of 64 bytes and read back unchanged") {
  std::vector<std::string> contents;
  for (std::size_t i = 0; i < 70; ++i) contents.push_back(std::string(i * i, static_cast<char>(i)));
  // At 1000, large entries, late offsets and the end record have zip64 fields.
  for (std::uint64_t zip64_from : {ZipWriter::kBeyond32, std::uint64_t{1000}}) {
    CAPTURE(zip64_from);
    const test::ScratchFolder folder;
    const std::string path = folder / "a.zip";
    {
      OutputFile out(path);
      ZipWriter zip(out, zip64_from);
      for (std::size_t i = 0; i < contents.size(); ++i) zip.add(cat(std::string(i + 1, 'n'), i), contents[i]);
      zip.finish();
      out.close();
    }
    const std::string bytes = read_file(path);
    CHECK((bytes.find("PK\6\6") != std::string::npos) == (zip64_from == 1000));
    const ZipArchive archive(std::as_bytes(std::span(bytes)));
    REQUIRE(archive.entries().size() == contents.size());
    for (std::size_t i = 0; i < contents.size(); ++i) {
      const ZipEntry* entry = archive.find(cat(std::string(i + 1, 'n'), i));
      REQUIRE(entry != nullptr);
      const auto* begin = reinterpret_cast<const char*>(entry->data.data());
      CHECK((begin - bytes.data()) % 64 == 0);
      CHECK(std::string(begin, entry->data.size()) == contents[i]);
      CHECK_NOTHROW(check_crc(*entry));
    }
  }
}

TEST_CASE("entries of a zip archive may have comments") {
  const test::ScratchFolder folder;
  {
    OutputFile out(folder / "a.zip");
    ZipWriter zip(out);
    zip.add("a", "first");
    zip.add("b", "second");
    zip.finish();
    out.close();
  }
  // A directory entry's comment follows its name and its extra field. The end record has the directory's size.
  std::string bytes = read_file(folder / "a.zip");
  const std::size_t entry = bytes.find("PK\1\2"), end = bytes.find("PK\5\6");
  bytes[end + 12] = static_cast<char>(bytes[end + 12] + 3);
  bytes[entry + 32] = 3;
  bytes.insert(bytes.find("PK\1\2", entry + 1), "why");
  const ZipArchive archive(std::as_bytes(std::span(bytes)));
  REQUIRE(archive.find("b") != nullptr);
  CHECK(archive.find("b")->data.size() == std::string_view("second").size());
}

TEST_CASE("a CRC-32 that is computed in parts rejects what differs, whenever all data was read") {
  const std::string text = "the data of an entry";
  const std::span<const std::byte> data = std::as_bytes(std::span(text));
  const std::uint32_t crc = crc32(data);
  for (const std::size_t part : {std::size_t{1}, std::size_t{7}, data.size()}) {
    const ZipEntry good{.name = "a", .data = data, .crc32 = crc};
    const ZipEntry bad{.name = "b", .data = data, .crc32 = crc ^ 1};
    const ZipEntry without{.name = "c", .data = data, .crc32 = 0};
    for (std::size_t end = part; end < data.size(); end += part) {
      for (const ZipEntry* entry : {&good, &bad, &without}) CHECK_NOTHROW(check_crc_until(*entry, end));
    }
    CHECK_NOTHROW(check_crc_until(bad, 1));  // as read before
    CHECK_NOTHROW(check_crc(good));
    CHECK_NOTHROW(check_crc(good));
    CHECK_NOTHROW(check_crc(without));
    for (int i = 0; i < 2; ++i)
      CHECK(test::error_of([&] { check_crc(bad); }, Exit::bad_data).find("'b' does not match its CRC-32") !=
            std::string::npos);
  }
}

TEST_CASE("values and tensors of a torch file read back unchanged") {
  const test::ScratchFolder folder;
  const std::string path = folder / "a.pt";
  const std::vector<float> elements = {1, -2, 3.5f, 0, INFINITY, 6};
  {
    OutputFile out(path);
    TorchWriter writer(out, "a");
    PickleWriter& pickle = writer.pickle();
    pickle.begin_dict();
    pickle.text("weight"), writer.tensor(StoredDType::f32, {2, 3});
    pickle.text("large"), pickle.integer(INT64_MIN);
    pickle.text("small"), pickle.integer(-7);
    pickle.text("pi"), pickle.number(3.140625);
    pickle.text("yes"), pickle.boolean(true);
    pickle.text("nothing"), pickle.none();
    pickle.end_dict();
    CHECK_FALSE(test::error_of([&] { writer.write_data(std::as_bytes(std::span(elements).first(5))); }).empty());
    writer.write_data(std::as_bytes(std::span(elements)));
    writer.finish();
    out.close();
  }
  const TorchFile file(path);
  CHECK_NOTHROW(file.verify());
  REQUIRE(file.find("weight") != nullptr);
  CHECK(file.find("weight")->shape == std::vector<std::uint64_t>{2, 3});
  const std::span<const std::byte> data = file.data(*file.find("weight"));
  CHECK(data.size() == elements.size() * sizeof(float));
  CHECK(std::memcmp(data.data(), elements.data(), data.size()) == 0);
  const PickleValue root = file.root();
  CHECK(root.find("large")->as_int() == INT64_MIN);
  CHECK(root.find("small")->as_int() == -7);
  CHECK(root.find("pi")->as_number() == 3.140625);
  CHECK(root.find("yes")->as_bool());
  CHECK(root.find("nothing")->is(PickleKind::none));
}
