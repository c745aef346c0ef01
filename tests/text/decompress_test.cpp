// Compressed input by its first bytes: whole, in several parts, cut short, damaged. The encoders are the libraries'
// own.
#include "text/decompress.h"

#include <doctest/doctest.h>
#include <lzma.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <functional>
#include <random>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"

using namespace mtl;

namespace {

std::string gzip(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string xz(const std::string& text) {
  std::string out(lzma_stream_buffer_bound(text.size()), '\0');
  std::size_t used = 0;
  REQUIRE(lzma_easy_buffer_encode(3, LZMA_CHECK_CRC64, nullptr, reinterpret_cast<const std::uint8_t*>(text.data()),
                                  text.size(), reinterpret_cast<std::uint8_t*>(out.data()), &used,
                                  out.size()) == LZMA_OK);
  out.resize(used);
  return out;
}

std::string zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

struct Format {
  const char* name;
  std::function<std::string(const std::string&)> compress;
};
const Format kFormats[] = {{"gzip", gzip}, {"xz", xz}, {"zstd", zstd}};

struct TempFile {
  std::string path = fs::temp_directory_path() / cat("mtl_decompress_", ::getpid());
  ~TempFile() { fs::remove(path); }
  std::string read(const std::string& content) {
    write_file_atomic(path, content);
    return read_all(path);
  }
};

/// Text with repeats, larger than the buffers.
std::string sample_text() {
  std::mt19937 random(4);
  std::string out;
  while (out.size() < 3000000) out += cat("word", random() % 5000, random() % 9 == 0 ? "\n" : " ");
  return out;
}

}  // namespace

TEST_CASE("decompress: plain, empty and short files") {
  TempFile file;
  for (const char* text : {"", "a", "ab\n", "abcdefgh"}) CHECK(file.read(text) == text);
  std::string text = sample_text();
  CHECK(file.read(text) == text);
  CHECK_THROWS_AS(read_all("no such file"), Error);
  CHECK_THROWS_AS(read_all("golden"), Error);
}

TEST_CASE("decompress: whole files, and several parts in one") {
  TempFile file;
  std::string text = sample_text();
  for (const Format& format : kFormats) {
    CAPTURE(format.name);
    CHECK(file.read(format.compress(text)) == text);
    CHECK(file.read(format.compress("")) == "");
    CHECK(file.read(format.compress("one ") + format.compress("") + format.compress(text)) == "one " + text);
  }
  CHECK(file.read(gzip("a") + std::string(512, '\0')) == "a");  // padding, as tape archives have
}

TEST_CASE("decompress: truncated and damaged files name the file") {
  TempFile file;
  std::string text = sample_text();
  for (const Format& format : kFormats) {
    CAPTURE(format.name);
    std::string whole = format.compress(text);
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

TEST_CASE("decompress: what a file is, as stored, is known at its end") {
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

TEST_CASE("decompress: a source may be left before its end") {
  TempFile file;
  write_file_atomic(file.path, zstd(std::string(64 << 20, 'a')));
  char byte = 0;
  CHECK(open_input(file.path)->read(&byte, 1) == 1);
  CHECK(byte == 'a');
}
