// The files next to a tokenizer.json that change its tokenizer: tokenizer_config.json, special_tokens_map.json and
// added_tokens.json, read in the same way as by transformers 5.23 (PreTrainedTokenizerFast.from_pretrained).
//
// - If tokenizer_config.json has "added_tokens_decoder", the tokens listed there replace the properties of the tokens
//   in tokenizer.json, and the other two files are not read. Otherwise, each key in special_tokens_map.json replaces
//   that key in tokenizer_config.json, and added_tokens.json adds tokens.
// - Special tokens are the seven standard tokens, every other "..._token" that is a string, and extra_special_tokens
//   (or additional_special_tokens, its old name). Special tokens that are not added tokens yet become added tokens.
// - With "split_special_tokens", special tokens are ordinary text.
//
// Throws Error(bad_data) with the file and the key for a value that transformers rejects, or that would make it load
// another file.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/added_tokens.h"
#include "text/tokenizer_json.h"

namespace mtl {

struct HfCompanions {
  /// A token to add to those in tokenizer.json, or new properties for one of them. The token's id is not set.
  struct Addition {
    AddedToken token;
    std::string file;  // the file that lists the token
  };

  std::vector<std::pair<std::string, std::string>> files;  // name and contents of each file that exists
  std::vector<Addition> additions;                         // in the order in which transformers adds them
  bool is_rebuilt = false;  // tokenizer_class rebuilds the tokenizer, so that added tokens lose their properties
  bool split_special_tokens = false;
  // end: eos_token, otherwise sep_token. pad: pad_token unless it is also another special token. Both can be empty.
  std::string end, pad;
  std::optional<bool> add_prefix_space;
  std::string add_prefix_space_file;  // path of the file that sets add_prefix_space

  /// The names of these files, which are in the same folder as tokenizer.json.
  static const std::vector<std::string>& names();
};

/// Reads the files next to `path`, a tokenizer.json that was parsed into `parts`.
HfCompanions read_hf_companions(const std::string& path, const TokenizerJson& parts);

}  // namespace mtl
