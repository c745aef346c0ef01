#include "text/bpe_vocabulary.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/json_cursor.h"
#include "base/utf8.h"

namespace mtl {

namespace {

/// No vocabulary has this many tokens. A larger id is a mistake in the file and would only waste memory.
constexpr std::int64_t kMaxTokens = 1 << 22;

bool maps_to_itself(int byte) { return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD); }

}  // namespace

bool put_token(BpeVocabulary& vocabulary, const std::string& path, std::string_view token, std::int64_t id) {
  if (id < 0 || id >= kMaxTokens)
    fail(Exit::bad_data, path, ": token \"", token, "\" has id ", id, ", which is out of range");
  if (has_lone_surrogate(token)) fail(Exit::bad_data, path, ": the token with id ", id, " is not Unicode text");
  std::size_t index = id;
  if (index >= vocabulary.tokens.size()) vocabulary.tokens.resize(index + 1);
  const std::string_view known = vocabulary.tokens[index];
  if (!known.empty() && known != token) {
    fail(Exit::bad_data, path, ": id ", id, " belongs to both \"", known, "\" and \"", token, "\"");
  }
  if (!known.empty()) return false;
  vocabulary.tokens.set(index, token);
  return true;
}

namespace {

/// Adds one item of an object {token: id}.
void put_item(BpeVocabulary& vocabulary, const std::string& path, std::string_view token,
              std::optional<std::int64_t> id) {
  if (!id) fail(Exit::bad_data, path, ": the id of token \"", token, "\" is not a whole number");
  if (!put_token(vocabulary, path, token, *id)) fail(Exit::bad_data, path, ": token \"", token, "\" appears twice");
}

/// Like put_tokens(), but does not build a Json tree, because most of a tool's start-up time is spent here.
void read_tokens(BpeVocabulary& vocabulary, const NamedText& file) {
  JsonCursor cursor(file.text);
  if (cursor.peek() != '{') fail(Exit::bad_data, file.name, ": expected an object that maps tokens to ids");
  vocabulary.tokens.reserve(file.text.size() / 20, file.text.size() / 2);
  std::string token;
  cursor.enter('{');
  while (cursor.next_item('}')) {
    std::string_view plain;
    if (const auto id = cursor.plain_item(plain)) {
      put_item(vocabulary, file.name, plain, id);
      continue;
    }
    token = cursor.key();
    const char begins = cursor.peek();
    const bool is_number = begins == '-' || (begins >= '0' && begins <= '9');
    if (!is_number) cursor.skip_value();
    put_item(vocabulary, file.name, token, is_number ? json_integer(cursor.number()) : std::nullopt);
  }
  cursor.finish();
}

}  // namespace

void put_tokens(BpeVocabulary& vocabulary, const std::string& path, const Json& object) {
  if (!object.is_object()) fail(Exit::bad_data, path, ": expected an object that maps tokens to ids");
  vocabulary.tokens.reserve(object.as_object().size(), 8 * object.as_object().size());
  for (const auto& [token, id] : object.as_object())
    put_item(vocabulary, path, token, id.is_int() ? std::optional(id.as_int()) : std::nullopt);
}

std::optional<Merge> parse_merge(std::string_view line) {
  const std::size_t blank = line.find(' ');
  if (blank == 0 || blank == std::string_view::npos || blank + 1 == line.size()) return {};
  if (line.find(' ', blank + 1) != std::string_view::npos) return {};
  return Merge{line.substr(0, blank), line.substr(blank + 1)};
}

std::int32_t BpeVocabulary::find(std::string_view token) const {
  const std::size_t found = tokens.find(token);
  return found == tokens.size() ? -1 : static_cast<std::int32_t>(found);
}

const std::array<std::string, 256>& byte_stand_ins() {
  static const std::array<std::string, 256> table = [] {
    std::array<std::string, 256> out;
    std::uint32_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      append_utf8(out[byte], maps_to_itself(byte) ? static_cast<std::uint32_t>(byte) : next++);
    }
    return out;
  }();
  return table;
}

std::string token_bytes(std::string_view token) {
  // By code point; -1 for a character that does not stand for a byte.
  static const std::array<std::int16_t, 0x200> bytes = [] {
    std::array<std::int16_t, 0x200> table;
    table.fill(-1);
    for (std::int16_t byte = 0; byte < 256; ++byte) {
      const std::string& stand_in = byte_stand_ins()[byte];
      table[next_utf8(stand_in.data(), stand_in.data() + stand_in.size()).code] = byte;
    }
    return table;
  }();
  std::string out;
  for (const char *at = token.data(), *end = at + token.size(); at < end;) {
    const Utf8Char next = next_utf8(at, end);
    if (next.code >= bytes.size() || bytes[next.code] < 0) return std::string(token);
    out += static_cast<char>(bytes[next.code]);
    at += next.length;
  }
  return out;
}

namespace {

/// A line in merges.txt, without its newline.
struct MergeLine {
  std::string_view text;
  std::size_t blanks = 0, last_blank = 0;
};

/// The first line of `text`.
MergeLine first_line(std::string_view text) {
  MergeLine line;
  std::size_t at = 0;
  for (; at < text.size() && text[at] != '\n'; ++at) {
    line.blanks += text[at] == ' ' ? 1u : 0u;
    line.last_blank = text[at] == ' ' ? at : line.last_blank;
  }
  line.text = text.substr(0, at);
  return line;
}

void read_merges(MergeList& merges, const NamedText& file) {
  merges.reserve(std::ranges::count(file.text, '\n') + 1, file.text.size() + 1);
  std::int64_t number = 0;
  for (std::string_view rest = file.text; !rest.empty();) {
    ++number;
    auto [line, blanks, blank] = first_line(rest);
    const std::string_view with_newline = rest.substr(0, line.size() + 1);
    rest.remove_prefix(with_newline.size());
    const bool has_no_lf = with_newline.size() == line.size() || (!line.empty() && line.back() == '\r');
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.empty() || (number == 1 && starts_with(line, "#version"))) continue;
    if (blanks != 1 || blank == 0 || blank + 1 == line.size())
      fail(Exit::bad_data, file.name, ":", number, ": expected two tokens separated by a space");
    if (has_no_lf)
      merges.push_back({line.substr(0, blank), line.substr(blank + 1)});
    else
      merges.push_line(with_newline, blank);
  }
}

}  // namespace

BpeVocabulary parse_vocab_and_merges(const NamedText& vocab, const NamedText& merges) {
  refuse_other_encoding(vocab.name, vocab.text);
  refuse_other_encoding(merges.name, merges.text);
  BpeVocabulary vocabulary;
  with_path(
      vocab.name, [&] { read_tokens(vocabulary, vocab); }, ": ");
  read_merges(vocabulary.merges, merges);
  if (std::int32_t end = vocabulary.find(kEndOfText); end >= 0) vocabulary.special.push_back(end);
  return vocabulary;
}

BpeVocabulary read_vocab_and_merges(const std::string& vocab_file, const std::string& merge_file) {
  std::string vocab = read_file(vocab_file), merges = read_file(merge_file);
  return parse_vocab_and_merges({vocab, vocab_file}, {merges, merge_file});
}

namespace {

constexpr std::string_view kMergesBegin = "#version: 0.2\n";

/// Appends vocab.json to `out`. After each token, calls flush(out), which may empty `out`.
template <class Flush>
void append_vocab_json(std::string& out, const BpeVocabulary& vocabulary, Flush flush) {
  char separator = '{';
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (vocabulary.tokens[id].empty()) continue;
    out += separator;
    append_json_string(out, vocabulary.tokens[id]);
    char number[24] = ":";
    out.append(number, std::to_chars(number + 1, number + sizeof number, id).ptr);
    separator = ',';
    flush(out);
  }
  out += separator == '{' ? "{}" : "}";
}

}  // namespace

std::uint64_t hash_of(const BpeVocabulary& vocabulary, std::string_view rules) {
  constexpr std::size_t kBlock = 1 << 14;  // bytes to hash at a time, so that they stay in the cache
  Hasher hasher;
  auto add = [&](std::string_view part) { hasher.update(part.data(), part.size()); };
  std::string json;
  json.reserve(2 * kBlock);
  append_vocab_json(json, vocabulary, [&](std::string& block) {
    if (block.size() < kBlock) return;
    add(block);
    block.clear();
  });
  add(json);
  add(kMergesBegin);
  add(vocabulary.merges.lines());
  add(rules);
  return hasher.digest();
}

std::string vocab_json_text(const BpeVocabulary& vocabulary) {
  std::string out;
  out.reserve(20 * vocabulary.tokens.size());
  append_vocab_json(out, vocabulary, [](std::string&) {});
  return out;
}

std::string merges_text(const BpeVocabulary& vocabulary) { return cat(kMergesBegin, vocabulary.merges.lines()); }

namespace {

/// Appends `"vocab": {...}, "merges": [...]` as items of an object at depth 2, formatted like Json::dump(2).
void append_model_tables(std::string& out, const BpeVocabulary& vocabulary) {
  const char* separator = "";
  out += ",\n    \"vocab\": {";
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (vocabulary.tokens[id].empty()) continue;
    append_to(out, separator, "\n      ");
    append_json_string(out, vocabulary.tokens[id]);
    append_to(out, ": ", id);
    separator = ",";
  }
  out += "\n    },\n    \"merges\": [";
  separator = "";
  for (const Merge& merge : vocabulary.merges) {
    append_to(out, separator, "\n      [\n        ");
    append_json_string(out, merge.left);
    out += ",\n        ";
    append_json_string(out, merge.right);
    out += "\n      ]";
    separator = ",";
  }
  out += vocabulary.merges.empty() ? "]" : "\n    ]";
}

}  // namespace

std::string tokenizer_json_text(const BpeVocabulary& vocabulary) {
  Json added = Json::array();
  for (std::int32_t id : vocabulary.special) {
    added.push(Json::object({{"id", id},
                             {"content", std::string(vocabulary.tokens[id])},
                             {"single_word", false},
                             {"lstrip", false},
                             {"rstrip", false},
                             {"normalized", false},
                             {"special", true}}));
  }
  auto byte_level = [](bool add_prefix_space) {
    return Json::object(
        {{"type", "ByteLevel"}, {"add_prefix_space", add_prefix_space}, {"trim_offsets", true}, {"use_regex", true}});
  };
  auto sequence = [](const char* id, int type) {
    return Json::object({{"Sequence", Json::object({{"id", id}, {"type_id", type}})}});
  };
  Json model = Json::object({{"type", "BPE"},
                             {"dropout", nullptr},
                             {"unk_token", nullptr},
                             {"continuing_subword_prefix", ""},
                             {"end_of_word_suffix", ""},
                             {"fuse_unk", false},
                             {"byte_fallback", false},
                             {"ignore_merges", false}});
  Json post = Json::object({{"type", "TemplateProcessing"},
                            {"single", Json::Array{sequence("A", 0)}},
                            {"pair", Json::Array{sequence("A", 0), sequence("B", 1)}},
                            {"special_tokens", Json::object()}});
  Json root = Json::object({{"version", "1.0"},
                            {"truncation", nullptr},
                            {"padding", nullptr},
                            {"added_tokens", std::move(added)},
                            {"normalizer", nullptr},
                            {"pre_tokenizer", byte_level(false)},
                            {"post_processor", std::move(post)},
                            {"decoder", byte_level(true)},
                            {"model", std::move(model)}});
  // The model is the last value. We insert its two large parts before it closes.
  constexpr std::string_view kClosing = "\n  }\n}";
  std::string out = root.dump(2);
  out.resize(out.size() - kClosing.size());
  append_model_tables(out, vocabulary);
  return out += kClosing;
}

std::string tokenizer_config_text(const std::string& end_token) {
  std::string end;
  append_json_string(end, end_token);
  // model_max_length is int(1e30), which is how transformers writes "no limit".
  return cat("{\n  \"add_prefix_space\": false,\n  \"backend\": \"tokenizers\",\n  \"bos_token\": ", end,
             ",\n  \"eos_token\": ", end, ",\n  \"errors\": \"replace\",\n",
             "  \"model_max_length\": 1000000000000000019884624838656,\n  \"pad_token\": null,\n",
             "  \"tokenizer_class\": \"GPT2Tokenizer\",\n  \"unk_token\": ", end, "\n}\n");
}

}  // namespace mtl
