// Megatron-LM's tokenizer flags, shared by the tools that read or make tokens.
#pragma once

#include "cli/flags.h"
#include "text/tokenizer.h"

namespace mtl {

/// Adds the tokenizer flags, from --tokenizer-type to --vocab-extra-ids. A notice reports given flags that the chosen
/// tokenizer does not use.
void add_tokenizer_flags(Flags& flags, TokenizerOptions& options);

/// For a Flags::check function of a tool that needs a tokenizer: adds a problem for an unknown type, and for each flag
/// that the tokenizer needs and lacks, or refuses.
void check_tokenizer_flags(Flags& flags, const TokenizerOptions& options);

}  // namespace mtl
