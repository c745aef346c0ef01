// Finds added tokens in text before the text is split into pre-tokens: special tokens (<|endoftext|>) and other tokens
// that were added to a vocabulary (runs of blanks).
//
// Like Hugging Face's tokenizers, scans the text once, takes the longest token at each position, and continues after
// it. If a single_word token is next to a word character, it does not count, but the scan still continues after it.
// lstrip and rstrip extend a token over the adjacent whitespace.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/byte_trie.h"
#include "text/tokenizer.h"

namespace mtl {

struct AddedToken {
  std::string content;  // not empty
  std::int32_t id = 0;
  bool normalized = false;  // searched for in the normalized text, otherwise in the original
  bool lstrip = false, rstrip = false, single_word = false;
  bool special = false;
  bool is_text = false;  // treat the token as ordinary text (split_special_tokens)
};

class TokenFinder {
 public:
  TokenFinder() = default;
  explicit TokenFinder(std::vector<AddedToken> tokens);
  bool empty() const { return tokens_.empty(); }

  /// Calls use_text(part) for each non-empty part of the text between tokens and use_token(id) for each token, in text
  /// order. A whitespace token with lstrip may lie within whitespace that the previous token took (rstrip). We then do
  /// the same as Hugging Face's library: drop the token, or throw Error(bad_data) where the library aborts.
  template <class UseText, class UseToken>
  void cut(std::string_view text, UseText&& use_text, UseToken&& use_token) const {
    std::size_t done = 0;
    Found found;
    for (std::size_t from = 0; find(text, from, done, found); from = found.next) {
      if (found.begin > found.end) refuse_overlap(found);
      if (done < found.begin) use_text(text.substr(done, found.begin - done));
      if (found.begin < found.end) use_token(found.id);
      done = found.end;
    }
    if (done < text.size()) use_text(text.substr(done));
  }

 private:
  struct Found {
    std::size_t begin, end;  // including whitespace that the token takes
    std::size_t next;        // where the search continues
    std::int32_t id;
    std::size_t spaces = 0, spaces_end = 0;  // the run of whitespace scanned last for rstrip
  };
  /// Finds the next token at or after `from`. Returns false if there is none. lstrip does not take whitespace before
  /// `done`.
  bool find(std::string_view text, std::size_t from, std::size_t done, Found& found) const;
  [[noreturn]] void refuse_overlap(const Found& found) const;

  std::vector<AddedToken> tokens_;
  std::string first_bytes_;  // distinct first bytes of the tokens
  std::array<bool, 256> is_first_byte_{};
  ByteTrie indices_;  // of the tokens, by content
};

/// Emits the ids of the tokens that `finder` finds, and passes the text between them to `plain`. The caller must keep
/// `finder` alive.
class AddedTokenEncoder : public Encoder {
 public:
  AddedTokenEncoder(std::unique_ptr<Encoder> plain, const TokenFinder& finder)
      : plain_(std::move(plain)), finder_(finder) {}
  void append(std::string_view text, std::vector<std::int32_t>& ids) override {
    finder_.cut(
        text, [&](std::string_view part) { plain_->append(part, ids); }, [&](std::int32_t id) { ids.push_back(id); });
  }

 private:
  std::unique_ptr<Encoder> plain_;
  const TokenFinder& finder_;
};

}  // namespace mtl
