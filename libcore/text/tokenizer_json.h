// Hugging Face's tokenizer.json, as far as it describes byte-level BPE: GPT-2, Llama 3, Qwen, GPT-NeoX, StarCoder and
// their like.
//
// Understood: model BPE (merges as strings or as pairs, ignore_merges; every byte must have a token, so that unk_token
// and fuse_unk have no work); pre_tokenizer ByteLevel, Split (Regex or String, Isolated; text/regex.h says which
// patterns), Digits, and a Sequence of those that ends with ByteLevel; normalizer NFC, or none; added tokens with all
// their properties; post_processor ByteLevel and TemplateProcessing. Everything else is refused by name with
// Error(bad_data): nothing in the file is passed over that would make ids differ. The "id" of an added token does not:
// Hugging Face's libraries number these tokens themselves, and so does this.
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
  std::vector<AddedToken> added;                            // some of which the model may have too
  std::vector<std::pair<std::int64_t, AddedToken>> listed;  // the same as the file lists them, with the ids it gives
  std::vector<SplitStep> split;                             // without steps, a text is one pre-token
  bool is_nfc = false;                                      // normalize first
  bool add_prefix_space = false;                            // a blank before every text that begins with none
  bool ignore_merges = false;             // ignore_merges: a pre-token that is a token is taken before any merge
  std::vector<std::int32_t> first, last;  // special tokens that the post-processor puts around a text

  /// The tokens of both kinds; added ones are its special ones.
  BpeVocabulary all_tokens(const std::string& path) const;
};

/// Errors begin with `path`.
TokenizerJson parse_tokenizer_json(std::string_view text, const std::string& path);

}  // namespace mtl
