#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <future>
#include <optional>

#include "base/error.h"
#include "text/decoders.h"

namespace mtl {

namespace {

constexpr std::size_t kPieceBytes = 1 << 20;         // content worth a thread of its own
constexpr std::size_t kWholeFrameBytes = 32u << 20;  // content of a frame that is decoded in one go
constexpr std::size_t kPiecesBytes = 64u << 20;      // content of all pieces under way, before the last one is added

/// Whole frames, decoded in one go.
std::string decode_frames(const std::string& stored, std::size_t content_bytes, const std::string& complaint) {
  std::string out(content_bytes, '\0');
  std::size_t got = ZSTD_decompress(out.data(), out.size(), stored.data(), stored.size());
  if (ZSTD_isError(got) || got != content_bytes) fail(Exit::bad_data, complaint);
  return out;
}

/// Frames of known and moderate size are gathered into pieces, which threads decode; every other frame is decoded as a
/// stream. Both give their output in the order of the file.
class ZstdSource : public FileSource {
 public:
  ZstdSource(std::unique_ptr<StoredFile> file, int threads)
      : FileSource(std::move(file), "zstd"), threads_(static_cast<std::size_t>(threads)), context_(ZSTD_createDCtx()) {
    require(context_ != nullptr, "zstd does not start");
    ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, 30);  // kDecoderBytes
  }

  std::size_t read(char* buffer, std::size_t bytes) override {
    while (true) {
      if (taken_ < content_.size()) return take(buffer, bytes);
      if (in_stream_) {
        if (std::size_t got = read_stream(buffer, bytes)) return got;
        continue;
      }
      while (pieces_.size() < threads_ && pieces_bytes_ < kPiecesBytes && start_piece()) {
      }
      if (!pieces_.empty()) {
        next_content();
        continue;
      }
      if (file_->at_end()) return 0;
      if (!file_->fill_to(4) || !begins_zstd(file_->available())) fail_trailing();
      in_stream_ = true;
    }
  }

 private:
  struct Piece {
    std::future<std::string> content;
    std::size_t content_bytes;
  };
  struct Frame {
    std::size_t stored_bytes, content_bytes;
  };
  struct Free {
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };

  std::size_t take(char* buffer, std::size_t bytes) {
    std::size_t count = std::min(bytes, content_.size() - taken_);
    std::memcpy(buffer, content_.data() + taken_, count);
    taken_ += count;
    return count;
  }

  void next_content() {
    content_ = pieces_.front().content.get();
    taken_ = 0;
    pieces_bytes_ -= pieces_.front().content_bytes;
    pieces_.pop_front();
  }

  /// Starts on the next frames of the file, if they are of the kind that can be taken whole.
  bool start_piece() {
    std::string stored;
    std::size_t content_bytes = 0;
    while (content_bytes < kPieceBytes && stored.size() < kWholeFrameBytes) {
      std::optional<Frame> frame = whole_frame();
      if (!frame) break;
      stored += file_->available().substr(0, frame->stored_bytes);
      file_->consume(frame->stored_bytes);
      content_bytes += frame->content_bytes;
    }
    if (stored.empty()) return false;
    std::string complaint = damaged_text();
    pieces_bytes_ += content_bytes;
    pieces_.push_back({std::async(std::launch::async,
                                  [stored = std::move(stored), content_bytes, complaint = std::move(complaint)] {
                                    return decode_frames(stored, content_bytes, complaint);
                                  }),
                       content_bytes});
    return true;
  }

  /// The frame that begins here, read to its end; nothing when it does not say how long its content is, is too long, or
  /// is broken: the stream decoder finds out what is wrong with it.
  std::optional<Frame> whole_frame() {
    constexpr std::size_t kHeaderBytes = 18;
    file_->fill_to(kHeaderBytes);
    std::string_view head = file_->available();
    if (!begins_zstd(head)) return {};
    unsigned long long content = ZSTD_getFrameContentSize(head.data(), head.size());
    if (content == ZSTD_CONTENTSIZE_UNKNOWN || content == ZSTD_CONTENTSIZE_ERROR || content > kWholeFrameBytes)
      return {};
    const std::size_t most = kHeaderBytes + ZSTD_compressBound(static_cast<std::size_t>(content));
    for (bool more = true;;) {
      std::string_view from = file_->available();
      std::size_t stored = ZSTD_findFrameCompressedSize(from.data(), from.size());
      if (!ZSTD_isError(stored)) return Frame{stored, static_cast<std::size_t>(content)};
      if (!more || from.size() >= most) return {};
      more = file_->fill_to(std::min(most, 2 * from.size()));
    }
  }

  std::size_t read_stream(char* buffer, std::size_t bytes) {
    ZSTD_outBuffer out{buffer, bytes, 0};
    while (out.pos == 0 && in_stream_) {
      bool at_end = file_->at_end();
      std::string_view from = file_->available();
      ZSTD_inBuffer in{from.data(), from.size(), 0};
      std::size_t status = ZSTD_decompressStream(context_.get(), &out, &in);
      if (ZSTD_isError(status)) fail_on(status);
      file_->consume(in.pos);
      if (status == 0)
        in_stream_ = false;
      else if (at_end && out.pos == 0)
        fail_truncated();
    }
    return out.pos;
  }

  [[noreturn]] void fail_on(std::size_t status) const {
    if (std::string_view(ZSTD_getErrorName(status)).find("memory") != std::string_view::npos) fail_memory();
    fail_damaged();
  }

  std::size_t threads_;
  std::deque<Piece> pieces_;  // under way, in the order of the file
  std::size_t pieces_bytes_ = 0;
  std::string content_;  // of the piece being handed out
  std::size_t taken_ = 0;
  std::unique_ptr<ZSTD_DCtx, Free> context_;
  bool in_stream_ = false;  // in the middle of a frame that is decoded as a stream
};

}  // namespace

bool begins_zstd(std::string_view head) {
  bool skippable = head.size() >= 4 && (head[0] & 0xF0) == 0x50 && head.substr(1, 3) == "\x2A\x4D\x18";
  return skippable || starts_with(head, "\x28\xB5\x2F\xFD");
}

std::unique_ptr<ByteSource> make_zstd_source(std::unique_ptr<StoredFile> file, int threads) {
  return std::make_unique<ZstdSource>(std::move(file), threads);
}

}  // namespace mtl
