// Archives and torch files: what the writers write, the readers can read.
#include "formats/zip_writer.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "base/crc32.h"
#include "formats/torch_file.h"
#include "formats/torch_writer.h"
#include "formats/zip_archive.h"
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

TEST_CASE("one number changed in a zip archive is refused for the right reason, or read") {
  const test::ScratchFolder folder;
  /// An archive, and where its records are.
  struct Archive {
    std::string bytes;
    std::size_t second, entry, second_entry, end;  // local header, directory entries, end record
    std::size_t end64 = 0, locator = 0;
    void put(std::size_t at, std::uint64_t value, int size) {
      for (int i = 0; i < size; ++i) bytes.at(at + i) = static_cast<char>(value >> 8 * i);
    }
    std::uint64_t get(std::size_t at) const { return static_cast<unsigned char>(bytes.at(at)); }
    void name(const std::string& text) {  // of the first entry
      for (const std::size_t at : {std::size_t{30}, entry + 46}) bytes.replace(at, 5, text);
    }
  };
  const auto made = [&](std::uint64_t zip64_from) {
    {
      OutputFile out(folder / "a.zip");
      ZipWriter zip(out, zip64_from);
      zip.add("one/a", "0123"), zip.add("one/b", "4567");
      zip.finish();
      out.close();
    }
    Archive out{.bytes = read_file(folder / "a.zip"), .second = 0, .entry = 0, .second_entry = 0, .end = 0};
    out.second = out.bytes.find("PK\3\4", 1), out.entry = out.bytes.find("PK\1\2");
    out.second_entry = out.bytes.find("PK\1\2", out.entry + 1), out.end = out.bytes.find("PK\5\6");
    out.end64 = out.bytes.find("PK\6\6"), out.locator = out.bytes.find("PK\6\7");
    return out;
  };
  struct Case {
    const char* message;  // "" if the archive is read
    std::function<void(Archive&)> change;
    bool is_64 = false;
  };
  const Case cases[] = {
      {"", [](Archive&) {}},
      {"", [](Archive&) {}, true},
      {"", [](Archive& a) { a.put(a.end + 20, 3, 2), a.bytes += "abc"; }},
      {"", [](Archive& a) { a.put(a.end + 20, 0xFFFF, 2), a.bytes += std::string(0xFFFF, 'x'); }},
      {"", [](Archive& a) { a.put(a.end + 20, 26, 2), a.bytes += "PK\5\6" + std::string(22, '\1'); }},
      {"the end record is missing", [](Archive& a) { a.bytes += "abc"; }},
      {"the end record is missing", [](Archive& a) { a.bytes.resize(21); }},
      {"is one part of several", [](Archive& a) { a.put(a.end + 4, 1, 2); }},
      {"is one part of several", [](Archive& a) { a.put(a.end + 6, 1, 2); }},
      {"does not end at the end record", [](Archive& a) { a.put(a.end + 16, a.end + 1, 4); }},
      {"does not end at the end record", [](Archive& a) { a.put(a.end + 16, a.entry + 1, 4); }},
      {"does not end at the end record", [](Archive& a) { a.put(a.end + 12, a.end - a.entry + 1, 4); }},
      {"bytes is too short for 3 entries", [](Archive& a) { a.put(a.end + 10, 3, 2); }},
      {"the directory has bytes after its last entry", [](Archive& a) { a.put(a.end + 10, 1, 2); }},
      {"the directory has no entry at offset", [](Archive& a) { a.put(a.second_entry, 0, 1); }},
      {"entry 'one/a' is encrypted", [](Archive& a) { a.put(a.entry + 8, 1, 1); }},
      {"", [](Archive& a) { a.put(a.entry + 8, 2, 1); }},
      {"entry 'one/b' is compressed", [](Archive& a) { a.put(a.second_entry + 10, 8, 1); }},
      {"has 5 stored bytes, but unpacked it has 4", [](Archive& a) { a.put(a.entry + 20, 5, 1); }},
      {"is not before the directory", [](Archive& a) { a.put(a.entry + 42, a.entry, 4); }},
      {"'one/a' is not at offset 1", [](Archive& a) { a.put(a.entry + 42, 1, 1); }},
      {"'one/a' has another name in its header", [](Archive& a) { a.put(a.entry + 42, a.second, 4); }},
      {"'one/b' of 5 bytes reaches into the directory",
       [](Archive& a) { a.put(a.second_entry + 20, 5, 1), a.put(a.second_entry + 24, 5, 1); }},
      {"reaches into the directory", [](Archive& a) { a.put(a.second + 28, 0xFFFF, 2); }},
      {"two entries are named 'one/b'", [](Archive& a) { a.name("one/b"); }},
      {"two entries overlap at offset", [](Archive& a) { a.put(a.entry + 20, 65, 1), a.put(a.entry + 24, 65, 1); }},
      {"an entry is named 'one\\a'", [](Archive& a) { a.name("one\\a"); }},
      {"an entry is named", [](Archive& a) { a.name(std::string("one/\0", 5)); }},
      {"an entry is named '/onea'", [](Archive& a) { a.name("/onea"); }},
      {"an entry is named 'on//a'", [](Archive& a) { a.name("on//a"); }},
      {"an entry is named 'onea/'", [](Archive& a) { a.name("onea/"); }},
      {"an entry is named 'on/./'", [](Archive& a) { a.name("on/./"); }},
      {"an entry is named 'o/./a'", [](Archive& a) { a.name("o/./a"); }},
      {"an entry is named '../aa'", [](Archive& a) { a.name("../aa"); }},
      {"", [](Archive& a) { a.name("..one"); }},
      {"the zip64 end record is not at offset", [](Archive& a) { a.put(a.locator + 8, a.end + 1, 8); }, true},
      {"the zip64 end record is not at offset", [](Archive& a) { a.put(a.locator + 8, a.locator, 8); }, true},
      {"the zip64 end record is not at offset", [](Archive& a) { a.put(a.locator + 8, a.end64 - 1, 8); }, true},
      {"does not end at the end record", [](Archive& a) { a.put(a.end64 + 48, a.entry + 1, 8); }, true},
      {"does not end at the end record", [](Archive& a) { a.put(a.end64 + 40, 1, 8); }, true},
      {"entries", [](Archive& a) { a.put(a.end64 + 32, 99, 8); }, true},
      {"is longer than its entry", [](Archive& a) { a.put(a.second_entry + 46 + 5 + 2, 200, 1); }, true},
      {"is too short", [](Archive& a) { a.put(a.second_entry + 46 + 5 + 2, 4, 1); }, true},
  };
  for (const Case& one : cases) {
    CAPTURE(std::string(one.message));
    Archive archive = made(one.is_64 ? 1 : ZipWriter::kBeyond32);
    one.change(archive);
    const std::string error = test::error_of(
        [&] {
          const ZipArchive zip(std::as_bytes(std::span(archive.bytes)));
          CHECK(zip.entries().size() == 2);
          CHECK(std::memcmp(zip.find("one/b")->data.data(), "4567", 4) == 0);
        },
        Exit::bad_data);
    CAPTURE(error);
    CHECK((*one.message == '\0' ? error.empty() : test::contains(error, one.message)));
  }
}
