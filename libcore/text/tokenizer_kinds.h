// The table of tokenizers: which flags each reads, and how it is opened.
#pragma once

#include "text/tokenizer.h"

namespace mtl {

/// A row of the table of tokenizers.
struct TokenizerKind {
  /// A flag that the tokenizer reads and, if it needs it, whether the flag is given.
  struct Flag {
    constexpr Flag(const char* flag, bool (*given)(const TokenizerOptions&) = nullptr) : name(flag), is_given(given) {}
    const char* name;
    bool (*is_given)(const TokenizerOptions&);
  };
  std::string_view type;  // the name in Megatron-LM
  std::vector<Flag> flags;
  /// Opens the tokenizer for load_tokenizer(), with all flags that it needs.
  std::unique_ptr<Tokenizer> (*open)(const TokenizerOptions&);
  std::vector<std::string> (*files)(const TokenizerOptions&);  // for tokenizer_files()
  const char* fixed_specials = nullptr;                        // why --parse-special-tokens has no meaning

  /// `flag` is the flag's main name.
  bool reads(std::string_view flag) const;
};
/// Returns all kinds, the default first.
const std::vector<TokenizerKind>& tokenizer_kinds();
/// Returns the kind with this type, the default if it is empty, or nullptr.
const TokenizerKind* find_tokenizer_kind(std::string_view type);

}  // namespace mtl
