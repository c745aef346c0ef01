#include "cli/flags/tokenizer_flags.h"

#include <algorithm>

#include "base/str.h"
#include "cli/share_files.h"
#include "text/sentencepiece_tokenizer.h"
#include "text/tiktoken.h"

namespace mtl {

namespace {

const std::vector<std::string> kSupported = {"GPT2BPETokenizer",       "HuggingFaceTokenizer",      "TikTokenizer",
                                             "SentencePieceTokenizer", "GPTSentencePieceTokenizer", "Llama2Tokenizer",
                                             "NullTokenizer"};
const std::vector<std::string> kRefused = {"BertWordPieceLowerCase", "BertWordPieceCase"};

std::string digits_of(std::string text) {
  std::erase_if(text, [](unsigned char c) { return std::isdigit(c) == 0; });
  return text;
}

void check_type(Flags& flags, const std::string& type) {
  auto is_in = [&](const std::vector<std::string>& names) { return std::count(names.begin(), names.end(), type) > 0; };
  if (type.empty() || is_in(kSupported)) return;
  std::string where = "--tokenizer-type " + type;
  if (is_in(kRefused)) {
    flags.problem(where, "is not supported; choose one of " + join(kSupported, ", "));
  } else {
    const std::string guess = nearest(type, kSupported);
    const bool is_typo = !guess.empty() && digits_of(guess) == digits_of(type);  // Llama3Tokenizer means no Llama 2
    flags.problem(where, is_typo ? "is unknown; did you mean " + guess + "?"
                                 : "is unknown; choose one of " + join(kSupported, ", ") +
                                       " (a model of Hugging Face has HuggingFaceTokenizer --tokenizer-model FOLDER)");
  }
}

bool is_type(const TokenizerOptions& options, const std::vector<std::string>& types) {
  return std::count(types.begin(), types.end(), options.type.empty() ? "GPT2BPETokenizer" : options.type) > 0;
}

}  // namespace

Flags::Flag& add_vocab_size_flag(Flags& flags, std::optional<std::int64_t>& tokens, const std::string& help) {
  return flags.add("--vocab-size", &tokens, "N", help).within({1, INT32_MAX});
}

void add_tokenizer_flags(Flags& flags, TokenizerOptions& options) {
  flags.section("Tokenizer");
  // Only a notice, because scripts pass all tokenizers' flags, whichever tokenizer they choose.
  const auto for_types = [&options](Flags::Flag& flag, const std::vector<std::string>& types) {
    flag.only_with("--tokenizer-type " + join(types, " or "), [&options, types] { return is_type(options, types); });
  };
  flags.add("--tokenizer-type", &options.type, "TYPE", "kind of tokenizer (default: GPT2BPETokenizer)")
      .suggest(kSupported);
  for_types(flags
                .add("--vocab-file,--vocab", &options.vocab_file, "FILE",
                     "vocab.json for GPT2BPETokenizer, or the name of an installed one, with its merges")
                .suggest({"gpt2"}),
            {"GPT2BPETokenizer"});
  for_types(flags.add("--merge-file", &options.merge_file, "FILE", "merges.txt for GPT2BPETokenizer"),
            {"GPT2BPETokenizer"});
  flags
      .add("--tokenizer-model", &options.tokenizer_model, "PATH",
           "HuggingFaceTokenizer: a tokenizer.json of byte-level BPE, or its folder; TikTokenizer: its file of "
           "ranks; "
           "SentencePiece types: a tokenizer.model, or its folder")
      .only_with("with --tokenizer-type GPT2BPETokenizer or NullTokenizer", [&options] {
        return !is_type(options, {"GPT2BPETokenizer", "NullTokenizer"});
      });
  for_types(flags.add_switch("--tokenizer-hf-include-special-tokens", options.hf_special_tokens,
                             "HuggingFaceTokenizer: add the special tokens that its file defines around every text"),
            {"HuggingFaceTokenizer"});
  flags.add_switch("--tokenizer-hf-no-include-special-tokens", options.hf_special_tokens, "").inverted();
  add_vocab_size_flag(flags, options.vocab_size, "number of ids for NullTokenizer or TikTokenizer")
      .only_with("--tokenizer-type TikTokenizer or NullTokenizer", [&options] {
        return !options.names_tokenizer() || is_type(options, {"TikTokenizer", "NullTokenizer"});
      });
  for_types(flags
                .add("--null-tokenizer-eod,--null-tokenizer-eod-id", &options.null_tokenizer_eod, "ID",
                     "end-of-document id of NullTokenizer (default: vocabulary size - 1)")
                .within({0, INT32_MAX}),
            {"NullTokenizer"});
  for_types(flags.add("--tiktoken-pattern", &options.tiktoken.pattern, "NAME", "split pattern for TikTokenizer")
                .one_of({"v1", "v2"}),
            {"TikTokenizer"});
  for_types(flags
                .add("--tiktoken-num-special-tokens", &options.tiktoken.num_special_tokens, "N",
                     "special tokens of TikTokenizer, which have the first ids; 0: none")
                .within({0, INT32_MAX}),
            {"TikTokenizer"});
  for_types(flags
                .add("--tiktoken-special-tokens,--tokenizer-special-tokens", &options.tiktoken.special_tokens,
                     "TOKEN...", "names of the first special tokens in TikTokenizer; the others are <SPECIAL_i>")
                .only_with("with --tiktoken-num-special-tokens 0",
                           [&options] { return options.tiktoken.num_special_tokens > 0; }),
            {"TikTokenizer"});
  flags.add_switch(
      "--legacy-tokenizer", options.legacy_tokenizer,
      "give SentencePieceTokenizer <CLS>, <EOD> and their like, and Llama2Tokenizer <s> before every text, as "
      "Megatron-LM did up to core 0.16");
  flags
      .add("--vocab-extra-ids", &options.vocab_extra_ids, "N",
           "tokens <extra_id_0>... of a legacy SentencePieceTokenizer")
      .within({0, 10000});
  flags.check([&options] {
    if (options.vocab_file != "gpt2") return;
    options.vocab_file = share_file("gpt2/vocab.json");
    if (options.merge_file.empty()) options.merge_file = share_file("gpt2/merges.txt");
  });
}

void check_tokenizer_flags(Flags& flags, const TokenizerOptions& options) {
  const std::string type = options.type.empty() ? "GPT2BPETokenizer" : options.type;
  check_type(flags, type);
  auto needs = [&](const char* flag, bool is_there) {
    if (!is_there)
      flags.problem(flag, cat("is required by --tokenizer-type ", type, options.type.empty() ? ", the default" : ""));
  };
  if (type == "GPT2BPETokenizer") {
    needs("--vocab-file", !options.vocab_file.empty());
    needs("--merge-file", !options.merge_file.empty());
  }
  if (type == "HuggingFaceTokenizer") needs("--tokenizer-model", !options.tokenizer_model.empty());
  if (is_sentencepiece_type(type)) {
    needs("--tokenizer-model", !options.tokenizer_model.empty());
    if (options.parse_special_tokens)
      flags.problem(
          "--parse-special-tokens",
          "has no meaning for SentencePiece, which always finds user-defined symbols and never control pieces; "
          "remove it");
  }
  if (options.legacy_tokenizer && type != "SentencePieceTokenizer" && type != "Llama2Tokenizer")
    flags.problem("--legacy-tokenizer", "is only for SentencePieceTokenizer and Llama2Tokenizer; remove it");
  if (options.vocab_extra_ids != 0 && !(options.legacy_tokenizer && type == "SentencePieceTokenizer"))
    flags.problem("--vocab-extra-ids", "is only for SentencePieceTokenizer with --legacy-tokenizer; remove it");
  if (type == "TikTokenizer") {
    needs("--tokenizer-model", !options.tokenizer_model.empty());
    try {
      check_tiktoken_options(options.tiktoken);
    } catch (const Error& error) {
      flags.problem(error.where(), error.message());
    }
  }
  if (type == "NullTokenizer") needs("--vocab-size", options.vocab_size.has_value());
}

}  // namespace mtl
