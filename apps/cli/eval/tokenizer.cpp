#include "cli/eval/tokenizer.h"

#include "cli/flags/model_tokenizer.h"
#include "cli/flags/tokenizer_flags.h"

namespace mtl {

void check_model_tokenizer_flags(Flags& flags, const TokenizerOptions& given) {
  std::vector<std::string> names;
  for (const char* flag :
       {"--tokenizer-type", "--vocab-file", "--merge-file", "--tokenizer-model",
        "--tokenizer-hf-include-special-tokens", "--vocab-size", "--null-tokenizer-eod", "--legacy-tokenizer",
        "--vocab-extra-ids", "--tiktoken-pattern", "--tiktoken-num-special-tokens", "--tiktoken-special-tokens"}) {
    if (flags.was_given(flag)) names.push_back(flag);
  }
  if (names != std::vector<std::string>{"--vocab-size"} && !names.empty()) check_tokenizer_flags(flags, given);
}

ModelSupplement supplement_of(const TokenizerOptions& given, std::optional<std::int64_t> num_attention_heads) {
  return {given.names_tokenizer() ? std::nullopt : given.vocab_size, num_attention_heads};
}

std::unique_ptr<Tokenizer> tokenizer_of_model(const TokenizerOptions& given, ModelSource& source, Console& console) {
  auto tokenizer = choose_tokenizer(given, source.folder());
  source.trim_vocabulary(tokenizer ? std::optional<std::int64_t>(tokenizer->vocab_size()) : std::nullopt, console);
  const std::int64_t vocabulary = source.config().vocab_size;
  if (!given.names_tokenizer() && given.vocab_size.value_or(vocabulary) != vocabulary)
    fail(Exit::usage, "--vocab-size ", *given.vocab_size, " differs from the vocabulary size ", vocabulary, " of ",
         source.folder(), "; leave the flag out");
  return tokenizer;
}

}  // namespace mtl
