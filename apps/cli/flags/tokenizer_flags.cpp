#include "cli/flags/tokenizer_flags.h"

#include <algorithm>

#include "base/str.h"
#include "cli/share_files.h"
#include "text/tiktoken.h"
#include "text/tokenizer_kinds.h"

namespace mtl {

namespace {

const std::vector<std::string> kRefused = {"BertWordPieceLowerCase", "BertWordPieceCase"};

std::string digits_of(std::string text) {
  std::erase_if(text, [](unsigned char c) { return std::isdigit(c) == 0; });
  return text;
}

std::vector<std::string> all_types() { return texts_of(tokenizer_kinds(), &TokenizerKind::type); }

/// Returns the types that read a flag, joined.
std::string types_reading(std::string_view flag, std::string_view separator = " or ", bool is_read = true) {
  std::vector<TokenizerKind> kinds = tokenizer_kinds();
  std::erase_if(kinds, [&](const TokenizerKind& kind) { return kind.reads(flag) != is_read; });
  return join(kinds, separator, &TokenizerKind::type);
}

void refuse_type(Flags& flags, const std::string& type) {
  const std::string where = "--tokenizer-type " + type, choose = "choose one of " + join(all_types(), ", ");
  if (std::ranges::count(kRefused, type) > 0) return flags.problem(where, "is not supported; " + choose);
  const std::string guess = nearest(type, all_types());
  const bool is_typo = !guess.empty() && digits_of(guess) == digits_of(type);  // Llama3Tokenizer means no Llama 2
  flags.problem(where, is_typo ? "is unknown; did you mean " + guess + "?"
                               : "is unknown; " + choose +
                                     " (a model of Hugging Face has HuggingFaceTokenizer --tokenizer-model FOLDER)");
}

bool reads(const TokenizerOptions& options, std::string_view flag) {
  const TokenizerKind* kind = find_tokenizer_kind(options.type);
  return kind != nullptr && kind->reads(flag);
}

}  // namespace

void add_vocab_size_flag(Flags& flags, std::optional<std::int64_t>& tokens, const std::string& help,
                         const Flags::Rule& rule) {
  flags.add("--vocab-size", &tokens, "N", help, within({1, INT32_MAX}), rule);
}

void add_tokenizer_flags(Flags& flags, TokenizerOptions& options) {
  flags.section("Tokenizer");
  // Only a notice, because scripts pass all tokenizers' flags, whichever tokenizer they choose.
  const auto if_read = [&options](Flags::Flag& flag) {
    only_with("--tokenizer-type " + types_reading(flag.name),
              [&options, name = flag.name] { return reads(options, name); })(flag);
  };
  flags.add("--tokenizer-type", &options.type, "TYPE", "kind of tokenizer (default: GPT2BPETokenizer)",
            suggest(all_types()));
  flags.add("--vocab-file,--vocab", &options.vocab_file, "FILE",
            "vocab.json for GPT2BPETokenizer, or the name of an installed one, with its merges", suggest({"gpt2"}),
            if_read);
  flags.add("--merge-file", &options.merge_file, "FILE", "merges.txt for GPT2BPETokenizer", if_read);
  flags.add("--tokenizer-model", &options.tokenizer_model, "PATH",
            "HuggingFaceTokenizer: a tokenizer.json of byte-level BPE, or its folder; TikTokenizer: its file of "
            "ranks; SentencePiece types: a tokenizer.model, or its folder",
            only_with("with --tokenizer-type " + types_reading("--tokenizer-model", " or ", false), [&options] {
              return reads(options, "--tokenizer-model") || find_tokenizer_kind(options.type) == nullptr;
            }));
  flags.add_switch("--tokenizer-hf-include-special-tokens", options.hf_special_tokens,
                   "HuggingFaceTokenizer: add the special tokens that its file defines around every text", if_read);
  flags.add_switch("--tokenizer-hf-no-include-special-tokens", options.hf_special_tokens, "", inverted);
  add_vocab_size_flag(flags, options.vocab_size, "number of ids for NullTokenizer or TikTokenizer",
                      only_with("--tokenizer-type " + types_reading("--vocab-size"),
                                [&options] { return !options.names_tokenizer() || reads(options, "--vocab-size"); }));
  flags.add("--null-tokenizer-eod,--null-tokenizer-eod-id", &options.null_tokenizer_eod, "ID",
            "end-of-document id of NullTokenizer (default: vocabulary size - 1)", within({0, INT32_MAX}), if_read);
  flags.add("--tiktoken-pattern", &options.tiktoken.pattern, "NAME", "split pattern for TikTokenizer",
            one_of({"v1", "v2"}), if_read);
  flags.add("--tiktoken-num-special-tokens", &options.tiktoken.num_special_tokens, "N",
            "special tokens of TikTokenizer, which have the first ids; 0: none", within({0, INT32_MAX}), if_read);
  flags.add(
      "--tiktoken-special-tokens,--tokenizer-special-tokens", &options.tiktoken.special_tokens, "TOKEN...",
      "names of the first special tokens in TikTokenizer; the others are <SPECIAL_i>",
      only_with("with --tiktoken-num-special-tokens 0", [&options] { return options.tiktoken.num_special_tokens > 0; }),
      if_read);
  flags.add_switch(
      "--legacy-tokenizer", options.legacy_tokenizer,
      "give SentencePieceTokenizer <CLS>, <EOD> and their like, and Llama2Tokenizer <s> before every text, as "
      "Megatron-LM did up to core 0.16");
  flags.add("--vocab-extra-ids", &options.vocab_extra_ids, "N",
            "tokens <extra_id_0>... of a legacy SentencePieceTokenizer", within({0, 10000}));
  flags.check([&options] {
    if (options.vocab_file != "gpt2") return;
    options.vocab_file = share_file("gpt2/vocab.json");
    if (options.merge_file.empty()) options.merge_file = share_file("gpt2/merges.txt");
  });
}

void check_tokenizer_flags(Flags& flags, const TokenizerOptions& options) {
  const TokenizerKind* kind = find_tokenizer_kind(options.type);
  if (kind == nullptr) {
    refuse_type(flags, options.type);
  } else {
    for (const auto& [name, is_given] : kind->flags) {
      if (is_given != nullptr && !is_given(options))
        flags.problem(name,
                      cat("is required by --tokenizer-type ", kind->type, options.type.empty() ? ", the default" : ""));
    }
    if (options.parse_special_tokens && kind->fixed_specials != nullptr)
      flags.problem("--parse-special-tokens", cat("has no meaning for ", kind->fixed_specials, "; remove it"));
  }
  if (options.legacy_tokenizer && !reads(options, "--legacy-tokenizer"))
    flags.problem("--legacy-tokenizer",
                  cat("is only for ", types_reading("--legacy-tokenizer", " and "), "; remove it"));
  if (options.vocab_extra_ids != 0 && !(options.legacy_tokenizer && reads(options, "--vocab-extra-ids")))
    flags.problem("--vocab-extra-ids", cat("is only for ", types_reading("--vocab-extra-ids", " and "),
                                           " with --legacy-tokenizer; remove it"));
  if (!reads(options, "--tiktoken-pattern")) return;
  try {
    check_tiktoken_options(options.tiktoken);
  } catch (const Error& error) {
    flags.problem(error.where(), error.message());
  }
}

}  // namespace mtl
