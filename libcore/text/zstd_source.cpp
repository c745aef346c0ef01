#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <future>
#include <optional>

#include "base/error.h"
#include "base/utf8.h"
#include "text/decoders.h"

namespace mtl {

namespace {

constexpr std::size_t kGroupBytes = 1 << 20;          // decoded or stored bytes for which a thread is worthwhile
constexpr std::size_t kFrameBytes = 32u << 20;        // decoded bytes in a frame that a thread decodes in one go
constexpr std::size_t kStoredFrameBytes = 16u << 20;  // stored bytes in such a frame
constexpr std::size_t kGroupsBytes = 256u << 20;      // all groups in progress, except the last one
constexpr int kGroupWindowLog = 27;                   // 128 MiB: what `zstd -22 --ultra` uses

struct FreeContext {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};
using Context = std::unique_ptr<ZSTD_DCtx, FreeContext>;

Context make_context(int window_log) {
  Context context(ZSTD_createDCtx());
  require(context != nullptr, "zstd cannot create a decoder");
  ZSTD_DCtx_setParameter(context.get(), ZSTD_d_windowLogMax, window_log);
  return context;
}

/// Complete frames in memory and their decoder.
class FrameGroup {
 public:
  /// `content_bytes`: declared by the frames, or a guess. `damage_message`: the error message for damaged frames.
  FrameGroup(std::string stored, std::size_t content_bytes, std::string damage_message)
      : stored_(std::move(stored)), content_bytes_(content_bytes), damage_message_(std::move(damage_message)) {}

  /// Decodes up to about kFrameBytes, in blocks of up to kGroupBytes. If the frames declare their size, decodes them
  /// completely. Returns no blocks at the end.
  std::deque<std::string> next() {
    std::deque<std::string> blocks;
    if (context_ == nullptr) context_ = make_context(kGroupWindowLog);
    for (std::size_t used = 0; used < kFrameBytes && !is_done();) {
      std::string block(std::clamp(content_bytes_ - std::min(used, content_bytes_), kMinBlockBytes, kGroupBytes), '\0');
      block.resize(fill(block));
      used += block.size();
      if (!block.empty()) blocks.push_back(std::move(block));
    }
    return blocks;
  }

 private:
  static constexpr std::size_t kMinBlockBytes = 64 << 10;

  bool is_done() const { return is_frame_done_ && taken_ == stored_.size(); }

  /// Decodes into the block until it is full or the frames end. Returns the number of bytes.
  std::size_t fill(std::string& block) {
    std::size_t used = 0;
    while (used < block.size() && !is_done()) {
      ZSTD_outBuffer to{block.data(), block.size(), used};
      ZSTD_inBuffer from{stored_.data(), stored_.size(), taken_};
      const std::size_t status = ZSTD_decompressStream(context_.get(), &to, &from);
      const bool is_stuck = to.pos == used && from.pos == taken_;
      if (ZSTD_isError(status) || (is_stuck && status != 0)) fail(Exit::bad_data, damage_message_);
      is_frame_done_ = status == 0;
      used = to.pos;
      taken_ = from.pos;
    }
    return used;
  }

  std::string stored_;
  std::size_t content_bytes_;
  std::string damage_message_;
  Context context_;
  std::size_t taken_ = 0;  // of stored_
  bool is_frame_done_ = false;
};

/// Gathers frames of moderate size into groups, which threads decode. Decodes every other frame as a stream. The output
/// is in file order.
class ZstdSource : public FileSource {
 public:
  ZstdSource(std::unique_ptr<StoredFile> file, int threads)
      : FileSource(std::move(file), "zstd"), threads_(threads), context_(make_context(30)) {}  // kDecoderBytes

 private:
  std::size_t read_some(char* buffer, std::size_t bytes) override {
    while (true) {
      if (!content_.empty()) return take(buffer, bytes);
      if (in_stream_) {
        if (std::size_t got = read_stream(buffer, bytes)) return got;
        continue;
      }
      while (groups_.size() < threads_ && groups_bytes_ < kGroupsBytes && start_group()) {
      }
      if (!groups_.empty()) {
        next_content();
        continue;
      }
      if (file_->at_end()) return 0;
      if (!file_->fill_to(4) || !begins_zstd(file_->available())) fail_trailing(file_->offset());
      in_stream_ = true;
    }
  }

  struct PendingGroup {
    std::unique_ptr<FrameGroup> group;
    std::future<std::deque<std::string>> content;  // its first part; the rest is decoded on demand
    std::size_t bytes;                             // the larger of decoded and stored bytes
  };
  struct Frame {
    std::size_t stored_bytes, content_bytes;
  };

  std::size_t take(char* buffer, std::size_t bytes) {
    const std::string& block = content_.front();
    const std::size_t count = std::min(bytes, block.size() - taken_);
    std::memcpy(buffer, block.data() + taken_, count);
    taken_ += count;
    if (taken_ == block.size()) {
      content_.pop_front();
      taken_ = 0;
    }
    return count;
  }

  void next_content() {
    PendingGroup& first = groups_.front();
    content_ = first.content.valid() ? first.content.get() : first.group->next();
    if (!content_.empty()) return;
    groups_bytes_ -= first.bytes;
    groups_.pop_front();
  }

  /// Starts decoding the file's next frames. Returns false unless whole_frame() accepts the first one.
  bool start_group() {
    std::string stored;
    std::size_t content_bytes = 0;
    while (content_bytes < kGroupBytes && stored.size() < kGroupBytes) {  // skippable frames have no content
      std::optional<Frame> frame = whole_frame();
      if (!frame) break;
      stored += file_->available().substr(0, frame->stored_bytes);
      file_->consume(frame->stored_bytes);
      content_bytes += frame->content_bytes;
    }
    if (stored.empty()) return false;
    const std::size_t bytes = std::max(content_bytes, stored.size());
    auto group = std::make_unique<FrameGroup>(std::move(stored), content_bytes, damage_message());
    auto content = std::async(std::launch::async, [group = group.get()] { return group->next(); });
    groups_bytes_ += bytes;
    groups_.push_back({std::move(group), std::move(content), bytes});
    return true;
  }

  /// Reads the frame at the current position to its end. Returns nothing if the frame is long, needs a large window, or
  /// is damaged; the stream decoder then finds out which. If a frame does not declare its size, assumes that it was
  /// compressed to a quarter.
  std::optional<Frame> whole_frame() {
    constexpr std::size_t kHeaderBytes = 18;
    file_->fill_to(kHeaderBytes);
    std::string_view head = file_->available();
    if (const unsigned id = ZSTD_getDictID_fromFrame(head.data(), head.size()); id != 0) fail_dictionary(id);
    if (!begins_zstd(head) || window_log(head) > kGroupWindowLog) return {};
    unsigned long long content = ZSTD_getFrameContentSize(head.data(), head.size());
    const bool is_known = content != ZSTD_CONTENTSIZE_UNKNOWN;
    if (content == ZSTD_CONTENTSIZE_ERROR || (is_known && content > kFrameBytes)) return {};
    for (bool more = true;;) {
      std::string_view from = file_->available();
      std::size_t stored = ZSTD_findFrameCompressedSize(from.data(), from.size());
      if (!ZSTD_isError(stored)) {
        // A block takes at least 4 bytes and contains at most 128 KiB, so we do not allocate memory for a header that
        // claims more.
        const std::size_t most = (stored / 4 + 1) << 17;
        return Frame{stored, std::min(most, is_known ? static_cast<std::size_t>(content) : 4 * stored)};
      }
      if (!more || from.size() >= kStoredFrameBytes) return {};
      more = file_->fill_to(std::min(kStoredFrameBytes, 2 * from.size()));
    }
  }

  /// Returns log2 of the window that a frame needs, rounded up, or 0 if the window is as long as the contents. (RFC
  /// 8878, 3.1.1.1.2)
  static int window_log(std::string_view head) {
    bool is_single_segment = head.size() < 6 || (head[4] & 0x20) != 0 || !starts_with(head, "\x28\xB5\x2F\xFD");
    if (is_single_segment) return 0;
    const int exponent = byte_of(head[5]) >> 3, eighths = byte_of(head[5]) & 7;
    return 10 + exponent + (eighths > 0 ? 1 : 0);
  }

  std::size_t read_stream(char* buffer, std::size_t bytes) {
    ZSTD_outBuffer out{buffer, bytes, 0};
    while (out.pos == 0 && in_stream_) {
      bool at_end = file_->at_end();
      std::string_view from = file_->available();
      ZSTD_inBuffer in{from.data(), from.size(), 0};
      std::size_t status = ZSTD_decompressStream(context_.get(), &out, &in);
      if (ZSTD_isError(status)) fail_with(status);
      file_->consume(in.pos);
      if (status == 0)
        in_stream_ = false;
      else if (at_end && out.pos == 0)
        fail_truncated();
    }
    return out.pos;
  }

  [[noreturn]] void fail_dictionary(unsigned id) const {
    fail(Exit::bad_data, file_->name(), ": the data needs the zstd dictionary ", id,
         ", which the file does not contain; decompress it with the dictionary: zstd -dc -D DICTIONARY FILE | ... "
         "--input -");
  }

  [[noreturn]] void fail_with(std::size_t status) const {
    if (std::string_view(ZSTD_getErrorName(status)).find("memory") != std::string_view::npos) fail_memory();
    fail_damaged();
  }

  std::size_t threads_;
  std::deque<PendingGroup> groups_;  // in file order
  std::size_t groups_bytes_ = 0;
  std::deque<std::string> content_;  // decoded blocks of the first group
  std::size_t taken_ = 0;            // of its first block
  Context context_;
  bool in_stream_ = false;  // in the middle of a frame that is decoded as a stream
};

}  // namespace

bool begins_zstd(std::string_view head) {
  bool is_skippable = head.size() >= 4 && (head[0] & 0xF0) == 0x50 && head.substr(1, 3) == "\x2A\x4D\x18";
  return is_skippable || starts_with(head, "\x28\xB5\x2F\xFD");
}

std::unique_ptr<ByteSource> make_zstd_source(std::unique_ptr<StoredFile> file, int threads) {
  return std::make_unique<ZstdSource>(std::move(file), threads);
}

}  // namespace mtl
