#include "text/decompress.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <thread>
#include <vector>

#include "base/error.h"
#include "text/decoders.h"
#include "text/read_ahead.h"

namespace mtl {

namespace {

class PlainSource : public FileSource {
 public:
  explicit PlainSource(std::unique_ptr<StoredFile> file) : FileSource(std::move(file), "plain") {}

 private:
  std::size_t read_some(char* buffer, std::size_t bytes) override { return file_->read(buffer, bytes); }
};

/// Unsupported formats. We recognize them to suggest a remedy; if read as text, they would only fail at the first byte.
struct OtherFormat {
  std::string_view magic;
  const char *name, *remedy;
};
constexpr OtherFormat kOtherFormats[] = {
    {"BZh", "bzip2", "bzcat FILE | ... --input -"},
    {std::string_view("\x04\x22\x4D\x18", 4), "lz4", "lz4 -dc FILE | ... --input -"},
    {std::string_view("\x5D\x00\x00", 3), "lzma", "xz -dc --format=lzma FILE | ... --input -"},
    {std::string_view("PK\x03\x04", 4), "zip", "unzip -p FILE | ... --input -"},
    {std::string_view("7z\xBC\xAF", 4), "7-zip", "7z x -so FILE | ... --input -"},
    {std::string_view("PAR1\x15", 5), "Parquet", "convert it to JSON lines"},
    {std::string_view("\xFF\xFE", 2), "UTF-16", "iconv -f UTF-16 -t UTF-8 FILE | ... --input -"},
    {std::string_view("\xFE\xFF", 2), "UTF-16", "iconv -f UTF-16 -t UTF-8 FILE | ... --input -"},
};
constexpr std::string_view kBzip2Block = "1AY&SY";  // from the fifth byte on; text may begin with BZh

void refuse_other_formats(const StoredFile& file, std::string_view head) {
  for (const OtherFormat& other : kOtherFormats) {
    if (!starts_with(head, other.magic)) continue;
    if (other.magic == "BZh" && head.substr(4, 6) != kBzip2Block) continue;
    fail(Exit::bad_data, file.name(), ": is ", other.name, "; only gzip, xz, zstd and plain UTF-8 are supported; ",
         other.remedy);
  }
}

/// True if `head` is a prefix of `magic`.
bool may_become(std::string_view head, std::string_view magic) { return starts_with(magic, head); }

/// Returns false if these first bytes can only be plain text. A pipe's first line may be shorter than the longest magic
/// number, and the writer may wait for a reply before it writes more.
bool may_be_packed(std::string_view head) {
  constexpr std::string_view kPacked[] = {"\x1F\x8B", std::string_view("\xFD\x37zXZ\0", 6), "\x28\xB5\x2F\xFD"};
  auto may_be = [&](std::string_view magic) { return may_become(head, magic) || starts_with(head, magic); };
  if (std::any_of(std::begin(kPacked), std::end(kPacked), may_be)) return true;
  if (std::any_of(std::begin(kOtherFormats), std::end(kOtherFormats), [&](auto& o) { return may_be(o.magic); }))
    return true;
  const bool may_be_skippable = !head.empty() && (head[0] & 0xF0) == 0x50;  // a skippable frame of zstd
  return may_be_skippable && may_become(head.substr(1, 3), "\x2A\x4D\x18");
}

/// Returns null for plain text, in which case it does not move from `file`.
std::unique_ptr<ByteSource> make_decoder(std::unique_ptr<StoredFile>& file, int threads) {
  for (std::size_t bytes = 1; bytes <= 10 && file->fill_to(bytes); ++bytes) {
    if (!may_be_packed(file->available())) break;
  }
  const std::string_view head = file->available();
  if (begins_gzip(head)) return make_gzip_source(std::move(file));
  if (begins_xz(head)) return make_xz_source(std::move(file), threads);
  if (begins_zstd(head)) return make_zstd_source(std::move(file), threads);
  refuse_other_formats(*file, head);
  return nullptr;
}

}  // namespace

std::string FileSource::damage_message() const {
  return cat(file_->name(), ": damaged ", format_, " data before byte ", file_->offset());
}

void FileSource::fail_damaged() const { fail(Exit::bad_data, damage_message()); }

void FileSource::fail_truncated() const {
  fail(Exit::bad_data, file_->name(), ": the ", format_, " data ends early, at byte ", file_->offset(),
       "; the file is truncated");
}

void FileSource::fail_memory() const {
  fail(Exit::bad_data, file_->name(), ": its ", format_, " data needs more than ", kDecoderBytes >> 20,
       " MiB to decompress; compress it again with a smaller window");
}

void FileSource::fail_trailing(std::uint64_t end) const {
  fail(Exit::bad_data, file_->name(), ": the ", format_, " data ends at byte ", end,
       ", but other data follows; if it does not belong there, remove it: head -c ", end, " FILE | ... --input -");
}

std::unique_ptr<ByteSource> open_input(const std::string& path, int threads) {
  auto file = std::make_unique<StoredFile>(path);
  const bool is_regular = file->is_regular();
  if (threads <= 0) threads = std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 8);
  std::unique_ptr<ByteSource> decoder = make_decoder(file, threads);
  // The operating system reads ahead in plain text, and a thread would make another copy.
  if (decoder == nullptr) return std::make_unique<PlainSource>(std::move(file));
  // A pipe may never deliver more data, and we cannot stop a thread that waits for it.
  if (!is_regular) return decoder;
  return std::make_unique<ReadAhead>(std::move(decoder));
}

std::string read_all(const std::string& path) {
  std::unique_ptr<ByteSource> source = open_input(path);
  std::string out;
  std::vector<char> buffer(1 << 20);
  while (std::size_t got = source->read(buffer.data(), buffer.size())) out.append(buffer.data(), got);
  return out;
}

std::size_t ByteSource::read(char* buffer, std::size_t bytes) {
  // zlib counts in 32 bits, and decoders that were asked for nothing would wait for output.
  constexpr std::size_t kMaxBytes = std::size_t{1} << 30;
  return bytes == 0 ? 0 : read_some(buffer, std::min(bytes, kMaxBytes));
}

std::string input_name(const std::string& path) { return path == "-" ? "standard input" : path; }

}  // namespace mtl
