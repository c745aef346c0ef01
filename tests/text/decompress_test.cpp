// Compressed input, recognized by its first bytes: complete, concatenated, truncated, damaged.
#include "text/decompress.h"

#include <doctest/doctest.h>
#include <zdict.h>
#include <zstd.h>

#include <map>
#include <random>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "tests/error_of.h"
#include "tests/lfs_pointer.h"
#include "tests/scratch_folder.h"
#include "tests/text/compressed.h"
#include "text/decoders.h"

using namespace mtl;
using namespace mtl::test;

namespace {

struct TempFile {
  test::ScratchFolder folder;
  std::string path = folder / "stored";
  std::string read(const std::string& content) {
    write_file_atomic(path, content);
    return read_all(path);
  }
};

/// Returns text that has repetitions and is larger than the buffers.
const std::string& sample_text() {
  static const std::string text = [] {
    std::mt19937 random(4);
    std::string out;
    while (out.size() < 3000000) out += cat("word", random() % 5000, random() % 9 == 0 ? "\n" : " ");
    return out;
  }();
  return text;
}

/// Returns sample_text() in a format. Compressing it takes longer than most tests do.
const std::string& stored_sample(const Format& format) {
  static std::map<std::string, std::string> stored;
  const auto [known, is_new] = stored.try_emplace(format.name);
  if (is_new) known->second = format.compress(sample_text());
  return known->second;
}

}  // namespace

TEST_CASE("decompress: uncompressed files, empty and short ones too, are read as they are") {
  TempFile file;
  for (const char* text : {"", "a", "ab\n", "abcdefgh"}) CHECK(file.read(text) == text);
  std::string text = sample_text();
  CHECK(file.read(text) == text);
  CHECK_THROWS_AS(read_all("no such file"), Error);
  CHECK_THROWS_AS(read_all("golden"), Error);
}

TEST_CASE("decompress: a file that shrinks while it is read is an error, one that grows is not") {
  TempFile file;
  const std::string line = "a line of forty bytes with its newline..\n";
  std::string text;
  while (text.size() < (20u << 20)) text += line;
  write_file_atomic(file.path, text);
  auto read_rest = [](ByteSource& source) {
    std::vector<char> buffer(1 << 20);
    std::size_t total = 0;
    while (std::size_t got = source.read(buffer.data(), buffer.size())) total += got;
    return total;
  };
  std::vector<char> first(1 << 20);
  auto source = open_input(file.path);
  std::size_t got = source->read(first.data(), first.size());
  fs::resize_file(file.path, text.size() - 1000 * line.size());
  CHECK_THROWS_WITH_AS(read_rest(*source),
                       doctest::Contains(cat("truncated while it was read, from ", text.size(), " to ",
                                             text.size() - 1000 * line.size(), " bytes")
                                             .c_str()),
                       Error);
  write_file_atomic(file.path, text);
  source = open_input(file.path);
  got = source->read(first.data(), first.size());
  fs::resize_file(file.path, text.size() + 1000);
  CHECK(got + read_rest(*source) == text.size() + 1000);
}

TEST_CASE("decompress: every format yields its text, concatenated files the joined texts") {
  TempFile file;
  const std::string& text = sample_text();
  for (const Format& format : kFormats) {
    CAPTURE(format.name);
    CHECK(file.read(stored_sample(format)) == text);
    CHECK(file.read(format.compress("")) == "");
    CHECK(file.read(format.compress("one ") + format.compress("") + stored_sample(format)) == "one " + text);
  }
  CHECK(file.read(gzip("a") + std::string(512, '\0')) == "a");  // padding, as in tape archives
  CHECK(file.read(xz("a") + std::string(8, '\0') + xz("b")) == "ab");
}

TEST_CASE("decompress: any number of threads yields the same bytes") {
  TempFile file;
  std::string text = sample_text();
  for (auto compress : {xz_blocks, zstd_frames}) {
    write_file_atomic(file.path, compress(text) + compress("end"));
    for (int threads : {1, 2, 5}) {
      auto source = open_input(file.path, threads);
      std::string got, buffer(77777, '\0');
      while (std::size_t count = source->read(buffer.data(), buffer.size())) got.append(buffer, 0, count);
      CHECK(got == text + "end");
    }
  }
}

TEST_CASE("decompress: trailing data is refused") {
  TempFile file;
  for (const Format& format : kFormats) {
    CAPTURE(format.name);
    std::string whole = format.compress("text");
    std::string message = cat("data ends at byte ", whole.size(), ", but other data follows");
    for (const char* rest : {"x", "xyz", "{\"text\": \"plain text\"}\n"}) {
      CHECK_THROWS_WITH_AS(file.read(whole + rest), doctest::Contains(message.c_str()), Error);
    }
  }
  // The advice works: what it keeps can be read.
  for (const std::string& whole : {xz("a") + std::string(3, '\0'), xz("a") + std::string(4, '\0') + "x"}) {
    const std::string advice = cat("head -c ", xz("a").size(), " ");
    CHECK_THROWS_WITH_AS(file.read(whole), doctest::Contains(advice.c_str()), Error);
  }
  CHECK(file.read(xz("a")) == "a");
}

TEST_CASE("decompress: a read of 0 bytes returns at once, and one of more than 4 GiB is read in parts") {
  const std::string text = sample_text().substr(0, 100000);
  TempFile file;
  const auto expect = [&](const std::string& stored) {
    write_file_atomic(file.path, stored);
    auto source = open_input(file.path, 1);
    std::string buffer(text.size() + 1, '\0');
    CHECK(source->read(buffer.data(), 0) == 0);
    std::size_t size = 0;
    // The size is not true, but no source writes more than it has.
    while (const std::size_t got = source->read(buffer.data() + size, (std::size_t{1} << 32) + 1)) size += got;
    CHECK(buffer.substr(0, size) == text);
  };
  expect(text);
  for (const Format& format : kFormats) {
    CAPTURE(format.name);
    expect(format.compress(text));
    // Without the thread that reads ahead.
    write_file_atomic(file.path, format.compress(text));
    auto stored = std::make_unique<StoredFile>(file.path);
    stored->fill_to(6);
    const std::string_view head = stored->available();
    auto source = begins_gzip(head) ? make_gzip_source(std::move(stored))
                  : begins_xz(head) ? make_xz_source(std::move(stored), 1)
                                    : make_zstd_source(std::move(stored), 1);
    CHECK(source->read(nullptr, 0) == 0);
    char first;
    CHECK(source->read(&first, 1) == 1);
    CHECK(first == text[0]);
  }
}

TEST_CASE("decompress: other formats are refused by name, with what to do") {
  TempFile file;
  const auto refusal = [&](const std::string& content) {
    const std::string message = test::error_of([&] { file.read(content); }, Exit::bad_data);
    CHECK(starts_with(message, file.path));
    return message;
  };
  struct Case {
    std::string content;
    const char *what, *remedy;
  };
  const Case cases[] = {
      {"BZh91AY&SY\x01\x02", "bzip2", "bzip2 -dc"},
      {std::string("\x5D\0\0\x80\0", 5), "lzma", "--format=lzma"},
      {"PK\x03\x04....", "zip", "unzip -p"},
      {std::string("\xFF\xFE{\0", 4), "UTF-16", "iconv -f UTF-16"},
      {std::string("{\0\"\0a\0", 6), "UTF-16", "iconv -f UTF-16LE"},
      {std::string("\0{\0\"\0a", 6), "UTF-16", "iconv -f UTF-16BE"},
      {std::string("\xFF\xFE\0\0{\0\0\0", 8), "UTF-32", "iconv -f UTF-32"},
      {"\xEF\xBB\xBF{\"text\": \"a\"}\n", "byte order mark", "tail -c +4"},
      {cat("data.jsonl", std::string(247, '\0'), "ustar  ", std::string(248, '\0'), "{}\n"), "tar", "tar -xO"},
      {"PAR1\x15\x04\x15\x10", "Parquet", "ParquetFile('FILE')"},
      {std::string("ARROW1\0\0", 8), "Arrow", "open_file"},
      {std::string("\xFF\xFF\xFF\xFF\x10\0\0\0", 8), "Arrow stream", "open_stream"},
      {std::string("FEA1\0\0\0\0", 8), "Feather file of version 1", "read_table('FILE')"},
      {"\x93NUMPY\x01", "NumPy", "mtl-data import"},
      {std::string("MMIDIDX\0\0", 9), ".idx", "--data-path"},
  };
  for (const auto& [content, what, remedy] : cases) {
    CAPTURE(what);
    CHECK(test::contains(refusal(content), what));
    CHECK(test::contains(refusal(content), remedy));
    for (const Format& format : kFormats) {  // also inside compressed files
      const std::string message = refusal(format.compress(content));
      CHECK(test::contains(message, what));
      CHECK(test::contains(message, "decompress"));
      CHECK(test::contains(message, remedy));
    }
  }
  for (const Format& outer : kFormats) {
    for (const Format& inner : kFormats) CHECK(test::contains(refusal(outer.compress(inner.compress("x"))), "twice"));
  }
  CHECK(file.read("BZh is not magic") == "BZh is not magic");
  CHECK(file.read("PARIS") == "PARIS");
}

TEST_CASE("decompress: a zstd dictionary is named") {
  TempFile file;
  std::string samples, content;
  std::vector<std::size_t> sizes;
  for (int i = 0; i < 2000; ++i) {
    const std::string sample = cat("{\"text\": \"sample number ", i * i, " of a dictionary\"}\n");
    samples += sample;
    sizes.push_back(sample.size());
    content += sample;
  }
  std::string dictionary(4096, '\0');
  dictionary.resize(ZDICT_trainFromBuffer(dictionary.data(), dictionary.size(), samples.data(), sizes.data(), 2000));
  const unsigned id = ZSTD_getDictID_fromDict(dictionary.data(), dictionary.size());
  REQUIRE(id != 0);
  for (const std::size_t bytes : {content.size() / 100, content.size()}) {
    ZSTD_CCtx* context = ZSTD_createCCtx();
    std::string stored(ZSTD_compressBound(bytes), '\0');
    stored.resize(ZSTD_compress_usingDict(context, stored.data(), stored.size(), content.data(), bytes,
                                          dictionary.data(), dictionary.size(), 3));
    ZSTD_freeCCtx(context);
    for (const std::string& whole : {stored, zstd("first") + stored}) {
      CHECK_THROWS_WITH_AS(file.read(whole), doctest::Contains(cat("dictionary ", id).c_str()), Error);
      CHECK_THROWS_WITH_AS(file.read(whole), doctest::Contains("zstd -dc -D"), Error);
    }
  }
}

TEST_CASE("decompress: a small file that requests a large window is refused before it is allocated") {
  TempFile file;
  // Magic, a descriptor without content size, a 2^31-byte window, one raw one-byte block.
  std::string window(
      "\x28\xB5\x2F\xFD\x00\xA8\x09\x00\x00"
      "a",
      10);
  CHECK_THROWS_WITH_AS(file.read(window), doctest::Contains("more than 1024 MiB to decompress"), Error);
  // A frame that declares 16 MiB but contains one byte.
  std::string short_content(
      "\x28\xB5\x2F\xFD\xA0\x00\x00\x00\x01\x09\x00\x00"
      "a",
      13);
  CHECK_THROWS_WITH_AS(file.read(short_content), doctest::Contains("the zstd data is damaged"), Error);
}

TEST_CASE("decompress: zstd frames without content do not accumulate") {
  TempFile file;
  std::string stored = zstd("first");
  for (const std::string& frame :
       {cat("\x50\x2A\x4D\x18", std::string("\0\0\x01\0", 4), std::string(1 << 16, 's')), zstd("")}) {
    while (stored.size() % (8 << 20) < (7 << 20)) stored += frame;
    stored += zstd("next");
  }
  write_file_atomic(file.path, stored);
  auto source = make_zstd_source(std::make_unique<StoredFile>(file.path), 1);
  std::string content(10, '\0');
  CHECK(source->read(content.data(), content.size()) == 5);
  CHECK(source->stored().bytes < 3 << 20);
  std::string rest;
  while (std::size_t got = source->read(content.data(), content.size())) rest += content.substr(0, got);
  CHECK(rest == "nextnext");
  CHECK(source->stored().bytes == stored.size());
}

TEST_CASE("decompress: errors of truncated and damaged files name the file") {
  TempFile file;
  for (const Format& format : kFormats) {
    CAPTURE(format.name);
    const std::string& whole = stored_sample(format);
    for (std::size_t keep : {std::size_t{7}, std::size_t{20}, whole.size() / 2, whole.size() - 1}) {
      CAPTURE(keep);
      CHECK_THROWS_WITH_AS(file.read(whole.substr(0, keep)), doctest::Contains("truncated"), Error);
    }
    std::string damaged = whole;
    damaged[whole.size() / 2] = static_cast<char>(damaged[whole.size() / 2] ^ 0x55);
    damaged[whole.size() / 2 + 1] = static_cast<char>(damaged[whole.size() / 2 + 1] ^ 0x55);
    CHECK_THROWS_WITH_AS(file.read(damaged), doctest::Contains(file.path.c_str()), Error);
    CHECK_THROWS_AS(file.read(whole + "garbage"), Error);
  }
}

TEST_CASE("decompress: size and hash of the stored file are known at its end") {
  TempFile file;
  std::string stored = zstd(sample_text());
  write_file_atomic(file.path, stored);
  auto source = open_input(file.path);
  std::string buffer(100000, '\0');
  while (source->read(buffer.data(), buffer.size()) > 0) {
  }
  CHECK(source->read(buffer.data(), buffer.size()) == 0);
  CHECK(source->stored().bytes == stored.size());
  CHECK(source->stored().hash == hash_file(file.path));
}

TEST_CASE("decompress: zstd frames with a window between two powers of two") {
  TempFile file;
  std::string stored = zstd_unsized(sample_text());
  for (int window : {0x88, 0x89, 0x8F, 0x90, 0x91}) {  // 128, 144, 240, 256 and 288 MiB
    CAPTURE(window);
    stored[5] = static_cast<char>(window);
    CHECK(file.read(stored) == sample_text());
  }
}

TEST_CASE("decompress: a source may be abandoned before its end") {
  TempFile file;
  write_file_atomic(file.path, zstd(std::string(64 << 20, 'a')));
  char byte = 0;
  CHECK(open_input(file.path)->read(&byte, 1) == 1);
  CHECK(byte == 'a');
}

TEST_CASE("decompress: a Git LFS pointer in place of a file is named") {
  TempFile file;
  const std::string message = test::error_of([&] { file.read(test::lfs_pointer(77)); }, Exit::bad_data);
  CHECK(test::contains(message, file.path));
  CHECK(test::contains(message, "git lfs pull"));
  CHECK(test::contains(test::error_of([&] { file.read(gzip(test::lfs_pointer(77))); }, Exit::bad_data),
                       "the decompressed content is a Git LFS pointer"));
}
