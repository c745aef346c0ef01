// A byte-level BPE vocabulary and the files that hold it: vocab.json, merges.txt, and how GPT-2's tokenizer.json is
// written (text/tokenizer_json.h reads it).
//
// In files a token is spelled with one stand-in character for each of its bytes, so that every token is printable:
// the printable bytes of Latin-1 stand for themselves, the others for U+0100 and up (a blank is U+0120).
// Readers throw Error(bad_data) that names the file.
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

  /// The token that they become.
  std::string joined() const { return std::string(left).append(right); }
  bool operator==(const Merge&) const = default;
};

/// Merges by rank, kept as merges.txt has them. A view is valid until the list changes.
class MergeList {
 public:
  std::size_t size() const { return places_.size(); }
  bool empty() const { return places_.empty(); }
  Merge operator[](std::size_t rank) const {
    const Place place = places_[rank];
    const std::size_t end = rank + 1 < size() ? places_[rank + 1].begin : lines_.size();
    const std::string_view line(lines_.data() + place.begin, end - place.begin - 1);
    return {line.substr(0, place.left_size), line.substr(place.left_size + 1)};
  }
  IndexIterator<MergeList> begin() const { return {*this, 0}; }
  IndexIterator<MergeList> end() const { return {*this, size()}; }

  void reserve(std::size_t merges, std::size_t bytes) {
    places_.reserve(merges);
    lines_.reserve(bytes);
  }
  /// The parts of `merge` are not those of a merge of this list.
  void push_back(const Merge& merge) {
    push_line(std::string(merge.left).append(" ").append(merge.right).append("\n"), merge.left.size());
  }
  /// "left right\n", of which the first `left_size` bytes are the left token.
  void push_line(std::string_view line, std::size_t left_size) {
    places_.push_back({static_cast<std::uint32_t>(lines_.size()), static_cast<std::uint32_t>(left_size)});
    append_short(lines_, line);
  }
  /// "left right", a line for each.
  std::string_view lines() const { return lines_; }

 private:
  struct Place {
    std::uint32_t begin, left_size;
  };
  std::string lines_;
  std::vector<Place> places_;
};

struct BpeVocabulary {
  StringList tokens;                  // by id, in stand-in characters; empty where an id has no token
  MergeList merges;                   // the pairs to join, the most urgent first
  std::vector<std::int32_t> special;  // ids that stand for no text: <|endoftext|>

  /// The id of a token, or -1.
  std::int32_t find(std::string_view token) const;
};

inline constexpr const char* kEndOfText = "<|endoftext|>";

/// The stand-in character of every byte, as UTF-8.
const std::array<std::string, 256>& byte_stand_ins();
/// A token's bytes. A token with a character that maps to no byte (some special tokens) is returned unchanged.
std::string token_bytes(std::string_view token);

/// The contents of a file, and its name in errors.
struct NamedText {
  std::string_view text;
  std::string name;
};
/// vocab.json is an object {token: id}; merges.txt has a merge a line, whose line ends may be CRLF. Empty lines are
/// passed over, and so is the first one when it begins with "#version". Special is <|endoftext|>, when it is a token.
BpeVocabulary parse_vocab_and_merges(const NamedText& vocab, const NamedText& merges);
BpeVocabulary read_vocab_and_merges(const std::string& vocab_file, const std::string& merge_file);

/// "a b" as a merge of views into it; empty when it is anything else.
std::optional<Merge> parse_merge(std::string_view line);
/// Adds a token; false when it had this id already. Throws when the id is out of range or belongs to another.
bool put_token(BpeVocabulary& vocabulary, const std::string& path, std::string_view token, std::int64_t id);
/// Adds the tokens of a JSON object {token: id}. BpeModel refuses a token with two ids.
void put_tokens(BpeVocabulary& vocabulary, const std::string& path, const Json& object);

/// Two vocabularies with the same hash encode alike, where `rules` says all else that their tokenizers differ in. XXH3
/// of vocab_json_text(), merges_text() and `rules`, one after another.
std::uint64_t hash_of(const BpeVocabulary& vocabulary, std::string_view rules);

/// The contents of a vocabulary's files, byte for byte as Hugging Face's libraries write them.
std::string vocab_json_text(const BpeVocabulary& vocabulary);
std::string merges_text(const BpeVocabulary& vocabulary);
std::string tokenizer_json_text(const BpeVocabulary& vocabulary);
/// `end_token` is the text of the end-of-document token.
std::string tokenizer_config_text(const std::string& end_token);

}  // namespace mtl
