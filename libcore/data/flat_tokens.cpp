#include "data/flat_tokens.h"

#include <algorithm>

#include "base/error.h"
#include "base/files.h"
#include "base/lfs_pointer.h"
#include "base/str.h"
#include "base/utf8.h"
#include "data/npy.h"

namespace mtl {
namespace {

constexpr std::uint64_t kFixedHeaderBytes = 1024;  // llm.c and llmq
constexpr std::size_t kHeadBytes = std::max<std::size_t>({kNpyHeadBytes, kFixedHeaderBytes, kLfsPointerBytes});

struct LlmCVariant {
  std::int32_t magic, version;
  IntegerType type;
};
constexpr LlmCVariant kLlmCVariants[] = {{kLlmCTokens, 1, kU16}, {kLlmCWideTokens, 7, kU32}};

constexpr std::string_view kCopyAgain = "; copy the file again, or make it again";

/// Returns i32 number `index` of a header.
std::int32_t header_number(std::string_view head, std::size_t index) {
  return static_cast<std::int32_t>(from_little_endian(head.substr(4 * index, 4)));
}

std::string read_head(const OpenFile& file, std::uint64_t size) {
  std::string head(std::min<std::uint64_t>(size, kHeadBytes), '\0');
  file.read(0, std::as_writable_bytes(std::span(head)));
  return head;
}

/// For a file that begins with `head`, and is of no flat format.
[[noreturn]] void refuse_unknown(const std::string& path, std::string_view head) {
  if (recognize_token_file(head) || file_exists(dataset_prefix(path) + ".idx"))
    fail_at(Exit::bad_data, path, "this belongs to a pair of token files, .bin and .idx, which need no import");
  fail_at(Exit::bad_data, path,
          "the file has no header of a known format (`mtl-data formats` lists them); if it is ids and nothing else, as "
          "nanoGPT writes them, add --format nanogpt");
}

/// What files that are no ids begin with.
struct OtherContent {
  std::string_view magic, what;
};
constexpr const char *kCompressed = "is compressed; decompress it first",
                     *kTable = "is a table; write its column of ids to a .npy file with numpy.save()",
                     *kPickle = "is a Python pickle; write its ids to a .npy file with numpy.save()";
constexpr OtherContent kOtherContent[] = {
    {"\x28\xB5\x2F\xFD", kCompressed},
    {{"\xFD\x37zXZ\0", 6}, kCompressed},
    {"PK\x03\x04", kCompressed},
    {"BZh91AY&SY", kCompressed},
    {"\x04\x22\x4D\x18", kCompressed},
    {"PAR1", kTable},
    {{"ARROW1\0\0", 8}, kTable},
    {{"\xFF\xFF\xFF\xFF", 4}, kTable},  // Arrow's stream, as in Hugging Face's datasets
    {"\x89HDF\r\n", kTable},
    {"\x80\x04\x95", kPickle},
    {"\x80\x05\x95", kPickle},
    {{"TNTIDX\0\0", 8}, "is the .idx of fairseq's token files, which mtl does not read; make the data again"},
};

/// Throws if a file without a header is text, compressed or of another kind. Nearly all of its bytes would pass for
/// ids.
void refuse_other_content(std::string_view head, IntegerType type) {
  constexpr std::size_t kEnough = 64;  // real ids are never printable for so long
  if (head.size() < kEnough) return;
  const bool is_gzip = starts_with(head, "\x1F\x8B\x08") && head[3] < ' ' && head[3] >= 0 && (head[8] & ~6) == 0;
  if (is_gzip) fail(Exit::bad_data, "the file ", kCompressed);
  for (const OtherContent& other : kOtherContent)
    if (starts_with(head, other.magic)) fail(Exit::bad_data, "the file ", other.what);
  const auto is_text = [](char c) { return (c >= ' ' && c <= '~') || c == '\n' || c == '\r' || c == '\t'; };
  if (type.bytes > 1 && std::ranges::all_of(head, is_text))
    fail(Exit::bad_data, "the file is text, not token ids; make token files from it with mtl-preprocess");
}

FlatHeader read_llm_c_header(std::string_view head) {
  const std::int32_t magic = header_number(head, 0);
  if (magic == kLlmCQuestions)
    fail(Exit::bad_data,
         "the file has llm.c's multiple-choice questions (HellaSwag, MMLU), not text; use its text files");
  if (head.size() < kFixedHeaderBytes)
    fail(Exit::bad_data, "the header needs 1,024 bytes, but the file has ", head.size(), kCopyAgain);
  const std::int32_t version = header_number(head, 1), count = header_number(head, 2);
  const auto* variant = std::ranges::find(kLlmCVariants, magic, &LlmCVariant::magic);
  require(variant != std::end(kLlmCVariants), "llm.c's magic is ", magic);
  if (version != variant->version)
    fail(Exit::bad_data, "version ", version, " of llm.c's format with magic ", magic,
         " is not supported (byte 4); copy the file again, or make it in version ", variant->version);
  if (count < 0) fail(Exit::bad_data, "the number of tokens is ", count, " (byte 8)", kCopyAgain);
  return {variant->type, count, kFixedHeaderBytes};
}

FlatHeader read_llmq_header(std::string_view head) {
  if (head.size() < kFixedHeaderBytes)
    fail(Exit::bad_data, "the header needs 1,024 bytes, but the file has ", head.size(), kCopyAgain);
  const std::int32_t version = header_number(head, 2), width = header_number(head, 3), count = header_number(head, 4);
  if (version != 1 && version != 2)
    fail(Exit::bad_data, "version ", version,
         " of llmq's format is not supported (byte 8); copy the file again, or make it in version 1 or 2");
  if (width != 4)
    fail(Exit::bad_data, "the file has ", width,
         " bytes per token, which is not supported (byte 12); copy the file again, or make it with 4 bytes per token");
  if (count < 0) fail(Exit::bad_data, "the number of tokens is ", count, " (byte 16)", kCopyAgain);
  if (version == 2 && header_number(head, 6) != 0)
    fail(Exit::bad_data,
         "the file has a loss mask (byte 24), which token files cannot store, so training would count other tokens; "
         "make the file without a mask");
  return {kI32, count, kFixedHeaderBytes};
}

FlatHeader read_lit_gpt_header(std::string_view head) {
  constexpr std::size_t kVersion = kLitGptMagic.size(), kType = kVersion + 8, kCount = kType + 1, kHeader = kCount + 8;
  if (head.size() < kHeader)
    fail(Exit::bad_data, "the header needs ", kHeader, " bytes, but the file has ", head.size(), kCopyAgain);
  const std::uint64_t version = from_little_endian(head.substr(kVersion, 8)),
                      count = from_little_endian(head.substr(kCount, 8));
  if (version != 1)
    fail(Exit::bad_data, "version ", version,
         " of lit-gpt's format is not supported (byte 7); copy the file again, or make it in version 1");
  const int code = byte_of(head[kType]);
  const auto type = static_cast<DataType>(code);
  if (code < 1 || code > 8 || !is_integer(type))
    fail(Exit::bad_data, "the tokens' type, ", code, ", is not an integer's code, 1 to 5 or 8 (byte 15)", kCopyAgain);
  if (count > INT64_MAX) fail(Exit::bad_data, "the number of tokens is ", count, " (byte 16)", kCopyAgain);
  return {integer_type(type), static_cast<std::int64_t>(count), kHeader};
}

/// Returns the header of a file of `size` bytes that begins with `head`. One without header has tokens of `raw_type`.
FlatHeader read_header(TokenFormat format, std::string_view head, std::uint64_t size, IntegerType raw_type) {
  if (format == TokenFormat::llm_c) return read_llm_c_header(head);
  if (format == TokenFormat::llmq) return read_llmq_header(head);
  if (format == TokenFormat::lit_gpt) return read_lit_gpt_header(head);
  if (format == TokenFormat::npy) return read_npy_header(head);
  require(format == TokenFormat::nanogpt, "a pair of token files is not flat");
  refuse_other_content(head, raw_type);
  return {raw_type, static_cast<std::int64_t>(size / raw_type.bytes), 0};
}

/// Throws unless a file of `size` bytes has the tokens that its header announces, and nothing else.
void check_size(TokenFormat format, const FlatHeader& header, std::uint64_t size) {
  // Divide instead of multiplying: a product with an unchecked count could overflow.
  const std::uint64_t stored = size - header.bytes, item = header.type.bytes;
  if (stored % item == 0 && stored / item == static_cast<std::uint64_t>(header.size)) return;
  if (format == TokenFormat::nanogpt)
    fail(Exit::bad_data, "the size, ", with_commas(size), " bytes, is not a multiple of ", item,
         ", the size of a token as ", name_of(header.type), "; choose another --input-type, or copy the file again");
  fail(Exit::bad_data, "the header announces ", with_commas(header.size), " tokens as ", name_of(header.type),
       ", but after its ", with_commas(header.bytes), " bytes, the file has ", with_commas(stored), kCopyAgain);
}

}  // namespace

FlatTokenFile::FlatTokenFile(const std::string& path, std::optional<TokenFormat> format, IntegerType raw_type)
    : path_(path), file_(path) {
  if (!fs::is_regular_file(path))
    fail_at(Exit::io, path, "only a regular file can be imported; copy its content into one");
  const std::uint64_t size = file_size(path);
  const std::string head = read_head(file_, size);
  refuse_lfs_pointer(path, head);
  const auto recognized = recognize_token_file(head);
  if (recognized == TokenFormat::megatron || (!recognized && !format)) refuse_unknown(path, head);
  if (format && recognized.value_or(TokenFormat::nanogpt) != *format) {
    fail_at(Exit::bad_data, path, "the file has ",
            recognized ? cat("the header of ", name_of(*recognized)) : "no header", ", not that of ", name_of(*format),
            "; ", recognized ? "leave out --format" : "if it is ids and nothing else, use --format nanogpt");
  }
  format_ = recognized.value_or(TokenFormat::nanogpt);
  with_where(path, [&] {
    header_ = read_header(format_, head, size, raw_type);
    check_size(format_, header_, size);
  });
}

std::string flat_header(TokenFormat format, IntegerType type, std::int64_t tokens) {
  if (format == TokenFormat::nanogpt) return "";
  if (format == TokenFormat::npy) return npy_header(type, tokens);
  require(format == TokenFormat::llm_c, "mtl does not write ", name_of(format));
  const auto* variant = std::ranges::find(kLlmCVariants, type, &LlmCVariant::type);
  if (variant == std::end(kLlmCVariants))
    fail(Exit::usage, "llm.c's files store u16 or u32, not ", name_of(type), "; choose another --token-type");
  if (tokens > INT32_MAX)
    fail(Exit::bad_data, "llm.c's header counts up to 2^31 - 1 tokens, but there are ", with_commas(tokens),
         "; divide them with mtl-data split, and export each part");
  std::string header;
  for (const std::int64_t number : {std::int64_t{variant->magic}, std::int64_t{variant->version}, tokens})
    header += to_little_endian(number, 4);
  header.resize(kFixedHeaderBytes, '\0');
  return header;
}

}  // namespace mtl
