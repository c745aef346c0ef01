#include "text/tokenizer.h"

#include <algorithm>

#include "base/error.h"
#include "base/files.h"
#include "base/find.h"
#include "base/hub_cache.h"
#include "base/str.h"
#include "text/bpe_tokenizer.h"
#include "text/hf_tokenizer.h"
#include "text/null_tokenizer.h"
#include "text/sentencepiece_tokenizer.h"
#include "text/tiktoken.h"
#include "text/tokenizer_kinds.h"

namespace mtl {

namespace {

/// Replaces the name of a model in the Hugging Face hub's cache with its folder.
TokenizerOptions with_local_model(TokenizerOptions options) {
  options.tokenizer_model = resolve_hub_name(options.tokenizer_model);
  return options;
}

using Options = TokenizerOptions;

std::unique_ptr<Tokenizer> open_bpe(const Options& options) {
  return std::make_unique<BpeTokenizer>(read_vocab_and_merges(options.vocab_file, options.merge_file),
                                        options.vocab_file, options.parse_special_tokens);
}

std::unique_ptr<Tokenizer> open_hf(const Options& options) {
  const std::string &path = options.tokenizer_model, file = HfTokenizer::files(path).front();
  if (file_exists(file)) return std::make_unique<HfTokenizer>(file, options.hf_special_tokens);
  const std::optional<Options> other = find_tokenizer(path);
  fail_at(Exit::io, path, "the folder has no tokenizer.json; ",
          other ? cat("use --tokenizer-type ", other->type, " with its files") : "copy the file there",
          ", or use another --tokenizer-model");
}

std::unique_ptr<Tokenizer> open_tiktoken(const Options& options) { return std::make_unique<TikTokenizer>(options); }

std::unique_ptr<Tokenizer> open_null(const Options& options) {
  return std::make_unique<NullTokenizer>(*options.vocab_size, options.null_tokenizer_eod);
}

using Files = std::vector<std::string>;
Files no_files(const Options&) { return {}; }
Files bpe_files(const Options& options) { return {options.vocab_file, options.merge_file}; }
Files model_file(const Options& options) { return {options.tokenizer_model}; }
Files sp_files(const Options& options) { return {sentencepiece_file(options.tokenizer_model)}; }
Files hf_files(const Options& options) { return HfTokenizer::files(options.tokenizer_model); }

using Flag = TokenizerKind::Flag;
constexpr Flag kVocab = {"--vocab-file", [](const Options& options) { return !options.vocab_file.empty(); }};
constexpr Flag kMerges = {"--merge-file", [](const Options& options) { return !options.merge_file.empty(); }};
constexpr Flag kModel = {"--tokenizer-model", [](const Options& options) { return !options.tokenizer_model.empty(); }};
constexpr Flag kSize = {"--vocab-size", [](const Options& options) { return options.vocab_size.has_value(); }};
constexpr Flag kLegacy = "--legacy-tokenizer";
constexpr const char *kSymbols = "SentencePiece, which always finds user-defined symbols and never control pieces",
                     *kNoSpecials = "NullTokenizer, which has no special tokens";

std::optional<Options> find_bpe(const std::string& folder) {
  Options found;
  found.type = "GPT2BPETokenizer";
  found.vocab_file = folder + "/vocab.json";
  found.merge_file = folder + "/merges.txt";
  return file_exists(found.vocab_file) && file_exists(found.merge_file) ? std::optional(found) : std::nullopt;
}

std::optional<Options> find_hf(const std::string& folder) {
  Options found;
  found.type = "HuggingFaceTokenizer";
  found.tokenizer_model = folder + "/tokenizer.json";
  return file_exists(found.tokenizer_model) ? std::optional(found) : std::nullopt;
}

}  // namespace

bool TokenizerKind::reads(std::string_view flag) const { return std::ranges::count(flags, flag, &Flag::name) > 0; }

const std::vector<TokenizerKind>& tokenizer_kinds() {
  static const std::vector<TokenizerKind> kinds = {
      {"GPT2BPETokenizer", {kVocab, kMerges}, open_bpe, bpe_files},
      {"HuggingFaceTokenizer", {kModel, "--tokenizer-hf-include-special-tokens"}, open_hf, hf_files},
      {"TikTokenizer",
       {kModel, "--vocab-size", "--tiktoken-pattern", "--tiktoken-num-special-tokens", "--tiktoken-special-tokens"},
       open_tiktoken,
       model_file},
      {"SentencePieceTokenizer", {kModel, kLegacy, "--vocab-extra-ids"}, load_sentencepiece, sp_files, kSymbols},
      {"GPTSentencePieceTokenizer", {kModel}, load_sentencepiece, sp_files, kSymbols},
      {"Llama2Tokenizer", {kModel, kLegacy}, load_sentencepiece, sp_files, kSymbols},
      {"NullTokenizer", {kSize, "--null-tokenizer-eod"}, open_null, no_files, kNoSpecials}};
  return kinds;
}

const TokenizerKind* find_tokenizer_kind(std::string_view type) {
  const std::vector<TokenizerKind>& kinds = tokenizer_kinds();
  return find_or_null(kinds, type.empty() ? kinds.front().type : type, &TokenizerKind::type);
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> ids;
  make_encoder(EncoderMemory::small)->append(text, ids);
  return ids;
}

std::unique_ptr<Tokenizer> load_tokenizer(const TokenizerOptions& given) {
  const TokenizerOptions options = with_local_model(given);
  if (!options.tokenizer_model.empty() && !file_exists(options.tokenizer_model))
    fail_at(Exit::io, options.tokenizer_model, describe_missing_path(options.tokenizer_model));
  const TokenizerKind* kind = find_tokenizer_kind(options.type);
  if (kind == nullptr)
    fail(Exit::usage, "--tokenizer-type ", options.type, " is not supported; use ",
         join_or(texts_of(tokenizer_kinds(), &TokenizerKind::type)));
  if (is_directory(options.tokenizer_model)) std::ranges::for_each(kind->files(options), refuse_special_file);
  std::vector<std::string> needed;
  bool is_complete = true;
  for (const auto& [name, is_given] : kind->flags) {
    if (is_given == nullptr) continue;
    needed.emplace_back(name);
    is_complete = is_complete && is_given(options);
  }
  if (!is_complete) fail(Exit::usage, "--tokenizer-type ", kind->type, " requires ", join(needed, " and "));
  return kind->open(options);
}

std::vector<std::string> tokenizer_files(const TokenizerOptions& given) {
  const TokenizerKind* kind = find_tokenizer_kind(given.type);
  return kind == nullptr ? std::vector<std::string>() : kind->files(with_local_model(given));
}

std::optional<TokenizerOptions> find_tokenizer(const std::string& model_folder) {
  // SentencePiece first, because a folder with its file and tokenizer.json has the same tokenizer twice, and this file
  // is the original.
  for (const auto find : {find_sentencepiece, find_hf, find_bpe, TikTokenizer::find}) {
    if (std::optional<TokenizerOptions> found = find(model_folder)) return found;
  }
  return {};
}

}  // namespace mtl
