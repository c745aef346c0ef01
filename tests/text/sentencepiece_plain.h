// Implements SentencePiece's BPE and unigram algorithms by their definitions: on entire texts, using strings and maps.
// BPE takes quadratic time.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/text/naive_bpe.h"
#include "text/sentencepiece_model.h"
#include "text/sentencepiece_normalizer.h"

namespace mtl {

inline std::vector<std::string> characters_of(std::string_view text) {
  std::vector<std::string> out;
  for (char byte : text) {
    if ((byte & 0xC0) != 0x80) out.emplace_back();
    out.back() += byte;
  }
  return out;
}

class PlainSentencePiece {
 public:
  explicit PlainSentencePiece(const SentencePieceModel& model)
      : model_(model), normalizer_(model.normalizer, model.whitespace_as_suffix, {}, "test.model") {
    for (std::size_t id = 0; id < model.pieces.size(); ++id) {
      const SentencePiece& piece = model.pieces[id];
      if (piece.kind == SentencePiece::Kind::normal) ids_[piece.text] = static_cast<std::int32_t>(id);
      if (piece.kind == SentencePiece::Kind::normal) lowest_score_ = std::min(lowest_score_, piece.score);
      longest_piece_ = std::max(longest_piece_, piece.text.size());
    }
  }

  std::string normalized(std::string_view text) const {
    SentencePieceNormalizer::Result result;
    normalizer_.normalize(text, result);
    return to_text(result.view());
  }

  std::vector<std::int32_t> encode(std::string_view text) const {
    std::vector<std::int32_t> ids;
    std::vector<std::string> characters = characters_of(normalized(text));
    for (const std::string& piece :
         model_.algorithm == SentencePieceModel::Algorithm::bpe ? merge(characters) : best_path(characters)) {
      auto found = ids_.find(piece);
      if (found != ids_.end()) {
        ids.push_back(found->second);
      } else {
        for (char byte : piece) ids.push_back(model_.byte_ids[static_cast<unsigned char>(byte)]);
      }
    }
    return ids;
  }

 private:
  std::vector<std::string> merge(std::vector<std::string> symbols) const {
    merge_naively(symbols, [&](const std::string& left, const std::string& right) {
      const auto found = ids_.find(left + right);
      return found == ids_.end() ? std::nullopt : std::optional(-model_.piece(found->second).score);
    });
    return symbols;
  }

  /// Returns the pieces whose scores have the largest sum, using the Viterbi algorithm.
  std::vector<std::string> best_path(const std::vector<std::string>& characters) const {
    struct Node {
      bool reached = false;
      float sum = 0;
      std::size_t start = 0;
    };
    std::vector<Node> nodes(characters.size() + 1);
    auto offer = [&](std::size_t start, std::size_t end, float sum) {
      if (!nodes[end].reached || sum > nodes[end].sum) nodes[end] = {.reached = true, .sum = sum, .start = start};
    };
    for (std::size_t start = 0; start < characters.size(); ++start) {
      if (std::fabs(nodes[start].sum) > 100000) {  // as in the library: restores float32 precision
        for (std::size_t i = characters.size(); i > start; --i) {
          if (nodes[i].reached) nodes[i].sum -= nodes[start].sum;
        }
        nodes[start].sum = 0;
      }
      std::string piece;
      for (std::size_t end = start; end < characters.size() && piece.size() <= longest_piece_;) {
        piece += characters[end++];
        auto found = ids_.find(piece);
        if (found != ids_.end()) offer(start, end, model_.piece(found->second).score + nodes[start].sum);
      }
      if (ids_.count(characters[start]) == 0) offer(start, start + 1, lowest_score_ - 10 + nodes[start].sum);
    }
    std::vector<std::string> out;
    for (std::size_t end = characters.size(); end > 0; end = nodes[end].start) {
      std::string piece;
      for (std::size_t i = nodes[end].start; i < end; ++i) piece += characters[i];
      out.push_back(piece);
    }
    std::reverse(out.begin(), out.end());
    return out;
  }

  const SentencePieceModel& model_;
  SentencePieceNormalizer normalizer_;
  std::map<std::string, std::int32_t> ids_;
  float lowest_score_ = 0;
  std::size_t longest_piece_ = 0;
};

}  // namespace mtl
