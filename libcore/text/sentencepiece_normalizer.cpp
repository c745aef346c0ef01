#include "text/sentencepiece_normalizer.h"

#include "base/count_of.h"
#include "base/error.h"
#include "base/utf8.h"

namespace mtl {

namespace {

constexpr std::size_t kMaxReplacement = 4096;  // bytes; limits how much text can grow if the map is damaged

// A unit in Darts-clone's double array. A leaf has bit 31 set and holds a value.
bool has_leaf(std::uint32_t unit) { return (unit >> 8 & 1) != 0; }
std::uint32_t offset_of(std::uint32_t unit) { return unit >> 10 << ((unit & 1u << 9) >> 6); }
std::uint32_t label_of(std::uint32_t unit) { return unit & (1u << 31 | 0xFF); }
constexpr std::uint32_t kValue = (1u << 31) - 1;

/// Appends `text` with kSpace for U+2581 and `blank` for a blank.
void append_internal(std::string_view text, char blank, SentencePieceNormalizer::Result& out) {
  char* write = out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    if (text.substr(i, kSpaceText.size()) == kSpaceText) {
      *write++ = kSpace;
      i += kSpaceText.size();
    } else {
      *write++ = text[i] == ' ' ? blank : text[i];
      ++i;
    }
  }
  out.size = write - out.bytes.data();
}

}  // namespace

std::string to_internal(std::string_view text) { return replace_all(text, kSpaceText, {&kSpace, 1}); }
std::string to_text(std::string_view internal) { return replace_all(internal, {&kSpace, 1}, kSpaceText); }

SentencePieceNormalizer::SentencePieceNormalizer(const SentencePieceRules& rules, bool whitespace_as_suffix,
                                                 const std::vector<std::string_view>& user_defined, std::string source)
    : add_dummy_prefix_(rules.add_dummy_prefix),
      remove_extra_(rules.remove_extra_whitespaces),
      as_suffix_(whitespace_as_suffix),
      blank_(rules.escape_whitespaces ? kSpace : ' '),
      source_(std::move(source)) {
  for (std::string_view symbol : user_defined) {
    if (!user_defined_.add(symbol, 0)) fail(Exit::bad_data, source_, " has too many user-defined symbols");
  }
  if (!rules.charsmap.empty()) read_charsmap(rules.charsmap);
  classify_bytes();
}

void SentencePieceNormalizer::read_charsmap(std::string_view charsmap) {
  auto refuse = [&](const auto&... what) {
    fail(Exit::bad_data, source_, " has damaged normalization rules: ", what..., kCopyModel);
  };
  auto number_at = [&](std::size_t at) {
    return static_cast<std::uint32_t>(from_little_endian(charsmap.substr(at, 4)));
  };
  if (charsmap.size() <= 4) refuse("they have only ", count_of(charsmap.size(), "byte"));
  std::size_t trie_bytes = number_at(0);
  if (trie_bytes >= charsmap.size() - 4 || trie_bytes < 4)
    refuse("their trie has ", trie_bytes, " bytes of ", charsmap.size());
  for (std::size_t at = 4; at + 4 <= 4 + trie_bytes; at += 4) units_.push_back(number_at(at));
  replacements_ = charsmap.substr(4 + trie_bytes);
}

/// Steps from `node`, which is the offset of a unit's children, to the unit for `byte`. Returns false if there is none.
bool SentencePieceNormalizer::steps_to(std::uint32_t& node, unsigned char byte) const {
  std::uint32_t at = node ^ byte;
  if (at >= units_.size() || label_of(units_[at]) != byte) return false;
  node = at;
  return true;
}

std::string_view SentencePieceNormalizer::replacement(std::uint32_t offset) const {
  if (offset >= replacements_.size())
    fail(Exit::bad_data, source_, ": a normalization rule points past the end of the rules", kCopyModel);
  std::string_view rest = std::string_view(replacements_).substr(offset, kMaxReplacement + 1);
  std::size_t length = rest.find('\0');
  if (length == std::string_view::npos) {
    if (rest.size() > kMaxReplacement)
      fail(Exit::bad_data, source_, ": a normalization rule gives more than ", kMaxReplacement, " bytes", kCopyModel);
    return rest;
  }
  return rest.substr(0, length);
}

SentencePieceNormalizer::Prefix SentencePieceNormalizer::next_prefix(std::string_view text) const {
  if (!user_defined_.empty()) {
    ByteTrie::Match symbol = user_defined_.find_longest(text);
    if (symbol.length > 0) return {text.substr(0, symbol.length), symbol.length};
  }
  std::size_t longest = 0;
  std::uint32_t value = 0;
  if (!units_.empty()) {
    std::uint32_t node = offset_of(units_[0]);
    for (std::size_t i = 0; i < text.size() && steps_to(node, byte_of(text[i])); ++i) {
      std::uint32_t unit = units_[node];
      node ^= offset_of(unit);
      if (has_leaf(unit)) longest = i + 1, value = node < units_.size() ? units_[node] & kValue : kValue;
    }
  }
  if (longest > 0) return {replacement(value), longest};
  Utf8Char next = next_utf8(text.data(), text.data() + text.size());
  if (!next.valid) return {kReplacementCharacter, 1};
  return {text.substr(0, next.length), static_cast<std::size_t>(next.length)};
}

/// Finds ASCII characters that no rule changes, regardless of which ASCII character follows. For these, we need not
/// search the rules.
void SentencePieceNormalizer::classify_bytes() {
  for (unsigned byte = 0; byte < 256; ++byte) {
    bytes_[byte] = Byte::other;
    auto one = static_cast<char>(byte);
    if (byte >= 0x80 || user_defined_.step(ByteTrie::kRoot, static_cast<unsigned char>(byte)) != nullptr) continue;
    if (!units_.empty()) {
      std::uint32_t node = offset_of(units_[0]);
      if (steps_to(node, static_cast<unsigned char>(byte))) {
        bool continues = false;
        std::uint32_t children = node ^ offset_of(units_[node]);
        for (unsigned char after = 0; after < 0x80; ++after) {
          std::uint32_t child = children;
          continues |= steps_to(child, after);
        }
        if (continues || next_prefix({&one, 1}).text != std::string_view(&one, 1)) continue;
      }
    }
    bytes_[byte] = one == ' ' ? Byte::blank : Byte::copied;
  }
}

/// Appends a prefix of `text` that needs no rules. Returns its length in bytes.
std::size_t SentencePieceNormalizer::append_plain(std::string_view text, bool& after_blank, Result& out) const {
  const char* at = text.data();
  const char* end = at + text.size();
  char* write = out.reserve(text.size());
  bool blank_before = after_blank;
  for (; at < end; ++at) {
    Byte kind = bytes_[byte_of(*at)];
    // A rule could compose the last ASCII character with the next one: a letter and its combining accent.
    if (kind == Byte::other || (at + 1 < end && byte_of(at[1]) >= 0x80)) break;
    if (kind == Byte::copied) {
      *write++ = *at;
      blank_before = false;
    } else if (!blank_before) {
      *write++ = blank_;
      blank_before = remove_extra_;
    }
  }
  after_blank = blank_before;
  out.size = write - out.bytes.data();
  return at - text.data();
}

void SentencePieceNormalizer::append_prefix(std::string_view text, bool& after_blank, Result& out) const {
  while (after_blank && !text.empty() && text[0] == ' ') text.remove_prefix(1);
  if (text.empty()) return;
  append_internal(text, blank_, out);
  after_blank = remove_extra_ && text.back() == ' ';
}

void SentencePieceNormalizer::normalize(std::string_view text, Result& out) const {
  out.size = 0;
  while (remove_extra_ && !text.empty()) {
    Prefix prefix = next_prefix(text);
    if (prefix.text != " ") break;
    text.remove_prefix(prefix.length);
  }
  if (text.empty()) return;
  if (add_dummy_prefix_ && !as_suffix_) out.append(blank_);
  bool after_blank = remove_extra_;
  while (true) {
    text.remove_prefix(append_plain(text, after_blank, out));
    if (text.empty()) break;
    Prefix prefix = next_prefix(text);
    append_prefix(prefix.text, after_blank, out);
    text.remove_prefix(prefix.length);
  }
  while (remove_extra_ && out.size > 0 && out.bytes[out.size - 1] == blank_) --out.size;
  if (add_dummy_prefix_ && as_suffix_) out.append(blank_);
}

}  // namespace mtl
