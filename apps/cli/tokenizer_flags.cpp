#include "cli/tokenizer_flags.h"

#include <algorithm>

#include "base/str.h"
#include "text/sentencepiece_tokenizer.h"
#include "text/tiktoken.h"

namespace mtl {

namespace {

const std::vector<std::string> kSupported = {"GPT2BPETokenizer",       "HuggingFaceTokenizer",      "TikTokenizer",
                                             "SentencePieceTokenizer", "GPTSentencePieceTokenizer", "Llama2Tokenizer",
                                             "NullTokenizer"};
const std::vector<std::string> kRefused = {"BertWordPieceLowerCase", "BertWordPieceCase"};

void check_type(Flags& flags, const std::string& type) {
  auto is_in = [&](const std::vector<std::string>& names) { return std::count(names.begin(), names.end(), type) > 0; };
  if (type.empty() || is_in(kSupported)) return;
  std::string where = "--tokenizer-type " + type;
  if (is_in(kRefused)) {
    flags.problem(where, "this tokenizer is not supported; use " + join(kSupported, ", "));
  } else {
    std::string guess = nearest(type, kSupported);
    flags.problem(where,
                  guess.empty() ? "choose one of " + join(kSupported, ", ") : "unknown; did you mean " + guess + "?");
  }
}

/// Flags of other tokenizers are no mistake, since scripts hand all of them on, but they do nothing: that is said.
void notice_idle_flags(Flags& flags, const TokenizerOptions& options, const std::string& type) {
  const TokenizerOptions absent;
  const bool is_gpt2 = type == "GPT2BPETokenizer", is_hf = type == "HuggingFaceTokenizer";
  const bool is_tiktoken = type == "TikTokenizer", is_null = type == "NullTokenizer";
  auto is_for = [&](const char* flag, bool is_given, bool is_meant, const char* owner) {
    if (is_given && !is_meant) flags.notice(cat(flag, ": does nothing for ", type, "; it is for ", owner));
  };
  is_for("--vocab-file", !options.vocab_file.empty(), is_gpt2, "GPT2BPETokenizer");
  is_for("--merge-file", !options.merge_file.empty(), is_gpt2, "GPT2BPETokenizer");
  is_for("--tokenizer-model", !options.tokenizer_model.empty(), !is_gpt2 && !is_null,
         "HuggingFaceTokenizer, TikTokenizer and SentencePiece types");
  is_for("--tokenizer-hf-include-special-tokens", options.hf_special_tokens, is_hf, "HuggingFaceTokenizer");
  is_for("--vocab-size", options.vocab_size.has_value(), is_tiktoken || is_null, "TikTokenizer and NullTokenizer");
  is_for("--null-tokenizer-eod", options.null_tokenizer_eod.has_value(), is_null, "NullTokenizer");
  const TiktokenOptions &tiktoken = options.tiktoken, &usual = absent.tiktoken;
  is_for("--tiktoken-pattern", tiktoken.pattern != usual.pattern, is_tiktoken, "TikTokenizer");
  is_for("--tiktoken-num-special-tokens", tiktoken.num_special_tokens != usual.num_special_tokens, is_tiktoken,
         "TikTokenizer");
  is_for("--tiktoken-special-tokens", tiktoken.special_tokens != usual.special_tokens, is_tiktoken, "TikTokenizer");
  is_for("--parse-special-tokens", options.parse_special_tokens, is_gpt2 || is_tiktoken || is_sentencepiece_type(type),
         is_hf ? "GPT2BPETokenizer and TikTokenizer; this one always finds its tokens in a text"
               : "GPT2BPETokenizer and TikTokenizer");
}

}  // namespace

void add_tokenizer_flags(Flags& flags, TokenizerOptions& options) {
  flags.section("Tokenizer");
  flags.add("--tokenizer-type", &options.type, "TYPE", join(kSupported, ", ") + "; GPT2BPETokenizer when absent");
  flags.add("--vocab-file,--vocab", &options.vocab_file, "FILE", "vocab.json of GPT2BPETokenizer");
  flags.add("--merge-file", &options.merge_file, "FILE", "merges.txt of GPT2BPETokenizer");
  flags.add("--tokenizer-model", &options.tokenizer_model, "PATH",
            "HuggingFaceTokenizer: a tokenizer.json of byte-level BPE, or its folder; TikTokenizer: its ranks; "
            "SentencePiece types: a tokenizer.model, or its folder");
  flags.add_switch("--tokenizer-hf-include-special-tokens", options.hf_special_tokens,
                   "HuggingFaceTokenizer: put the special tokens around every text that its file asks for");
  flags
      .add_off_switch("--tokenizer-hf-no-include-special-tokens", options.hf_special_tokens,
                      "the default; the other way round from --tokenizer-hf-include-special-tokens")
      .hidden();
  flags.add("--vocab-size", &options.vocab_size, "N", "number of ids of NullTokenizer and TikTokenizer");
  flags
      .add("--null-tokenizer-eod,--null-tokenizer-eod-id", &options.null_tokenizer_eod, "ID",
           "end-of-document id of NullTokenizer; vocabulary size - 1 when absent");
  flags.add("--tiktoken-pattern", &options.tiktoken.pattern, "NAME", "split pattern of TikTokenizer")
      .one_of({"v1", "v2"});
  flags.add("--tiktoken-num-special-tokens", &options.tiktoken.num_special_tokens, "N",
            "special tokens of TikTokenizer, which have the first ids; 0 for none");
  flags
      .add("--tiktoken-special-tokens,--tokenizer-special-tokens", &options.tiktoken.special_tokens, "TOKEN...",
           "the first of TikTokenizer's special tokens; the others are called <SPECIAL_i>");
  flags.add_switch(
      "--legacy-tokenizer", options.legacy_tokenizer,
      "SentencePieceTokenizer with <CLS>, <EOD> and their like, Llama2Tokenizer with <s> before every text, "
      "as Megatron-LM had them up to core 0.16");
  flags.add("--vocab-extra-ids", &options.vocab_extra_ids, "N",
            "tokens <extra_id_0>... of a legacy SentencePieceTokenizer");
}

void check_tokenizer_flags(Flags& flags, const TokenizerOptions& options) {
  const std::string type = options.type.empty() ? "GPT2BPETokenizer" : options.type;
  check_type(flags, type);
  notice_idle_flags(flags, options, type);
  auto needs = [&](const char* flag, bool is_there) {
    if (!is_there) flags.problem(flag, cat("is needed by ", type));
  };
  if (type == "GPT2BPETokenizer") {
    needs("--vocab-file", !options.vocab_file.empty());
    needs("--merge-file", !options.merge_file.empty());
  }
  if (type == "HuggingFaceTokenizer") needs("--tokenizer-model", !options.tokenizer_model.empty());
  if (is_sentencepiece_type(type)) {
    needs("--tokenizer-model", !options.tokenizer_model.empty());
    if (options.parse_special_tokens)
      flags.problem("--parse-special-tokens",
                    "is not for SentencePiece: user-defined symbols are always found, control pieces never");
  }
  if (options.legacy_tokenizer && type != "SentencePieceTokenizer" && type != "Llama2Tokenizer")
    flags.problem("--legacy-tokenizer", "is for SentencePieceTokenizer and Llama2Tokenizer");
  if (options.vocab_extra_ids < 0 || options.vocab_extra_ids > 10000)
    flags.problem(cat("--vocab-extra-ids ", options.vocab_extra_ids), "must be 0 to 10000");
  if (options.vocab_extra_ids != 0 && !(options.legacy_tokenizer && type == "SentencePieceTokenizer"))
    flags.problem("--vocab-extra-ids", "is for SentencePieceTokenizer with --legacy-tokenizer");
  if (type == "TikTokenizer") {
    needs("--tokenizer-model", !options.tokenizer_model.empty());
    try {
      check_tiktoken_options(options.tiktoken);
    } catch (const Error& error) {
      flags.problem("--tokenizer-type TikTokenizer", error.what());
    }
  }
  if (type == "NullTokenizer") {
    needs("--vocab-size", options.vocab_size.has_value());
    if (options.vocab_size.value_or(1) < 1)
      flags.problem(cat("--vocab-size ", *options.vocab_size), "must be at least 1");
    if (options.null_tokenizer_eod.value_or(0) < 0) {
      flags.problem(cat("--null-tokenizer-eod ", *options.null_tokenizer_eod), "must not be negative");
    }
  }
}

}  // namespace mtl
