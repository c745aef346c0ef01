#include "text/decompress.h"

#include <fcntl.h>
#include <lzma.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "text/read_ahead.h"

namespace mtl {

namespace {

constexpr std::uint64_t kMemoryCap = std::uint64_t{1} << 30;

/// The stored bytes of a file, a buffer at a time.
class StoredFile {
 public:
  explicit StoredFile(const std::string& path) : buffer_(1 << 18) {
    stored_.path = path;
    descriptor_ = path == "-" ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor_ < 0) fail_errno(path, "open");
    while (available().size() < 6 && fill()) {
    }
  }
  ~StoredFile() {
    if (descriptor_ > STDIN_FILENO) ::close(descriptor_);
  }
  StoredFile(const StoredFile&) = delete;

  std::string_view available() const { return {buffer_.data() + begin_, end_ - begin_}; }
  void consume(std::size_t bytes) { begin_ += bytes; }
  /// Reads more behind what is available; false at the end of the file.
  bool fill() {
    if (begin_ > 0) {
      std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    ssize_t got;
    do {
      got = ::read(descriptor_, buffer_.data() + end_, buffer_.size() - end_);
    } while (got < 0 && errno == EINTR);
    if (got < 0) fail_errno(path(), "read");
    hasher_.update(buffer_.data() + end_, static_cast<std::size_t>(got));
    stored_.bytes += static_cast<std::uint64_t>(got);
    end_ += static_cast<std::size_t>(got);
    return got > 0;
  }
  /// True when nothing is available and nothing can be.
  bool at_end() { return available().empty() && !fill(); }
  bool is_regular() const {
    struct stat info {};
    return ::fstat(descriptor_, &info) == 0 && S_ISREG(info.st_mode);
  }
  const std::string& path() const { return stored_.path; }
  StoredInput stored() const {
    StoredInput out = stored_;
    out.hash = hasher_.digest();
    return out;
  }

 private:
  StoredInput stored_;
  int descriptor_;
  Hasher hasher_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;
};

/// What the decoders share: their file and their complaints.
class FileSource : public ByteSource {
 public:
  explicit FileSource(std::unique_ptr<StoredFile> file) : file_(std::move(file)) {}
  StoredInput stored() const override { return file_->stored(); }

 protected:
  [[noreturn]] void fail_damaged(const char* format) const {
    fail(Exit::bad_data, file_->path(), ": damaged ", format, " data");
  }
  [[noreturn]] void fail_truncated(const char* format) const {
    fail(Exit::bad_data, file_->path(), ": the ", format, " data ends early; the file is truncated");
  }
  [[noreturn]] void fail_memory(const char* format) const {
    fail(Exit::bad_data, file_->path(), ": its ", format, " data needs more than ", kMemoryCap >> 20,
         " MiB to decompress");
  }
  std::unique_ptr<StoredFile> file_;
};

class PlainSource : public FileSource {
 public:
  using FileSource::FileSource;
  std::size_t read(char* buffer, std::size_t bytes) override {
    if (file_->at_end()) return 0;
    std::string_view from = file_->available();
    std::size_t count = std::min(bytes, from.size());
    std::memcpy(buffer, from.data(), count);
    file_->consume(count);
    return count;
  }
};

class GzipSource : public FileSource {
 public:
  explicit GzipSource(std::unique_ptr<StoredFile> file) : FileSource(std::move(file)) {
    require(inflateInit2(&stream_, 15 + 16) == Z_OK, "zlib does not start");
  }
  ~GzipSource() override { inflateEnd(&stream_); }

  std::size_t read(char* buffer, std::size_t bytes) override {
    stream_.next_out = reinterpret_cast<Bytef*>(buffer);
    stream_.avail_out = static_cast<uInt>(bytes);
    while (stream_.avail_out == bytes) {
      bool at_end = file_->at_end();
      if (member_done_ && !start_member()) break;
      if (at_end) fail_truncated("gzip");
      std::string_view from = file_->available();
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(from.data()));
      stream_.avail_in = static_cast<uInt>(from.size());
      int status = inflate(&stream_, Z_NO_FLUSH);
      file_->consume(from.size() - stream_.avail_in);
      if (status == Z_STREAM_END) {
        member_done_ = true;
      } else if (status != Z_OK && status != Z_BUF_ERROR) {
        fail_damaged("gzip");
      }
    }
    return bytes - stream_.avail_out;
  }

 private:
  /// Between members: zeros are padding; then another member begins, or the file is done.
  bool start_member() {
    while (!file_->at_end() && file_->available()[0] == '\0') file_->consume(1);
    if (file_->at_end()) return false;
    inflateReset(&stream_);
    member_done_ = false;
    return true;
  }
  z_stream stream_{};
  bool member_done_ = false;
};

class XzSource : public FileSource {
 public:
  explicit XzSource(std::unique_ptr<StoredFile> file) : FileSource(std::move(file)) {
    lzma_mt options{};  // files of several blocks (xz -T) are decoded on several cores
    options.flags = LZMA_CONCATENATED;
    options.threads = std::clamp(lzma_cputhreads(), 1u, 8u);
    options.memlimit_threading = kMemoryCap / 2;
    options.memlimit_stop = kMemoryCap;
    require(lzma_stream_decoder_mt(&stream_, &options) == LZMA_OK, "liblzma does not start");
  }
  ~XzSource() override { lzma_end(&stream_); }

  std::size_t read(char* buffer, std::size_t bytes) override {
    stream_.next_out = reinterpret_cast<std::uint8_t*>(buffer);
    stream_.avail_out = bytes;
    while (stream_.avail_out == bytes && !done_) {
      bool at_end = file_->at_end();
      std::string_view from = file_->available();
      stream_.next_in = reinterpret_cast<const std::uint8_t*>(from.data());
      stream_.avail_in = from.size();
      lzma_ret status = lzma_code(&stream_, at_end ? LZMA_FINISH : LZMA_RUN);
      file_->consume(from.size() - stream_.avail_in);
      if (status == LZMA_STREAM_END)
        done_ = true;
      else if (status == LZMA_BUF_ERROR && at_end)
        fail_truncated("xz");
      else if (status == LZMA_MEMLIMIT_ERROR)
        fail_memory("xz");
      else if (status != LZMA_OK && status != LZMA_BUF_ERROR)
        fail_damaged("xz");
    }
    return bytes - stream_.avail_out;
  }

 private:
  lzma_stream stream_ = LZMA_STREAM_INIT;
  bool done_ = false;
};

class ZstdSource : public FileSource {
 public:
  explicit ZstdSource(std::unique_ptr<StoredFile> file) : FileSource(std::move(file)), context_(ZSTD_createDCtx()) {
    require(context_ != nullptr, "zstd does not start");
    ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, 30);
  }

  std::size_t read(char* buffer, std::size_t bytes) override {
    ZSTD_outBuffer out{buffer, bytes, 0};
    while (out.pos == 0) {
      // A frame that is complete, with all of its output taken, may be followed by another one.
      if (file_->at_end() && frame_done_) break;
      std::string_view from = file_->available();
      ZSTD_inBuffer in{from.data(), from.size(), 0};
      std::size_t status = ZSTD_decompressStream(context_.get(), &out, &in);
      if (ZSTD_isError(status)) fail_on(status);
      file_->consume(in.pos);
      frame_done_ = status == 0;
      if (from.empty() && out.pos == 0 && !frame_done_) fail_truncated("zstd");
    }
    return out.pos;
  }

 private:
  struct Free {
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };
  [[noreturn]] void fail_on(std::size_t status) const {
    std::string_view name = ZSTD_getErrorName(status);
    if (name.find("memory") != std::string_view::npos) fail_memory("zstd");
    fail_damaged("zstd");
  }
  std::unique_ptr<ZSTD_DCtx, Free> context_;
  bool frame_done_ = false;
};

}  // namespace

std::unique_ptr<ByteSource> open_input(const std::string& path) {
  constexpr std::string_view kXzMagic("\xFD\x37zXZ\0", 6);
  auto file = std::make_unique<StoredFile>(path);
  bool is_regular = file->is_regular();
  std::string_view head = file->available();
  auto begins = [&](std::string_view magic) { return head.substr(0, magic.size()) == magic; };
  std::unique_ptr<ByteSource> source;
  if (begins("\x1F\x8B")) {
    source = std::make_unique<GzipSource>(std::move(file));
  } else if (begins(kXzMagic)) {
    source = std::make_unique<XzSource>(std::move(file));
  } else if (begins("\x28\xB5\x2F\xFD") ||
             (head.size() >= 4 && (head[0] & 0xF0) == 0x50 && head.substr(1, 3) == "\x2A\x4D\x18")) {
    source = std::make_unique<ZstdSource>(std::move(file));
  } else {
    source = std::make_unique<PlainSource>(std::move(file));
  }
  // A pipe can be silent for ever, and then a thread that waits for it could not be stopped.
  if (!is_regular) return source;
  return std::make_unique<ReadAhead>(std::move(source));
}

std::string read_all(const std::string& path) {
  std::unique_ptr<ByteSource> source = open_input(path);
  std::string out;
  std::vector<char> buffer(1 << 20);
  while (std::size_t got = source->read(buffer.data(), buffer.size())) out.append(buffer.data(), got);
  return out;
}

}  // namespace mtl
