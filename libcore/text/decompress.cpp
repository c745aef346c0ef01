#include "text/decompress.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/threads.h"
#include "text/decoders.h"
#include "text/other_formats.h"
#include "text/read_ahead.h"

namespace mtl {

namespace {

bool begins_packed(std::string_view head) { return begins_gzip(head) || begins_xz(head) || begins_zstd(head); }

/// Returns false if these first bytes show the format. On a pipe, the writer may wait for a reply to its first line, so
/// we do not wait for more.
bool needs_more(std::string_view head) {
  return head.size() < kFormatBytes && head.find('\n') == std::string_view::npos && !begins_packed(head);
}

/// Checks the content that a decoder returns, like make_decoder() checks stored content.
class CheckedSource : public ByteSource {
 public:
  /// `unpack`: the command that decompresses the file.
  CheckedSource(std::unique_ptr<ByteSource> source, std::string name, const char* unpack)
      : source_(std::move(source)), name_(std::move(name)), unpack_(unpack) {}
  StoredInput stored() const override {
    StoredInput out = source_->stored();
    out.unpack = unpack_;
    return out;
  }

 private:
  std::size_t read_some(char* buffer, std::size_t bytes) override {
    if (!is_checked_) read_head();
    if (taken_ == head_.size()) return source_->read(buffer, bytes);
    const std::size_t count = head_.copy(buffer, bytes, taken_);
    taken_ += count;
    return count;
  }
  void read_head() {
    std::size_t size = 0;
    head_.resize(kFormatBytes);
    while (needs_more({head_.data(), size})) {
      const std::size_t got = source_->read(head_.data() + size, head_.size() - size);
      if (got == 0) break;
      size += got;
    }
    head_.resize(size);
    is_checked_ = true;
    if (begins_packed(head_))
      fail_at(Exit::bad_data, name_, "the file is compressed twice; decompress it once: ", unpack_,
              " FILE | ... --input -");
    refuse_other_formats(name_, head_, unpack_);
  }

  std::unique_ptr<ByteSource> source_;
  std::string name_;
  const char* unpack_;
  std::string head_;
  std::size_t taken_ = 0;  // of head_
  bool is_checked_ = false;
};

struct Decoder {
  std::unique_ptr<ByteSource> source;  // null for plain text
  const char* unpack = "";             // the command that does the same
};

/// Does not move from `file` if the content is plain text.
Decoder make_decoder(std::unique_ptr<StoredFile>& file, int threads) {
  while (needs_more(file->available()) && file->fill_to(file->available().size() + 1)) {
  }
  const std::string_view head = file->available();
  if (begins_gzip(head)) return {make_gzip_source(std::move(file)), "gzip -dc"};
  if (begins_xz(head)) return {make_xz_source(std::move(file), threads), "xz -dc"};
  if (begins_zstd(head)) return {make_zstd_source(std::move(file), threads), "zstd -dc"};
  refuse_other_formats(file->name(), head);
  return {};
}

}  // namespace

std::string FileSource::damage_message() const {
  return cat(file_->name(), ": the ", format_, " data is damaged before byte ", file_->offset(),
             "; copy or download the file again");
}

void FileSource::fail_damaged() const { fail(Exit::bad_data, damage_message()); }

void FileSource::fail_truncated() const {
  fail(Exit::bad_data, file_->name(), ": the ", format_, " data ends early, at byte ", file_->offset(),
       ", because the file is truncated; copy or download it again");
}

void FileSource::fail_memory() const {
  fail(Exit::bad_data, file_->name(), ": the ", format_, " data needs more than ", kDecoderBytes >> 20,
       " MiB to decompress; compress the file again with a smaller window");
}

void FileSource::fail_trailing(std::uint64_t end) const {
  fail(Exit::bad_data, file_->name(), ": the ", format_, " data ends at byte ", end,
       ", but other data follows; if it does not belong there, remove it: head -c ", end, " FILE | ... --input -");
}

std::unique_ptr<ByteSource> open_input(const std::string& path, int threads) {
  auto file = std::make_unique<StoredFile>(path);
  const bool is_regular = file->is_regular();
  const std::string name = file->name();
  if (threads <= 0) threads = std::min(resolve_threads(0), 8);
  Decoder decoder = make_decoder(file, threads);
  // The operating system reads ahead in plain text, and a thread would make another copy.
  if (decoder.source == nullptr) return std::make_unique<FileSource>(std::move(file), "plain");
  auto checked = std::make_unique<CheckedSource>(std::move(decoder.source), name, decoder.unpack);
  // A pipe may never deliver more data, and we cannot stop a thread that waits for it.
  if (!is_regular) return checked;
  return std::make_unique<ReadAhead>(std::move(checked));
}

std::string read_all(const std::string& path, StoredInput* stored) {
  std::unique_ptr<ByteSource> source = open_input(path);
  std::string out;
  std::vector<char> buffer(1 << 20);
  while (std::size_t got = source->read(buffer.data(), buffer.size())) out.append(buffer.data(), got);
  if (stored != nullptr) *stored = source->stored();
  return out;
}

std::size_t ByteSource::read(char* buffer, std::size_t bytes) {
  // zlib counts in 32 bits, and decoders that were asked for nothing would wait for output.
  constexpr std::size_t kMaxBytes = std::size_t{1} << 30;
  return bytes == 0 ? 0 : read_some(buffer, std::min(bytes, kMaxBytes));
}

std::string input_name(const std::string& path) { return path == "-" ? "standard input" : path; }

}  // namespace mtl
