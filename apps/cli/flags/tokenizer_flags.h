// Megatron-LM's tokenizer flags, shared by all tools that read or make tokens.
#pragma once

#include "cli/flags.h"
#include "text/tokenizer.h"

namespace mtl {

/// Adds --vocab-size, a number of tokens without padding.
void add_vocab_size_flag(Flags& flags, std::optional<std::int64_t>& tokens, const std::string& help,
                         const Flags::Rule& rule = no_rule);

/// Adds the tokenizer flags, from --tokenizer-type to --vocab-extra-ids. A notice reports flags that the chosen
/// tokenizer does not use.
void add_tokenizer_flags(Flags& flags, TokenizerOptions& options);

/// For Flags::check in tools that need a tokenizer. Adds a problem for an unknown type, for each flag the tokenizer
/// needs but lacks, and for each flag it refuses.
void check_tokenizer_flags(Flags& flags, const TokenizerOptions& options);

}  // namespace mtl
