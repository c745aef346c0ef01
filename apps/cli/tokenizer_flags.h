// Megatron's tokenizer flags, shared by the tools that read or make tokens.
#pragma once

#include "cli/flags.h"
#include "text/tokenizer.h"

namespace mtl {

/// --tokenizer-type, --vocab-file, --merge-file, --tokenizer-model, --tokenizer-hf-include-special-tokens,
/// --vocab-size,
/// --null-tokenizer-eod, --tiktoken-pattern, --tiktoken-num-special-tokens, --tiktoken-special-tokens,
/// --legacy-tokenizer, --vocab-extra-ids.
void add_tokenizer_flags(Flags& flags, TokenizerOptions& options);

/// Adds a problem for everything that load_tokenizer would miss, and a notice for every flag that is another
/// tokenizer's. Call it in a Flags::check function of a tool that
/// needs a tokenizer.
void check_tokenizer_flags(Flags& flags, const TokenizerOptions& options);

}  // namespace mtl
