// Reads Hugging Face's tokenizer.json for byte-level BPE: GPT-2, Llama 3, Qwen, GPT-NeoX, StarCoder and similar
// tokenizers.
//
// Supported:
// - model BPE: merges as strings or as pairs, ignore_merges; every byte must have a token, so that unk_token and
//   fuse_unk have no effect
// - pre_tokenizer ByteLevel, Split (Regex or String with the patterns in text/regex.h, Isolated; or inverted and
//   Removed, if the pattern has a hand-written splitter), Digits, and a Sequence of those that ends with ByteLevel
// - normalizer NFC, a Sequence of it, or none
// - added tokens with all their properties
// - post_processor ByteLevel, TemplateProcessing, RobertaProcessing, BertProcessing, and a Sequence of those
// - decoder ByteLevel, a Sequence of it, or none
//
// Throws Error(bad_data) with the feature's name for anything else that could change ids. An added token's "id" cannot
// change ids, because Hugging Face's libraries, like mtl, number added tokens themselves.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe_vocabulary.h"
#include "text/splitter.h"

namespace mtl {

struct TokenizerJson {
  BpeVocabulary vocabulary;                                 // the model's tokens alone
  std::vector<AddedToken> added;                            // without duplicates; some may also be model tokens
  std::vector<std::pair<std::int64_t, AddedToken>> listed;  // all entries of added_tokens, with the ids in the file
  std::vector<SplitStep> split;                             // without steps, a text is one pre-token
  bool is_nfc = false;                                      // normalize to NFC first
  bool add_prefix_space = false;                            // put a blank before text that does not start with one
  bool ignore_merges = false;                               // a pre-token that is a token is not merged
  std::vector<std::int32_t> first, last;                    // special tokens that the post-processor adds around text

  /// Returns the model's tokens and the added tokens, which are special. Throws Error(bad_data) with a message that
  /// starts with `path`.
  BpeVocabulary all_tokens(const std::string& path) const;
};

/// Throws Error(bad_data) with a message that starts with `path`.
TokenizerJson parse_tokenizer_json(std::string_view text, const std::string& path);

}  // namespace mtl
