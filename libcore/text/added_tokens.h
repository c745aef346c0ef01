// Tokens that are found in a text before it is cut into pre-tokens: special ones (<|endoftext|>) and others that were
// added to a vocabulary (runs of blanks).
//
// As Hugging Face's tokenizers do: going through the text once, at each place the longest token that stands there is
// taken and the search continues behind it; a token of single words is passed over where a word character stands on
// either side; lstrip and rstrip take the adjacent white space with it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/tokenizer.h"

namespace mtl {

struct AddedToken {
  std::string content;  // not empty
  std::int32_t id = 0;
  bool normalized = false;  // searched for in the normalized text, otherwise in the original
  bool lstrip = false, rstrip = false, single_word = false;
  bool special = false;
  bool is_text = false;  // where it is found, it is ordinary text (split_special_tokens)
};

class TokenFinder {
 public:
  TokenFinder() = default;
  explicit TokenFinder(std::vector<AddedToken> tokens);
  bool empty() const { return tokens_.empty(); }

  /// Calls use_text(piece) for what lies between tokens, when it is not empty, and use_token(id), in their order. A
  /// token of white space with lstrip that lies in the white space of the one before it has no part of the text left:
  /// it is dropped, as in Hugging Face's library, or Error(bad_data) where that library aborts.
  template <class UseText, class UseToken>
  void cut(std::string_view text, UseText&& use_text, UseToken&& use_token) const {
    std::size_t done = 0;
    Found found;
    for (std::size_t from = 0; find(text, from, done, found); from = found.next) {
      if (found.begin > found.end) refuse(found);
      if (done < found.begin) use_text(text.substr(done, found.begin - done));
      if (found.begin < found.end) use_token(found.id);
      done = found.end;
    }
    if (done < text.size()) use_text(text.substr(done));
  }

 private:
  struct Found {
    std::size_t begin, end;  // with the white space that belongs to it
    std::size_t next;        // where the search continues
    std::int32_t id;
    std::size_t spaces = 0, spaces_end = 0;  // the white space that was looked at last
  };
  /// The next token at or behind `from`; its white space begins no earlier than `done`.
  bool find(std::string_view text, std::size_t from, std::size_t done, Found& found) const;
  const AddedToken* longest_at(std::string_view text, std::size_t at) const;
  [[noreturn]] void refuse(const Found& found) const;

  std::vector<AddedToken> tokens_;
  std::string first_bytes_;  // with which tokens begin
  std::array<bool, 256> begins_{};
  std::unordered_map<std::uint64_t, std::uint32_t> children_;  // node << 8 | byte: a node of the tree of all tokens
  std::vector<std::int32_t> token_at_ = {-1};                  // by node, the token that ends there
};

/// Takes out the tokens and leaves the text between them to another encoder. Its finder must outlive it.
class CuttingEncoder : public Encoder {
 public:
  CuttingEncoder(std::unique_ptr<Encoder> plain, const TokenFinder& finder)
      : plain_(std::move(plain)), finder_(finder) {}
  void append(std::string_view text, std::vector<std::int32_t>& ids) override {
    finder_.cut(
        text, [&](std::string_view piece) { plain_->append(piece, ids); }, [&](std::int32_t id) { ids.push_back(id); });
  }

 private:
  std::unique_ptr<Encoder> plain_;
  const TokenFinder& finder_;
};

}  // namespace mtl
