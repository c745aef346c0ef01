// Megatron-LM's tokenizer flags, shared by the tools that read or make tokens.
#pragma once

#include "cli/flags.h"
#include "text/tokenizer.h"

namespace mtl {

/// Adds the tokenizer flags, from --tokenizer-type to --vocab-extra-ids. A notice reports given flags that the chosen
/// tokenizer does not use.
void add_tokenizer_flags(Flags& flags, TokenizerOptions& options);

/// For a Flags::check function of a tool that needs a tokenizer. Adds a problem for an unknown type, for each missing
/// flag that the tokenizer needs, and for each flag that the tokenizer refuses.
void check_tokenizer_flags(Flags& flags, const TokenizerOptions& options);

}  // namespace mtl
