// A byte-level BPE vocabulary and its files: reads and writes vocab.json and merges.txt, writes GPT-2's tokenizer.json
// (text/tokenizer_json.h reads it).
//
// Files spell a token with one stand-in character per byte, so that every token is printable. Printable Latin-1 bytes
// stand for themselves, and characters from U+0100 on stand for the other bytes (U+0120 for a blank). Functions that
// read files throw Error(bad_data) with the file name.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/string_list.h"

namespace mtl {

class Json;

/// A pair of tokens.
struct Merge {
  std::string_view left, right;

  /// The merged token.
  std::string merged() const { return std::string(left).append(right); }
  bool operator==(const Merge&) const = default;
};

/// Merges by rank, kept as lines in merges.txt format. A view is valid until the list changes.
class MergeList {
 public:
  std::size_t size() const { return bounds_.size(); }
  bool empty() const { return bounds_.empty(); }
  Merge operator[](std::size_t rank) const {
    const Bounds bounds = bounds_[rank];
    const std::size_t end = rank + 1 < size() ? bounds_[rank + 1].begin : lines_.size();
    const std::string_view line(lines_.data() + bounds.begin, end - bounds.begin - 1);
    return {line.substr(0, bounds.left_size), line.substr(bounds.left_size + 1)};
  }
  IndexIterator<MergeList> begin() const { return {*this, 0}; }
  IndexIterator<MergeList> end() const { return {*this, size()}; }

  void reserve(std::size_t merges, std::size_t bytes) {
    bounds_.reserve(merges);
    lines_.reserve(bytes);
  }
  /// `merge` must not be a view of this list.
  void push_back(const Merge& merge) {
    push_line(std::string(merge.left).append(" ").append(merge.right).append("\n"), merge.left.size());
  }
  /// Appends a merge, given as "left right\n", in which the left token has `left_size` bytes. `line` must not be a view
  /// of this list.
  void push_line(std::string_view line, std::size_t left_size) {
    bounds_.push_back({static_cast<std::uint32_t>(lines_.size()), static_cast<std::uint32_t>(left_size)});
    append_limited(lines_, line);
  }
  /// Returns all merges, one line "left right" each.
  std::string_view lines() const { return lines_; }

 private:
  /// Where a merge's line begins in lines_, and the size of its left token.
  struct Bounds {
    std::uint32_t begin, left_size;
  };
  std::string lines_;
  std::vector<Bounds> bounds_;  // by rank
};

struct BpeVocabulary {
  StringList tokens;                  // by id, in stand-in characters; empty for an id without a token
  MergeList merges;                   // by rank
  std::vector<std::int32_t> special;  // ids of tokens spelled without stand-ins: <|endoftext|>, added tokens

  /// Returns a token's id, or -1.
  std::int32_t find(std::string_view token) const;
};

inline constexpr const char* kEndOfText = "<|endoftext|>";

/// The stand-in character of every byte, as UTF-8.
const std::array<std::string, 256>& byte_stand_ins();
/// Returns a token's bytes. Returns the token unchanged if it contains a character that does not stand for a byte, as
/// some special tokens do.
std::string token_bytes(std::string_view token);

/// A file's contents, and its name for error messages.
struct NamedText {
  std::string_view text;
  std::string name;
};
/// Parses vocab.json, an object {token: id}, and merges.txt, which has one merge per line, ended by LF or CRLF. Skips
/// empty lines and a first line that starts with "#version". If <|endoftext|> is a token, it is special.
BpeVocabulary parse_vocab_and_merges(const NamedText& vocab, const NamedText& merges);
BpeVocabulary read_vocab_and_merges(const std::string& vocab_file, const std::string& merge_file);

/// Parses "a b" into a merge, which is a view of `line`. Returns nothing for a line of any other form.
std::optional<Merge> parse_merge(std::string_view line);
/// Adds a token. Returns false if the token already has this id. Throws if the id is out of range or belongs to another
/// token, or if the token is not Unicode text.
bool put_token(BpeVocabulary& vocabulary, const std::string& path, std::string_view token, std::int64_t id);
/// Adds the tokens in a JSON object {token: id}. Throws if a token is listed twice. (BpeModel rejects a token with two
/// ids.)
void put_tokens(BpeVocabulary& vocabulary, const std::string& path, const Json& object);

/// Returns the XXH3 hash of vocab_json_text(), merges_text() and `rules`, concatenated. If `rules` describes everything
/// else that affects ids, tokenizers with equal hashes encode text in the same way.
std::uint64_t hash_of(const BpeVocabulary& vocabulary, std::string_view rules);

/// Return the contents of a vocabulary's files, byte for byte as Hugging Face's libraries write them.
std::string vocab_json_text(const BpeVocabulary& vocabulary);
std::string merges_text(const BpeVocabulary& vocabulary);
std::string tokenizer_json_text(const BpeVocabulary& vocabulary);
/// `end_token` is the end-of-document token's text.
std::string tokenizer_config_text(const std::string& end_token);

}  // namespace mtl
