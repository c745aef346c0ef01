#include <zlib.h>

#include "base/error.h"
#include "text/decoders.h"

namespace mtl {

namespace {

class GzipSource : public FileSource {
 public:
  explicit GzipSource(std::unique_ptr<StoredFile> file) : FileSource(std::move(file), "gzip") {
    require(inflateInit2(&stream_, 15 + 16) == Z_OK, "zlib cannot be initialized");
  }
  ~GzipSource() override { inflateEnd(&stream_); }

 private:
  std::size_t read_some(char* buffer, std::size_t bytes) override {
    stream_.next_out = reinterpret_cast<Bytef*>(buffer);
    stream_.avail_out = static_cast<uInt>(bytes);
    while (stream_.avail_out == bytes) {
      bool at_end = file_->at_end();
      if (member_done_ && !start_member()) break;
      if (at_end) fail_truncated();
      std::string_view from = file_->available();
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(from.data()));
      stream_.avail_in = static_cast<uInt>(from.size());
      int status = inflate(&stream_, Z_NO_FLUSH);
      file_->consume(from.size() - stream_.avail_in);
      if (status == Z_STREAM_END) {
        member_done_ = true;
      } else if (status != Z_OK && status != Z_BUF_ERROR) {
        fail_damaged();
      }
    }
    return bytes - stream_.avail_out;
  }

  /// Skips zero padding after a member and starts the next one. Returns false at the end of the file.
  bool start_member() {
    const std::uint64_t end = file_->offset();
    while (!file_->at_end() && file_->available()[0] == '\0') file_->consume(1);
    if (file_->at_end()) return false;
    file_->fill_to(2);
    if (!begins_gzip(file_->available())) fail_trailing(end);
    inflateReset(&stream_);
    member_done_ = false;
    return true;
  }

  z_stream stream_{};
  bool member_done_ = false;
};

}  // namespace

bool begins_gzip(std::string_view head) { return starts_with(head, "\x1F\x8B"); }

std::unique_ptr<ByteSource> make_gzip_source(std::unique_ptr<StoredFile> file) {
  return std::make_unique<GzipSource>(std::move(file));
}

}  // namespace mtl
