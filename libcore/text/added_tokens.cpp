#include "text/added_tokens.h"

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"
#include "text/unicode_categories.h"
#include "text/unicode_classes.h"

namespace mtl {

namespace {

/// \w in Rust's regular expressions: letters and other alphabetic characters, marks, decimal digits, connectors.
bool is_word(std::uint32_t code) {
  constexpr CategorySet kWord = kLetters | category_set(Category::M, Category::Nd, Category::Nl, Category::Pc);
  bool is_joiner = code == 0x200C || code == 0x200D;
  bool is_circled = (code >= 0x24B6 && code <= 0x24E9) || (code >= 0x1F130 && code <= 0x1F149) ||
                    (code >= 0x1F150 && code <= 0x1F169) || (code >= 0x1F170 && code <= 0x1F189);
  return is_in(kWord, code) || is_joiner || is_circled;
}

/// Returns the start of the whitespace that ends at `at`, but no earlier than `limit`.
std::size_t spaces_begin(std::string_view text, std::size_t at, std::size_t limit) {
  while (at > limit) {
    Utf8Char last = utf8_before(text, at);
    if (class_of(last.code) != CharClass::space) break;
    at -= last.length;
  }
  return at;
}

std::size_t spaces_end(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    Utf8Char next = next_utf8(text.data() + at, text.data() + text.size());
    if (class_of(next.code) != CharClass::space) break;
    at += next.length;
  }
  return at;
}

bool is_single_word(std::string_view text, std::size_t begin, std::size_t end) {
  if (begin > 0 && is_word(utf8_before(text, begin).code)) return false;
  return end == text.size() || !is_word(next_utf8(text.data() + end, text.data() + text.size()).code);
}

}  // namespace

TokenFinder::TokenFinder(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const std::string& content = tokens_[i].content;
    unsigned char first = content[0];
    if (!is_first_byte_[first]) first_bytes_ += content[0];
    is_first_byte_[first] = true;
    if (!indices_.add(content, static_cast<std::int32_t>(i)))
      fail(Exit::bad_data, "the added tokens need more than ", ByteTrie::kMaxNodes,
           " trie nodes; use a tokenizer with fewer or shorter ones");
  }
}

void TokenFinder::refuse_overlap(const Found& found) const {
  const auto token = std::ranges::find_if(tokens_, [&](const AddedToken& one) { return one.id == found.id; });
  fail(Exit::bad_data, "the added token \"", token->content,
       "\" (lstrip) lies in whitespace that the preceding token (rstrip) ",
       "has consumed, and Hugging Face's tokenizers library aborts on such text; change the text, or the lstrip or "
       "rstrip of these tokens");
}

bool TokenFinder::find(std::string_view text, std::size_t from, std::size_t done, Found& found) const {
  if (first_bytes_.empty()) return false;
  for (std::size_t at = from; at < text.size(); ++at) {
    if (first_bytes_.size() == 1) {
      at = text.find(first_bytes_[0], at);
      if (at == std::string_view::npos) return false;
    } else if (!is_first_byte_[byte_of(text[at])]) {
      continue;
    }
    const ByteTrie::Match longest = indices_.find_longest(text.substr(at));
    if (longest.length == 0) continue;
    const AddedToken* token = &tokens_[longest.number];
    std::size_t end = at + longest.length;
    if (token->is_text || (token->single_word && !is_single_word(text, at, end))) {
      at = end - 1;
      continue;
    }
    found.begin = token->lstrip ? std::max(spaces_begin(text, at, done), done) : at;
    found.end = found.next = end;
    found.id = token->id;
    if (token->rstrip) {
      // A run of whitespace may contain multiple tokens; scan it once.
      if (end < found.spaces || end >= found.spaces_end) found.spaces = end, found.spaces_end = spaces_end(text, end);
      found.end = found.spaces_end;
    }
    return true;
  }
  return false;
}

}  // namespace mtl
