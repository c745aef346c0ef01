#include <lzma.h>

#include <algorithm>

#include "base/error.h"
#include "text/decoders.h"

namespace mtl {

namespace {

class XzSource : public FileSource {
 public:
  XzSource(std::unique_ptr<StoredFile> file, int threads) : FileSource(std::move(file), "xz"), threads_(threads) {
    start_stream();
  }
  ~XzSource() override { lzma_end(&stream_); }

 private:
  std::size_t read_some(char* buffer, std::size_t bytes) override {
    stream_.next_out = reinterpret_cast<std::uint8_t*>(buffer);
    stream_.avail_out = bytes;
    while (stream_.avail_out == bytes) {
      if (stream_done_ && !next_stream()) break;
      bool at_end = file_->at_end();
      std::string_view from = file_->available();
      stream_.next_in = reinterpret_cast<const std::uint8_t*>(from.data());
      stream_.avail_in = from.size();
      lzma_ret status = lzma_code(&stream_, at_end ? LZMA_FINISH : LZMA_RUN);
      file_->consume(from.size() - stream_.avail_in);
      if (status == LZMA_STREAM_END) stream_done_ = true;
      if (status == LZMA_BUF_ERROR && at_end) fail_truncated();
      if (status == LZMA_MEMLIMIT_ERROR) fail_memory();
      if (status != LZMA_OK && status != LZMA_STREAM_END && status != LZMA_BUF_ERROR) fail_damaged();
    }
    return bytes - stream_.avail_out;
  }

  void start_stream() {
    lzma_mt options{};
    options.threads = static_cast<std::uint32_t>(threads_);
    options.memlimit_threading = kDecoderBytes / 2;  // beyond this, liblzma uses fewer threads
    options.memlimit_stop = kDecoderBytes;
    require(lzma_stream_decoder_mt(&stream_, &options) == LZMA_OK, "liblzma cannot be initialized");
    stream_done_ = false;
  }
  /// Skips zero padding after a stream, whose length must be a multiple of four, and starts the next one. Returns false
  /// at the end of the file.
  bool next_stream() {
    const std::uint64_t end = file_->offset();
    while (!file_->at_end() && file_->available()[0] == '\0') file_->consume(1);
    if ((file_->offset() - end) % 4 != 0) fail_trailing(end);
    if (file_->at_end()) return false;
    file_->fill_to(6);
    if (!begins_xz(file_->available())) fail_trailing(end);
    start_stream();
    return true;
  }

  int threads_;
  lzma_stream stream_ = LZMA_STREAM_INIT;
  bool stream_done_ = false;
};

}  // namespace

bool begins_xz(std::string_view head) { return starts_with(head, std::string_view("\xFD\x37zXZ\0", 6)); }

std::unique_ptr<ByteSource> make_xz_source(std::unique_ptr<StoredFile> file, int threads) {
  return std::make_unique<XzSource>(std::move(file), threads);
}

}  // namespace mtl
