#include "text/null_tokenizer.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/hash.h"
#include "base/str.h"
#include "base/utf8.h"
#include "text/unicode_categories.h"
#include "text/unicode_classes.h"

namespace mtl {

namespace {

constexpr std::int64_t kMaxId = std::numeric_limits<std::int32_t>::max();

/// Returns the start of a text that is not an id, for messages. (It can be an entire document.)
std::string excerpt(std::string_view text) {
  constexpr std::size_t kMaxBytes = 80;
  if (text.size() <= kMaxBytes) return std::string(text);
  std::size_t length = kMaxBytes;
  while (length > 0 && (byte_of(text[length]) & 0xC0) == 0x80) --length;  // between characters
  return cat(text.substr(0, length), "...");
}

/// Replaces decimal digits and whitespace in any script with ASCII digits and blanks. Returns nothing if there is any
/// other non-ASCII character.
std::optional<std::string> to_ascii(std::string_view text) {
  constexpr CategorySet kDigits = category_set(Category::Nd);
  std::string out;
  for (const char *at = text.data(), *end = at + text.size(); at < end;) {
    const Utf8Char next = next_utf8(at, end);
    at += next.length;
    if (next.code < 0x80) {
      out += static_cast<char>(next.code);
    } else if (is_in(kDigits, next.code)) {
      std::uint32_t zero = next.code;  // digits come in tens, from 0 to 9
      while (is_in(kDigits, zero - 1)) --zero;
      out += static_cast<char>('0' + (next.code - zero) % 10);
    } else if (class_of(next.code) == CharClass::space) {
      out += ' ';
    } else {
      return {};
    }
  }
  return out;
}

void check_id(std::int64_t id, std::int64_t vocab_size) {
  if (id >= 0 && id < vocab_size) return;
  fail(Exit::bad_data, "the token id ", id, " is not in the vocabulary of NullTokenizer, which has ids 0 to ",
       vocab_size - 1, "; raise --vocab-size, or correct the data");
}

class NullEncoder : public Encoder {
 public:
  explicit NullEncoder(std::int64_t vocab_size) : vocab_size_(vocab_size) {}

  void append(std::string_view text, std::vector<std::int32_t>& ids) override {
    while (true) {
      const std::size_t blank = text.find(' ');
      ids.push_back(id_of(text.substr(0, blank)));
      if (blank == std::string_view::npos) return;
      text.remove_prefix(blank + 1);
    }
  }

 private:
  std::int32_t id_of(std::string_view text) const {
    std::optional<std::int64_t> id = parse_int(text);
    if (!id) {
      if (const auto plain = to_ascii(text)) id = parse_int(*plain);
    }
    if (!id)
      fail(Exit::bad_data, "\"", excerpt(text),
           "\" is not a token id; for NullTokenizer, write whole numbers separated by single spaces");
    check_id(*id, vocab_size_);
    return static_cast<std::int32_t>(*id);
  }

  std::int64_t vocab_size_;
};

}  // namespace

NullTokenizer::NullTokenizer(std::int64_t vocab_size, std::optional<std::int64_t> eod) : vocab_size_(vocab_size) {
  std::int64_t end = eod.value_or(vocab_size - 1);
  vocab_size_ = std::max(vocab_size, end + 1);
  if (end < 0 || vocab_size_ > kMaxId) {
    fail(Exit::usage, "NullTokenizer's ids must be from 0 to ", kMaxId - 1, ", but the vocabulary size is ", vocab_size,
         " and the end-of-document id ", end, "; change --vocab-size or --null-tokenizer-eod");
  }
  eod_ = static_cast<std::int32_t>(end);
}

std::unique_ptr<Encoder> NullTokenizer::make_encoder(EncoderMemory) const {
  return std::make_unique<NullEncoder>(vocab_size_);
}

std::string NullTokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string out;
  for (std::int32_t id : ids) {
    check_id(id, vocab_size_);
    out += cat(out.empty() ? "" : " ", id);
  }
  return out;
}

std::uint64_t NullTokenizer::hash() const {
  std::string all = cat(type(), " ", vocab_size_, " ", eod_);
  return hash_bytes(all.data(), all.size());
}

}  // namespace mtl
