#include "text/tokenizer_json.h"

#include <unordered_map>

#include "base/error.h"
#include "base/json.h"

namespace mtl {

namespace {

/// Reads one file. If a value is not supported, throws an error that says which.
class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {}

  /// Skips "truncation" and "padding": transformers applies them only if a call asks for them.
  TokenizerJson read(const Json& root) {
    // First, because it is the true cause if a tokenizer of another kind also has another normalizer, say.
    in_part("model", [&] { check_kind(root.at("model")); });
    for_part(root, "normalizer", [&](const Json& value) { read_normalizer(value); });
    for_part(root, "pre_tokenizer", [&](const Json& value) { read_pre_tokenizer(value); });
    if (!has_byte_level_) refuse_kind("it has no pre_tokenizer ByteLevel");
    for_part(root, "post_processor", [&](const Json& value) { read_post_processor(value); });
    for_part(root, "decoder", [&](const Json& value) { check_decoder(value); });
    for_part(root, "model", [&](const Json& value) { read_model(value); });
    for_part(root, "added_tokens", [&](const Json& value) {
      for (const Json& token : value.as_array()) read_added_token(token);
      number_added_tokens(root.at("model").at("vocab").as_object().size());
    });
    return std::move(out_);
  }

 private:
  /// Calls `read`. To errors in the JSON, such as a missing key, adds the file's name and the part's.
  template <class Read>
  void in_part(const char* part, const Read& read) const {
    try {
      read();
    } catch (const Error& error) {
      if (starts_with(error.what(), path_)) throw;
      fail_at(Exit::bad_data, path_, "the file is not a valid tokenizer.json: ", part, ": ", error.what());
    }
  }
  template <class Read>
  void for_part(const Json& root, const char* part, const Read& read) const {
    if (const Json* value = given(root, part)) in_part(part, [&] { read(*value); });
  }

  [[noreturn]] void refuse(const std::string& what, const std::string& remedy = "") const {
    fail_at(Exit::bad_data, path_, what, " is not supported", remedy);
  }
  [[noreturn]] void refuse(const std::string& part, const Json& value, const std::string& remedy = "") const {
    std::string text = value.is_object() && value.find("type") != nullptr && value.at("type").is_string()
                           ? cat("\"", value.at("type").as_string(), "\"")
                           : value.dump();
    if (text.size() > 200) text = text.substr(0, 200) + "...";
    refuse(cat(part, " ", text), remedy);
  }
  /// For a tokenizer that is not byte-level BPE.
  [[noreturn]] void refuse_kind(const std::string& reason, const std::string& remedy = "") const {
    fail_at(Exit::bad_data, path_, "this is not a byte-level BPE tokenizer, the only kind of tokenizer.json that is ",
            "supported (GPT-2, Llama 3, Qwen, GPT-NeoX): ", reason, remedy);
  }
  void check_kind(const Json& model) const {
    constexpr const char* kSentencePiece =
        "; if the model comes with a SentencePiece tokenizer.model, use that file with --tokenizer-type "
        "SentencePieceTokenizer";
    const std::string type = model.string_or("type", "BPE");
    if (type != "BPE") refuse_kind(cat("its model is ", type), type == "Unigram" ? kSentencePiece : "");
    if (model.bool_or("byte_fallback", false)) refuse_kind("its model has byte_fallback", kSentencePiece);
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      const std::string affix = model.string_or(key, "");
      if (!affix.empty()) refuse(cat("the model's ", key, " \"", affix, "\""));
    }
  }
  static const Json* given(const Json& object, const char* key) {
    const Json* value = object.find(key);
    return value == nullptr || value->is_null() ? nullptr : value;
  }
  static std::string type_of(const Json& value) { return value.string_or("type", ""); }

  /// Rejects unknown fields, which could change ids.
  void check_fields(const std::string& part, const Json& object, std::initializer_list<std::string_view> known) const {
    for (const auto& [key, value] : object.as_object()) {
      bool is_known = key == "type";
      for (std::string_view name : known) is_known = is_known || key == name;
      if (!is_known && !value.is_null()) refuse(cat(part, " with ", key), value);
    }
  }

  void read_normalizer(const Json& value) {
    if (type_of(value) == "Sequence") {
      check_fields("the normalizer Sequence", value, {"normalizers"});
      for (const Json& item : value.at("normalizers").as_array()) read_normalizer(item);
    } else if (type_of(value) == "NFC") {
      check_fields("the normalizer NFC", value, {});
      out_.is_nfc = true;
    } else {
      refuse("the normalizer", value, "; only NFC is supported");
    }
  }

  void read_pre_tokenizer(const Json& value) {
    std::string type = type_of(value);
    if (has_byte_level_)
      refuse("a pre_tokenizer after ByteLevel:", value);  // it could cut between the bytes of a character
    if (type == "Sequence") {
      check_fields("the pre_tokenizer Sequence", value, {"pretokenizers"});
      for (const Json& item : value.at("pretokenizers").as_array()) read_pre_tokenizer(item);
    } else if (type == "ByteLevel") {
      check_fields("the pre_tokenizer ByteLevel", value, {"add_prefix_space", "trim_offsets", "use_regex"});
      has_byte_level_ = true;
      out_.add_prefix_space = value.bool_or("add_prefix_space", true);
      if (out_.add_prefix_space && !out_.split.empty())
        refuse("add_prefix_space of a ByteLevel after other pre_tokenizers");
      if (value.bool_or("use_regex", true)) out_.split.push_back(SplitGpt2{});
    } else if (type == "Digits") {
      check_fields("the pre_tokenizer Digits", value, {"individual_digits"});
      out_.split.push_back(SplitDigits{value.bool_or("individual_digits", false)});
    } else if (type == "Split") {
      read_split(value);
    } else {
      refuse("the pre_tokenizer", value, "; only ByteLevel, after Split or Digits, is supported");
    }
  }

  void read_split(const Json& value) {
    check_fields("the pre_tokenizer Split", value, {"pattern", "behavior", "invert"});
    const Json& pattern = value.at("pattern");
    std::string regex;
    if (const Json* text = pattern.find("Regex")) {
      regex = text->as_string();
    } else {
      for (char c : pattern.at("String").as_string()) {
        if (std::string_view("\\^$.|?*+()[]{}-&").find(c) != std::string_view::npos) regex += '\\';
        regex += c;
      }
    }
    SplitStep step = with_prefix([&] { return split_step(regex); }, path_, ": ");
    std::string behavior = value.string_or("behavior", "");
    bool invert = value.bool_or("invert", false);
    // `invert` has no effect if both matches and the text between them are pre-tokens. Patterns with a hand-written
    // splitter match all text, so nothing is removed.
    bool removes_nothing = behavior == "Removed" && invert && !std::holds_alternative<SplitRegex>(step);
    if (behavior != "Isolated" && !removes_nothing)
      refuse(cat("the pre_tokenizer Split with the behavior \"", behavior, "\"", invert ? ", inverted" : ""));
    out_.split.push_back(std::move(step));
  }

  void read_post_processor(const Json& value) {
    std::string type = type_of(value);
    if (type == "Sequence") {
      for (const Json& item : value.at("processors").as_array()) read_post_processor(item);
    } else if (type == "TemplateProcessing") {
      read_template(value);
    } else if (type == "RobertaProcessing" || type == "BertProcessing") {
      auto id_of = [&](const char* key) { return checked_id(value.at(key).as_array().at(1).as_int()); };
      out_.first.insert(out_.first.begin(), id_of("cls"));
      out_.last.push_back(id_of("sep"));
    } else if (type != "ByteLevel") {  // which only moves offsets
      refuse("the post_processor", value,
             "; only ByteLevel, TemplateProcessing, RobertaProcessing and BertProcessing are supported");
    }
  }

  void read_template(const Json& value) {
    std::vector<std::int32_t> before, after;
    bool is_after = false;
    for (const Json& item : value.at("single").as_array()) {
      if (item.find("Sequence") != nullptr) {
        if (is_after || item.at("Sequence").string_or("id", "A") != "A")
          refuse("the post_processor's template", value.at("single"));
        is_after = true;
        continue;
      }
      const std::string& name = item.at("SpecialToken").at("id").as_string();
      for (const Json& id : value.at("special_tokens").at(name).at("ids").as_array())
        (is_after ? after : before).push_back(checked_id(id.as_int()));
    }
    if (!is_after) refuse("the post_processor's template", value.at("single"));
    out_.first.insert(out_.first.begin(), before.begin(), before.end());
    out_.last.insert(out_.last.end(), after.begin(), after.end());
  }

  void check_decoder(const Json& value) const {
    if (type_of(value) == "Sequence") {
      for (const Json& item : value.at("decoders").as_array()) check_decoder(item);
    } else if (type_of(value) != "ByteLevel") {
      refuse("the decoder", value, "; only ByteLevel is supported");
    }
  }

  void read_model(const Json& model) {
    check_fields("the model BPE", model,
                 {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
                  "byte_fallback", "ignore_merges", "vocab", "merges"});
    if (model.number_or("dropout", 0) != 0)
      refuse("the model's dropout", model.at("dropout"), ", because it makes ids random; set it to null");
    out_.ignore_merges = model.bool_or("ignore_merges", false);
    put_tokens(out_.vocabulary, path_, model.at("vocab"));
    for (const Json& item : model.at("merges").as_array()) {
      if (item.is_string()) {
        auto merge = parse_merge(item.as_string());
        if (!merge) fail(Exit::bad_data, "\"", item.as_string(), "\" is not a merge");
        out_.vocabulary.merges.push_back(*merge);
      } else {
        const Json::Array& pair = item.as_array();
        if (pair.size() != 2) fail(Exit::bad_data, "a merge has ", pair.size(), " tokens instead of 2");
        out_.vocabulary.merges.push_back({pair[0].as_string(), pair[1].as_string()});
      }
    }
  }

  void read_added_token(const Json& token) {
    AddedToken added{.content = token.at("content").as_string()};
    check_fields(cat("the added token \"", added.content, "\""), token,
                 {"id", "content", "special", "normalized", "lstrip", "rstrip", "single_word"});
    if (added.content.empty()) refuse("an added token without content");
    const std::int32_t id = checked_id(token.at("id").as_int());
    added.special = token.bool_or("special", false);
    added.normalized = token.bool_or("normalized", !added.special);
    added.lstrip = token.bool_or("lstrip", false);
    added.rstrip = token.bool_or("rstrip", false);
    added.single_word = token.bool_or("single_word", false);
    out_.listed.emplace_back(id, added);
    auto [known, is_new] = added_at_.emplace(added.content, out_.added.size());
    if (is_new)
      out_.added.push_back(std::move(added));
    else
      out_.added[known->second] = std::move(added);
  }

  /// Numbers added tokens like Hugging Face's libraries, which ignore "id": a token that is in the model keeps its id
  /// there, and all other added tokens follow the model's tokens in file order. A token that is listed twice has its
  /// first entry's position and its last entry's properties.
  void number_added_tokens(std::size_t model_tokens) {
    std::unordered_map<std::string_view, std::int32_t> model_ids;
    for (std::size_t id = 0; id < out_.vocabulary.tokens.size(); ++id)
      model_ids.emplace(out_.vocabulary.tokens[id], static_cast<std::int32_t>(id));
    auto next = static_cast<std::int32_t>(model_tokens);
    for (AddedToken& token : out_.added) {
      auto found = model_ids.find(token.content);
      token.id = found != model_ids.end() ? found->second : next++;
      if (found != model_ids.end()) out_.vocabulary.special.push_back(token.id);
    }
  }

  std::int32_t checked_id(std::int64_t id) const {
    if (id < 0 || id > INT32_MAX) fail(Exit::bad_data, "a token has id ", id, ", which is out of range");
    return static_cast<std::int32_t>(id);
  }

  const std::string& path_;
  TokenizerJson out_;
  std::unordered_map<std::string, std::size_t> added_at_;  // in out_.added, by content
  bool has_byte_level_ = false;                            // ByteLevel has been read
};

}  // namespace

BpeVocabulary TokenizerJson::all_tokens(const std::string& path) const {
  BpeVocabulary all = vocabulary;
  for (const AddedToken& token : added) {
    if (put_token(all, path, token.content, token.id)) all.special.push_back(token.id);
  }
  return all;
}

TokenizerJson parse_tokenizer_json(std::string_view text, const std::string& path) {
  try {
    return Reader(path).read(Json::parse(text));
  } catch (const Error& error) {
    if (starts_with(error.what(), path)) throw;
    fail_at(Exit::bad_data, path, "the file is not a valid tokenizer.json: ", error.what());
  }
}

}  // namespace mtl
