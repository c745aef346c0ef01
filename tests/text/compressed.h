// Texts as the compression libraries store them, in every form that they have.
#pragma once

#include <doctest/doctest.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <cstdint>
#include <functional>
#include <string>

namespace mtl::test {

inline std::string gzip(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);  // + 16: a gzip header
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

inline std::string xz(const std::string& text) {
  std::string out(lzma_stream_buffer_bound(text.size()), '\0');
  std::size_t used = 0;
  REQUIRE(lzma_easy_buffer_encode(0, LZMA_CHECK_CRC64, nullptr, reinterpret_cast<const std::uint8_t*>(text.data()),
                                  text.size(), reinterpret_cast<std::uint8_t*>(out.data()), &used,
                                  out.size()) == LZMA_OK);
  out.resize(used);
  return out;
}

/// Compresses in 64 KiB blocks, like `xz -T --block-size`.
inline std::string xz_blocks(const std::string& text) {
  lzma_mt options{};
  options.threads = 2;
  options.block_size = 1 << 16;
  options.preset = 0;
  options.check = LZMA_CHECK_CRC64;
  lzma_stream stream = LZMA_STREAM_INIT;
  REQUIRE(lzma_stream_encoder_mt(&stream, &options) == LZMA_OK);
  std::string out(text.size() + (1 << 20), '\0');
  stream.next_in = reinterpret_cast<const std::uint8_t*>(text.data());
  stream.avail_in = text.size();
  stream.next_out = reinterpret_cast<std::uint8_t*>(out.data());
  stream.avail_out = out.size();
  lzma_ret status;
  while ((status = lzma_code(&stream, LZMA_FINISH)) == LZMA_OK) {
  }
  REQUIRE(status == LZMA_STREAM_END);
  out.resize(stream.total_out);
  lzma_end(&stream);
  return out;
}

inline std::string zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

/// Compresses to a frame without a content size.
inline std::string zstd_unsized(const std::string& text) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress2(context, out.data(), out.size(), text.data(), text.size()));
  ZSTD_freeCCtx(context);
  return out;
}

/// Compresses to 100 KB frames, most with a content size. Each follows a skippable frame.
inline std::string zstd_frames(const std::string& text) {
  std::string out;
  for (std::size_t at = 0, frame = 0; at < text.size() || frame == 0; at += 100000, ++frame) {
    std::string part = text.substr(at, 100000);
    out += std::string("\x50\x2A\x4D\x18\x04\0\0\0skip", 12) + (frame % 7 == 5 ? zstd_unsized(part) : zstd(part));
  }
  return out;
}

struct Format {
  const char* name;
  std::function<std::string(const std::string&)> compress;
};
inline const Format kFormats[] = {{"gzip", gzip},
                                  {"xz", xz},
                                  {"zstd", zstd},
                                  {"xz blocks", xz_blocks},
                                  {"zstd without size", zstd_unsized},
                                  {"zstd frames", zstd_frames}};

}  // namespace mtl::test
