// GPT-2's tokenizer in its plainest form, as a reference for BpeTokenizer. At each character, tries the pattern's
// alternatives one after another. For each merge, scans all pairs. Shares only the code that reads vocab.json and
// merges.txt with libcore/text. The character classes come from a golden file.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "tests/text/naive_bpe.h"
#include "text/bpe_vocabulary.h"

namespace mtl {

class ReferenceBpe {
 public:
  /// `classes` is the path to golden/tokenizer/unicode_classes.json. The word cache is cleared when it has more than
  /// `cached_words`.
  ReferenceBpe(const BpeVocabulary& vocabulary, const std::string& classes, std::size_t cached_words = 0)
      : classes_(0x110000, '.'), max_cached_words_(cached_words) {
    Json ranges = Json::read(classes);
    for (const char* key : {"L", "N", "S"}) {
      for (const Json& range : ranges.at(key).as_array()) {
        for (std::int64_t c = range.as_array()[0].as_int(); c <= range.as_array()[1].as_int(); ++c)
          classes_[static_cast<std::size_t>(c)] = key[0];
      }
    }
    for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id)
      ids_[std::string(vocabulary.tokens[id])] = static_cast<std::int32_t>(id);
    for (const Merge& merge : vocabulary.merges) ranks_.insert({cat(merge.left, " ", merge.right), ranks_.size()});
  }

  std::vector<std::int32_t> encode(std::string_view text) {
    std::vector<std::int32_t> ids;
    for (std::string_view pretoken : split(text)) {
      const std::vector<std::int32_t>& tokens = tokens_of(std::string(pretoken));
      ids.insert(ids.end(), tokens.begin(), tokens.end());
    }
    return ids;
  }

  std::vector<std::string_view> split(std::string_view text) const {
    std::vector<Char> chars = read_chars(text);
    std::vector<std::string_view> pretokens;
    for (std::size_t at = 0; at < chars.size();) {
      std::size_t end = match(text, chars, at);
      std::size_t bytes = end < chars.size() ? chars[end].offset : text.size();
      pretokens.push_back(text.substr(chars[at].offset, bytes - chars[at].offset));
      at = end;
    }
    return pretokens;
  }

  /// Returns a pre-token's tokens.
  std::vector<std::int32_t> merge(std::string_view pretoken) const {
    std::vector<std::string> symbols;
    for (char byte : pretoken) symbols.push_back(byte_stand_ins()[static_cast<unsigned char>(byte)]);
    std::string pair;
    merge_naively(symbols, [&](const std::string& left, const std::string& right) {
      pair.assign(left).append(" ").append(right);
      const auto found = ranks_.find(pair);
      return found == ranks_.end() ? std::nullopt : std::optional(found->second);
    });
    std::vector<std::int32_t> ids;
    for (const std::string& symbol : symbols) ids.push_back(ids_.at(symbol));
    return ids;
  }

 private:
  struct Char {
    std::size_t offset;
    char kind;  // L, N, S, or '.' for all others
  };

  /// Divides the text into characters. A byte becomes a character of kind '.' if it does not start a well-formed UTF-8
  /// character.
  std::vector<Char> read_chars(std::string_view text) const {
    std::vector<Char> chars;
    for (std::size_t at = 0; at < text.size();) {
      std::size_t length = utf8_length(text, at);
      std::uint32_t code = static_cast<unsigned char>(text[at]);
      if (length > 1) code &= 0xFFu >> (length + 1);
      for (std::size_t i = 1; i < length; ++i) code = code << 6 | (static_cast<unsigned char>(text[at + i]) & 0x3Fu);
      chars.push_back({at, length == 0 ? '.' : classes_[code]});
      at += length == 0 ? 1 : length;
    }
    return chars;
  }

  /// Finds the first alternative that matches at `at`, and returns where the match ends in `chars`:
  ///   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  static std::size_t match(std::string_view text, const std::vector<Char>& chars, std::size_t at) {
    std::string_view rest = text.substr(chars[at].offset);
    for (std::string_view contraction : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
      if (starts_with(rest, contraction)) return at + contraction.size();
    }
    auto run_end = [&](std::size_t from, char kind) {
      while (from < chars.size() && chars[from].kind == kind) ++from;
      return from;
    };
    for (char kind : {'L', 'N', '.'}) {
      std::size_t from = rest[0] == ' ' ? at + 1 : at;
      if (std::size_t end = run_end(from, kind); end > from) return end;
    }
    std::size_t end = run_end(at, 'S');
    return end == chars.size() || end == at + 1 ? end
                                                : end - 1;  // \s+(?!\S) leaves one character for the next pre-token
  }

  const std::vector<std::int32_t>& tokens_of(const std::string& pretoken) {
    if (cache_.size() > max_cached_words_) cache_.clear();
    auto [known, is_new] = cache_.try_emplace(pretoken);
    if (is_new) known->second = merge(pretoken);
    return known->second;
  }

  std::vector<char> classes_;
  std::unordered_map<std::string, std::int32_t> ids_;
  std::unordered_map<std::string, std::size_t> ranks_;  // by the pair as merges.txt writes it
  std::size_t max_cached_words_;
  std::unordered_map<std::string, std::vector<std::int32_t>> cache_;
};

}  // namespace mtl
