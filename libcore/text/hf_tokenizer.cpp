#include "text/hf_tokenizer.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/json.h"
#include "text/bpe_encoder.h"

namespace mtl {

namespace {

/// Describes everything that affects ids, except vocabulary and merges. Empty for GPT-2's rules.
std::string rules_text(const TokenizerJson& parts) {
  std::string out;
  for (const SplitStep& step : parts.split) {
    if (auto* rules = std::get_if<SplitRules>(&step)) out += pattern_of(*rules);
    if (auto* digits = std::get_if<SplitDigits>(&step)) out += cat("digits ", digits->one_by_one);
    if (auto* regex = std::get_if<SplitRegex>(&step)) out += regex->regex->pattern();
    if (parts.split.size() > 1) out += "\n";
  }
  if (parts.split.empty()) out += "one piece";  // one pre-token; recorded hashes depend on this text
  if (parts.is_nfc) out += " nfc";
  if (parts.add_prefix_space) out += " prefix space";
  if (parts.ignore_merges) out += " whole";
  for (std::int32_t id : parts.first) out += cat(" first ", id);
  for (std::int32_t id : parts.last) out += cat(" last ", id);
  for (const AddedToken& token : parts.added) {
    if (token.lstrip || token.rstrip || token.single_word || token.normalized)
      out += cat(" ", token.id, token.lstrip, token.rstrip, token.single_word, token.normalized);
  }
  return out;
}

}  // namespace

class HfTokenizer::HfEncoder : public Encoder {
 public:
  HfEncoder(const HfTokenizer& owner, EncoderMemory memory)
      : owner_(owner), plain_(make_bpe_encoder(owner.model_, memory, make_splitter(owner.parts_.split))) {}

  void append(std::string_view text, std::vector<std::int32_t>& ids) override {
    const TokenizerJson& parts = owner_.parts_;
    auto put = [&](std::int32_t id) { ids.push_back(id); };
    ids.insert(ids.end(), parts.first.begin(), parts.first.end());
    owner_.raw_finder_.cut(
        text,
        [&](std::string_view between) {
          if (parts.is_nfc) between = owner_.nfc_.normalize(between, normalized_);
          owner_.normalized_finder_.cut(
              between, [&](std::string_view words) { append_words(words, ids); }, put);
        },
        put);
    ids.insert(ids.end(), parts.last.begin(), parts.last.end());
  }

 private:
  void append_words(std::string_view words, std::vector<std::int32_t>& ids) {
    if (owner_.parts_.add_prefix_space && words[0] != ' ') words = prefixed_ = cat(" ", words);
    plain_->append(words, ids);
  }

  const HfTokenizer& owner_;
  std::unique_ptr<Encoder> plain_;
  std::string normalized_, prefixed_;
};

HfTokenizer::HfTokenizer(const std::string& path, bool with_special)
    : path_(path),
      text_(read_file(path)),
      parts_(parse_tokenizer_json(text_, path)),
      all_tokens_(parts_.all_tokens(path)),
      model_(parts_.vocabulary, path, parts_.ignore_merges) {
  const HfCompanions companions = read_hf_companions(path_, parts_);
  companions_ = companions.files;
  apply_companions(companions);
  bytes_ = TokenBytes(all_tokens_);
  if (!with_special) parts_.first.clear(), parts_.last.clear();
  check_template();
  if (parts_.ignore_merges) {
    for (std::size_t id = 0; id < parts_.vocabulary.tokens.size(); ++id) {
      const std::string_view token = parts_.vocabulary.tokens[id];
      if (!token.empty()) model_.add_whole_pretoken(token_bytes(token), static_cast<std::int32_t>(id));
    }
  }
  make_finders(companions.split_special_tokens);
  hash_ =
      hash_of(all_tokens_, cat(rules_text(parts_), companions.split_special_tokens ? " splits special tokens" : ""));
}

std::vector<std::string> HfTokenizer::files(const std::string& path) {
  std::vector<std::string> files{is_directory(path) ? cat(path, "/tokenizer.json") : path};
  for (const std::string& name : HfCompanions::names())
    files.push_back(fs::path(files.front()).replace_filename(name).string());
  return files;
}

void HfTokenizer::make_finders(bool split_special_tokens) {
  std::vector<AddedToken> raw, normalized;
  std::string buffer;
  std::set<std::string> contents;
  for (AddedToken token : parts_.added) {
    token.is_text = split_special_tokens && token.special;
    if (token.normalized && parts_.is_nfc) token.content = nfc_.normalize(std::string(token.content), buffer);
    if (token.normalized && !contents.insert(token.content).second) {
      fail(Exit::bad_data, path_, ": two added tokens are both \"", token.content, "\" when normalized, and Hugging ",
           "Face's libraries disagree on which of them to use; remove one");
    }
    (token.normalized ? normalized : raw).push_back(token);
  }
  raw_finder_ = TokenFinder(std::move(raw));
  normalized_finder_ = TokenFinder(std::move(normalized));
}

/// Throws if the post-processor adds an id that no token has. Like Hugging Face's libraries, mtl renumbers added tokens
/// but does not change the ids in the post-processor.
void HfTokenizer::check_template() const {
  auto check = [&](std::int32_t id) {
    std::size_t index = id;
    if (index < all_tokens_.tokens.size() && !all_tokens_.tokens[index].empty()) return;
    fail(Exit::bad_data, path_, ": the post_processor adds id ", id, " to texts, but no token has this id; added ",
         "tokens are numbered after the model's, whatever their \"id\" says; use these numbers in post_processor");
  };
  for (std::int32_t id : parts_.first) check(id);
  for (std::int32_t id : parts_.last) check(id);
}

/// Like the library's add_tokens(), replaces a known token's properties, except that a special token stays special.
/// Throws if no token has this content.
void HfTokenizer::add_token(const HfCompanions::Addition& addition) {
  AddedToken token = addition.token;
  for (AddedToken& known : parts_.added) {
    if (known.content != token.content) continue;
    token.id = known.id;
    token.special = token.special || known.special;
    known = std::move(token);
    return;
  }
  token.id = parts_.vocabulary.find(token.content);
  if (token.id < 0) {
    fail(Exit::bad_data, fs::path(path_).replace_filename(addition.file).string(), " refers to the token \"",
         token.content, "\", which ", path_, " does not have; load and save the tokenizer with transformers, which ",
         "adds it, or remove the name");
  }
  all_tokens_.special.push_back(token.id);
  parts_.added.push_back(std::move(token));
}

void HfTokenizer::apply_companions(const HfCompanions& companions) {
  if (companions.is_rebuilt) {
    for (AddedToken& token : parts_.added) token.special = false;
  }
  for (const HfCompanions::Addition& addition : companions.additions) add_token(addition);
  const bool prefix = parts_.add_prefix_space;
  if (companions.add_prefix_space.value_or(prefix) != prefix) {
    fail(Exit::bad_data, companions.add_prefix_space_file, ": add_prefix_space is ", !prefix, ", but ", path_,
         " says the opposite; use one value in both files");
  }
  if (!companions.pad.empty()) pad_ = all_tokens_.find(companions.pad);
  eod_name_ = companions.end;
  for (const char* name : {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"}) {
    if (eod_name_.empty() && all_tokens_.find(name) >= 0) eod_name_ = name;
  }
  if (!eod_name_.empty()) eod_ = all_tokens_.find(eod_name_);
}

std::unique_ptr<Encoder> HfTokenizer::make_encoder(EncoderMemory memory) const {
  return std::make_unique<HfEncoder>(*this, memory);
}

std::int32_t HfTokenizer::eod() const {
  if (eod_ < 0) {
    fail(Exit::bad_data, path_, " has no end-of-document token; put a tokenizer_config.json with \"eos_token\" into ",
         "its folder");
  }
  return eod_;
}

void HfTokenizer::save(const std::string& folder) const {
  write_file_atomic(folder + "/tokenizer.json", text_);
  for (const auto& [name, text] : companions_) write_file_atomic(cat(folder, "/", name), text);
  if (!companions_.empty()) return;
  Json config = Json::object({{"tokenizer_class", "PreTrainedTokenizerFast"}});
  if (!eod_name_.empty()) config.set("eos_token", eod_name_);
  write_file_atomic(folder + "/tokenizer_config.json", config.dump(2) + "\n");
}

}  // namespace mtl
