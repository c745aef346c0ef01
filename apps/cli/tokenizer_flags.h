// Megatron's tokenizer flags, shared by the tools that read or make tokens.
#pragma once

#include "cli/flags.h"
#include "text/tokenizer.h"

namespace mtl {

/// Adds the tokenizer flags, --tokenizer-type to --vocab-extra-ids. Flags of tokenizers other than the chosen one get a
/// notice.
void add_tokenizer_flags(Flags& flags, TokenizerOptions& options);

/// For a Flags::check function of a tool that needs a tokenizer: adds a problem for each flag that the chosen tokenizer
/// lacks or does not take.
void check_tokenizer_flags(Flags& flags, const TokenizerOptions& options);

}  // namespace mtl
