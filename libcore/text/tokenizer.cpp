#include "text/tokenizer.h"

#include "base/error.h"
#include "base/files.h"
#include "base/hub_cache.h"
#include "text/bpe_tokenizer.h"
#include "text/hf_tokenizer.h"
#include "text/null_tokenizer.h"
#include "text/sentencepiece_tokenizer.h"
#include "text/tiktoken.h"

namespace mtl {

namespace {

/// Replaces the name of a model in the Hugging Face hub's cache with its folder.
TokenizerOptions with_local_model(TokenizerOptions options) {
  options.tokenizer_model = resolve_hub_name(options.tokenizer_model);
  return options;
}

[[noreturn]] void fail_without_tokenizer_json(const std::string& folder) {
  const std::optional<TokenizerOptions> other = find_tokenizer(folder);
  fail_at(Exit::io, folder, "the folder has no tokenizer.json; ",
          other ? cat("use --tokenizer-type ", other->type, " with its files") : "copy the file there",
          ", or use another --tokenizer-model");
}

}  // namespace

std::vector<std::int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> ids;
  make_encoder(EncoderMemory::small)->append(text, ids);
  return ids;
}

std::unique_ptr<Tokenizer> load_tokenizer(const TokenizerOptions& given) {
  const TokenizerOptions options = with_local_model(given);
  if (!options.tokenizer_model.empty() && !file_exists(options.tokenizer_model))
    fail_at(Exit::io, options.tokenizer_model, describe_missing_path(options.tokenizer_model));
  if (is_directory(options.tokenizer_model)) std::ranges::for_each(tokenizer_files(options), refuse_special_file);
  if (options.type == "NullTokenizer") {
    if (!options.vocab_size) fail(Exit::usage, "--tokenizer-type NullTokenizer requires --vocab-size");
    return std::make_unique<NullTokenizer>(*options.vocab_size, options.null_tokenizer_eod);
  }
  if (options.type == "HuggingFaceTokenizer") {
    const std::string& path = options.tokenizer_model;
    if (path.empty()) fail(Exit::usage, "--tokenizer-type HuggingFaceTokenizer requires --tokenizer-model");
    const std::string file = HfTokenizer::files(path).front();
    if (!file_exists(file)) fail_without_tokenizer_json(path);
    return std::make_unique<HfTokenizer>(file, options.hf_special_tokens);
  }
  if (options.type == "TikTokenizer") {
    if (options.tokenizer_model.empty()) fail(Exit::usage, "--tokenizer-type TikTokenizer requires --tokenizer-model");
    return std::make_unique<TikTokenizer>(options);
  }
  if (is_sentencepiece_type(options.type)) return load_sentencepiece(options);
  if (!options.type.empty() && options.type != "GPT2BPETokenizer") {
    fail(Exit::usage, "--tokenizer-type ", options.type,
         " is not supported; use GPT2BPETokenizer, HuggingFaceTokenizer, TikTokenizer, SentencePieceTokenizer, "
         "GPTSentencePieceTokenizer, Llama2Tokenizer or NullTokenizer");
  }
  if (options.vocab_file.empty() || options.merge_file.empty()) {
    fail(Exit::usage, "--tokenizer-type GPT2BPETokenizer requires --vocab-file and --merge-file");
  }
  return std::make_unique<BpeTokenizer>(read_vocab_and_merges(options.vocab_file, options.merge_file),
                                        options.vocab_file, options.parse_special_tokens);
}

std::vector<std::string> tokenizer_files(const TokenizerOptions& given) {
  const TokenizerOptions options = with_local_model(given);
  const std::string& type = options.type;
  if (type == "NullTokenizer") return {};
  if (type == "HuggingFaceTokenizer") return HfTokenizer::files(options.tokenizer_model);
  if (is_sentencepiece_type(type)) return {sentencepiece_file(options.tokenizer_model)};
  if (type == "TikTokenizer") return {options.tokenizer_model};
  return {options.vocab_file, options.merge_file};
}

std::optional<TokenizerOptions> find_tokenizer(const std::string& model_folder) {
  // Look here before tokenizer.json, because a folder with both files has the same tokenizer twice, and this file is
  // the original.
  if (std::optional<TokenizerOptions> model = find_sentencepiece(model_folder)) return model;
  TokenizerOptions found;
  auto file = [&](const char* name) {
    std::string path = cat(model_folder, "/", name);
    return file_exists(path) ? path : std::string();
  };
  found.tokenizer_model = file("tokenizer.json");
  if (!found.tokenizer_model.empty()) {
    found.type = "HuggingFaceTokenizer";
    return found;
  }
  found.type = "GPT2BPETokenizer";
  found.vocab_file = file("vocab.json");
  found.merge_file = file("merges.txt");
  if (found.vocab_file.empty() || found.merge_file.empty()) return TikTokenizer::find(model_folder);
  return found;
}

}  // namespace mtl
