#include "text/hf_companions.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/files.h"
#include "base/find.h"
#include "base/json.h"
#include "text/hf_settings.h"

namespace mtl {

namespace {

constexpr const char* kConfig = "tokenizer_config.json";
constexpr const char* kSpecialMap = "special_tokens_map.json";
constexpr const char* kAddedTokens = "added_tokens.json";
constexpr const char* kExtra = "extra_special_tokens";
constexpr const char* kAdditional = "additional_special_tokens";

/// The standard special tokens, in the order in which transformers adds them.
constexpr const char* kStandard[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                     "pad_token", "cls_token", "mask_token"};

/// Returns a key's index in kStandard, or the size of kStandard for any other key.
std::ptrdiff_t rank_of(std::string_view key) { return std::ranges::find(kStandard, key) - std::begin(kStandard); }
bool is_standard(std::string_view key) { return rank_of(key) < std::ssize(kStandard); }

class CompanionReader {
 public:
  CompanionReader(const std::string& path, const TokenizerJson& parts)
      : path_(path), folder_(fs::path(path).parent_path().string()), parts_(parts) {}

  HfCompanions read() {
    for (const std::string& name : HfCompanions::names()) {
      if (file_exists(path_of(name))) out_.files.emplace_back(name, read_regular_file(path_of(name)));
    }
    const Json config = parse(kConfig);
    for (const auto& [key, value] : config.as_object()) settings_.set(key, {value, kConfig});
    refuse_other_sources();
    rename_additional();
    collect_named();
    if (const auto decoder = settings_.take("added_tokens_decoder")) {
      read_decoder(decoder->value);
    } else {
      read_special_map();
      read_added_tokens();
      read_listed();
    }
    check_class();
    name_gpt2_tokens();
    name_special_tokens();
    add_tokens();
    read_switches();
    return std::move(out_);
  }

 private:
  std::string path_of(const std::string& name) const { return folder_.empty() ? name : cat(folder_, "/", name); }

  template <class... Parts>
  [[noreturn]] void refuse(const std::string& name, const Parts&... parts) const {
    fail(Exit::bad_data, path_of(name), ": ", parts...);
  }

  /// Parses one of the files. Returns an empty object if it does not exist.
  Json parse(const std::string& name) const {
    const auto file = std::ranges::find_if(out_.files, [&](const auto& one) { return one.first == name; });
    if (file == out_.files.end()) return Json::object();
    const std::string path = path_of(name);
    Json content = with_prefix([&] { return Json::parse(file->second); }, path, ": the file is not valid JSON: ");
    if (!content.is_object()) refuse(name, "the file is not an object");
    return content;
  }

  /// Rejects keys that make transformers read more than tokenizer.json. tokenizer_truncation and tokenizer_padding have
  /// no effect, like truncation and padding in tokenizer.json.
  void refuse_other_sources() const {
    for (const char* key : {"fast_tokenizer_files", "post_processor", "tokenizer_object"}) {
      const HfSetting* setting = settings_.find(key);
      if (setting != nullptr && !is_falsy(setting->value)) refuse(setting->file, key, " is not supported; remove it");
    }
  }

  void rename_additional() {
    const HfSetting* extra = settings_.find(kExtra);
    if (settings_.find(kAdditional) == nullptr || (extra != nullptr && !is_falsy(extra->value))) return;
    settings_.set(kExtra, *settings_.take(kAdditional));
  }

  /// Collects special tokens whose names are not standard, such as image_token.
  void collect_named() {
    std::vector<std::string> names;
    for (const auto& [key, setting] : settings_.items()) {
      if (!is_standard(key) && ends_with(key, "_token") && setting.value.is_string()) names.push_back(key);
    }
    for (const std::string& name : names) named_.set(name, *settings_.take(name));
    take_extra_object();
  }
  void take_extra_object() {
    const HfSetting* extra = settings_.find(kExtra);
    if (extra == nullptr || !extra->value.is_object() || is_added_token(extra->value)) return;
    const HfSetting object = *settings_.take(kExtra);
    for (const auto& [key, value] : object.value.as_object()) named_.set(key, {value, object.file});
  }

  bool flag(const std::string& name, const Json& object, const char* key) const {
    const Json* value = object.find(key);
    if (value == nullptr) return false;
    if (!value->is_bool()) refuse(name, key, " of the token ", object.dump(), " must be true or false");
    return value->as_bool();
  }

  /// Reads an object with the fields of an AddedToken.
  HfToken object_token(const std::string& name, const Json& object) const {
    const Json* content = object.find("content");
    if (content == nullptr || !content->is_string())
      refuse(name, "the token ", object.dump(), " needs a \"content\" that is a string");
    for (const auto& [key, value] : object.as_object()) {
      const bool is_known = key == "__type" || key == "content" || key == "lstrip" || key == "rstrip" ||
                            key == "single_word" || key == "normalized" || key == "special";
      if (!is_known) refuse(name, "the token \"", content->as_string(), "\" has ", key, ", which is not supported");
    }
    HfToken token{{.content = content->as_string()}, true};
    token.lstrip = flag(name, object, "lstrip");
    token.rstrip = flag(name, object, "rstrip");
    token.single_word = flag(name, object, "single_word");
    token.special = flag(name, object, "special");
    if (object.find("normalized") != nullptr) token.given_normalized = flag(name, object, "normalized");
    token.file = name;
    return token;
  }

  /// Reads a special token: a string, or an object whose "__type" is "AddedToken".
  HfToken special_token(const std::string& key, const HfSetting& setting) const {
    if (setting.value.is_string()) {
      HfToken token{{.content = setting.value.as_string()}};
      token.special = true;
      token.file = setting.file;
      return token;
    }
    if (is_added_token(setting.value)) return object_token(setting.file, setting.value);
    refuse(setting.file, key, " is ", setting.value.dump(),
           ", which transformers refuses; write the token's text, or an object with \"__type\": \"AddedToken\"");
  }

  void put_decoder(std::int64_t id, HfToken token) {
    by_content_[token.content] = token;
    decoder_[id] = std::move(token);
  }

  void read_decoder(const Json& decoder) {
    if (!decoder.is_object()) refuse(kConfig, "added_tokens_decoder is not an object of ids and tokens");
    for (const auto& [id, token] : decoder.as_object()) {
      const std::optional<std::int64_t> number = parse_int(id);
      if (!number) refuse(kConfig, "added_tokens_decoder has \"", id, "\" where an id is expected");
      if (!token.is_object()) refuse(kConfig, "added_tokens_decoder has ", token.dump(), " where a token is expected");
      put_decoder(*number, object_token(kConfig, token));
    }
    has_decoder_ = true;
  }

  void read_special_map() {
    const Json map = parse(kSpecialMap);
    for (const auto& [key, value] : map.as_object()) {
      Json setting = value;
      if (key == kExtra && value.is_array()) {
        setting = combined_extra(value);
      } else if (key != kExtra && value.is_object()) {
        object_token(kSpecialMap, value);
        setting.set("__type", "AddedToken").set("special", true);
      }
      settings_.set(key, {std::move(setting), kSpecialMap});
    }
    take_extra_object();
  }

  /// Returns both files' extra_special_tokens, without duplicates.
  Json combined_extra(const Json& more) const {
    const HfSetting* extra = settings_.find(kExtra);
    Json combined = Json::array();
    if (extra != nullptr && !is_falsy(extra->value)) {
      if (!extra->value.is_array()) refuse(extra->file, kExtra, " must be a list");
      combined = extra->value;
    }
    std::vector<HfToken> tokens;
    for (const Json& item : combined.as_array()) tokens.push_back(special_token(kExtra, {item, extra->file}));
    for (const Json& item : more.as_array()) {
      Json token = item;
      if (item.is_object() && item.find("special") != nullptr)
        refuse(kSpecialMap, kExtra, " has ", item.dump(), ", which transformers refuses; remove \"special\"");
      if (item.is_object()) token.set("__type", "AddedToken").set("special", true);
      tokens.push_back(special_token(kExtra, {token, kSpecialMap}));
      if (std::find(tokens.begin(), tokens.end() - 1, tokens.back()) != tokens.end() - 1)
        tokens.pop_back();
      else
        combined.push(std::move(token));
    }
    return combined;
  }

  void read_added_tokens() {
    std::set<std::string> special;
    const auto note = [&](const Json& value, const char* file) {
      if (value.is_string()) special.insert(value.as_string());
      // transformers compares before it turns objects in tokenizer_config.json into tokens.
      if (is_added_token(value) && file == kSpecialMap) special.insert(value.string_or("content", ""));
    };
    for (const char* key : kStandard) {
      if (const HfSetting* setting = settings_.find(key)) note(setting->value, setting->file);
    }
    const HfSetting* extra = settings_.find(kExtra);
    if (extra != nullptr && extra->value.is_array()) {
      for (const Json& token : extra->value.as_array()) note(token, extra->file);
    }
    const Json added = parse(kAddedTokens);
    for (const auto& [content, id] : added.as_object()) {
      if (!id.is_int()) refuse(kAddedTokens, "\"", content, "\" has no integer id");
      HfToken token{{.content = content}, true};
      token.special = special.count(content) > 0;
      token.given_normalized = !token.special;
      token.file = kAddedTokens;
      put_decoder(id.as_int(), std::move(token));
    }
  }

  /// Adds the tokens in tokenizer.json again, in id order.
  void read_listed() {
    for (const auto& [id, listed] : parts_.listed) {
      put_decoder(id, {listed, true, listed.normalized, fs::path(path_).filename().string()});
    }
  }

  std::string tokenizer_class() const {
    const HfSetting* name = settings_.find("tokenizer_class");
    return name != nullptr && name->value.is_string() ? name->value.as_string() : "";
  }

  /// Every class except the generic ones takes only the vocabulary and the merges from tokenizer.json. Added tokens get
  /// the ids that the files list, which must equal the ids in tokenizer.json.
  void check_class() {
    const std::string tokenizer_class = this->tokenizer_class();
    for (const char* generic : {"", "PreTrainedTokenizerFast", "PreTrainedTokenizer", "TokenizersBackend"}) {
      if (tokenizer_class == generic) return;
    }
    out_.is_rebuilt = true;
    for (const AddedToken& token : parts_.added) {
      const auto decoded =
          std::ranges::find_if(decoder_, [&](const auto& item) { return item.second.content == token.content; });
      if (decoded != decoder_.end() && decoded->first == token.id) continue;
      refuse(has_decoder_ ? kConfig : fs::path(path_).filename().string(), "\"", token.content, "\" is added token ",
             token.id, " of ", path_,
             decoded == decoder_.end() ? ", but not here" : cat(", but ", decoded->first, " here"), "; the class ",
             tokenizer_class, " of transformers would number it differently; use one id in both, or set ",
             "tokenizer_class to PreTrainedTokenizerFast");
    }
  }

  /// The GPT-2 class has these special tokens even if no file lists them.
  void name_gpt2_tokens() {
    const std::string tokenizer_class = this->tokenizer_class();
    if (tokenizer_class != "GPT2Tokenizer" && tokenizer_class != "GPT2TokenizerFast") return;
    for (const char* key : {"bos_token", "eos_token", "unk_token"}) {
      if (settings_.find(key) == nullptr) settings_.set(key, {Json(kEndOfText), kConfig});
    }
  }

  /// Collects the special tokens by name, in transformers' order.
  void name_special_tokens() {
    for (const char* key : kStandard) {
      const HfSetting* setting = settings_.find(key);
      if (setting == nullptr || setting->value.is_null()) continue;
      HfToken token = special_token(key, *setting);
      if (const HfToken* known = find_or_null(by_content_, token.content)) token = *known;
      special_.set(key, std::move(token));
    }
    if (settings_.find(kExtra) == nullptr) {
      if (const auto additional = settings_.take(kAdditional)) settings_.set(kExtra, *additional);
    }
    for (const auto& [key, setting] : settings_.items()) {
      const bool is_token = setting.value.is_string() || is_added_token(setting.value);
      if (!is_standard(key) && ends_with(key, "_token") && is_token) special_.set(key, special_token(key, setting));
    }
    for (const auto& [key, setting] : named_.items()) special_.set(key, special_token(key, setting));
    special_.sort_by([](const std::string& key) { return rank_of(key); });
  }

  void add_tokens() {
    std::vector<HfToken> added;
    for (const auto& [id, token] : decoder_) added.push_back(token);
    std::set<std::string> known;
    for (const AddedToken& token : parts_.added) known.insert(token.content);
    for (const HfToken& token : added) known.insert(token.content);
    const auto add = [&](const HfToken& token) {
      if (known.count(token.content) == 0 && std::ranges::find(added, token) == added.end()) added.push_back(token);
    };
    std::set<std::string> names;
    for (const auto& [key, token] : special_.items()) {
      add(token);
      names.insert(token.content);
    }
    if (const HfSetting* extra = settings_.find(kExtra); extra != nullptr && !extra->value.is_null()) {
      if (!extra->value.is_array()) refuse(extra->file, kExtra, " must be a list, or an object of named tokens");
      for (const Json& token : extra->value.as_array()) add(special_token(kExtra, {token, extra->file}));
    }
    for (HfToken& token : added) {
      if (token.content.empty()) continue;
      if (names.count(token.content) > 0) token.special = true;
      AddedToken out = token;
      out.normalized = token.is_normalized();
      out_.additions.push_back({std::move(out), token.file});
    }
  }

  void read_switches() {
    const auto special = [&](std::string_view key) -> const HfToken* {
      const HfToken* token = special_.find(key);
      return token == nullptr || token->content.empty() ? nullptr : token;
    };
    for (const char* key : {"sep_token", "eos_token"}) {
      if (const HfToken* token = special(key)) out_.end = token->content;
    }
    if (const HfToken* pad = special("pad_token")) {
      const bool is_other = std::ranges::any_of(special_.items(), [&](const auto& item) {
        return item.first != "pad_token" && item.second.content == pad->content;
      });
      if (!is_other) out_.pad = pad->content;
    }
    if (const HfSetting* split = settings_.find("split_special_tokens")) {
      if (!split->value.is_bool()) refuse(split->file, "split_special_tokens must be true or false");
      out_.split_special_tokens = split->value.as_bool();
    }
    const HfSetting* prefix = settings_.find("add_prefix_space");
    if (prefix != nullptr && prefix->value.is_bool()) {
      out_.add_prefix_space = prefix->value.as_bool();
      out_.add_prefix_space_file = path_of(prefix->file);
    }
  }

  const std::string& path_;
  std::string folder_;
  const TokenizerJson& parts_;
  HfCompanions out_;
  HfSettings settings_;                        // transformers' init_kwargs
  HfSettings named_;                           // its model_specific_special_tokens
  bool has_decoder_ = false;                   // tokenizer_config.json has added_tokens_decoder
  std::map<std::int64_t, HfToken> decoder_;    // added tokens by the ids in the files
  std::map<std::string, HfToken> by_content_;  // the same tokens
  OrderedMap<HfToken> special_;                // by name: eos_token, image_token
};

}  // namespace

const std::vector<std::string>& HfCompanions::names() {
  static const std::vector<std::string> names = {kConfig, kSpecialMap, kAddedTokens};
  return names;
}

HfCompanions read_hf_companions(const std::string& path, const TokenizerJson& parts) {
  return CompanionReader(path, parts).read();
}

}  // namespace mtl
