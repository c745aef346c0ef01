#include "train/deepspeed_keys.h"

#include <strings.h>

#include <algorithm>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/shell_word.h"
#include "base/str.h"
#include "base/utf8.h"

namespace mtl {

namespace {

constexpr DeepSpeedKeys kDeepSpeedKeys[] = {
#include "train/deepspeed_keys.inc"
};

constexpr const char *kOff = "no flag: it is off", *kUnknown = "unknown to mtl-train";
constexpr std::uint64_t kMostBytes = 1 << 20;  // of a file; written by hand, such files have a few KiB
constexpr std::size_t kMostLines = 200, kKeyWidth = 72, kWordWidth = 200;

struct KeyAnswer {
  std::string key, answer;
  bool is_flags = false;  // the answer is flags with their values
};

/// Returns `text` for a line on a terminal, with at most about `most` bytes.
std::string cut_text(std::string_view text, std::size_t most) {
  std::string out = printable_text(text);
  if (out.size() <= most) return out;
  while (most > 0 && (byte_of(out[most]) & 0xC0) == 0x80) --most;  // within a character
  return out.substr(0, most) + "...";
}

bool is_auto(const Json& value) { return value.is_string() && value.as_string() == "auto"; }

/// Returns true for what turns a key or a section off.
bool is_off(const Json& value) {
  const Json* enabled = value.is_object() ? value.find("enabled") : &value;
  return enabled != nullptr && (enabled->is_null() || (enabled->is_bool() && !enabled->as_bool()));
}

bool is_section(const std::string& path) {
  return !path.empty() && std::ranges::any_of(kDeepSpeedKeys, [&](const DeepSpeedKeys& row) {
    return row.section == path || starts_with(row.section, path + ".");
  });
}

/// Replaces VALUE, COUNT and the like in an answer by the value, as far as it has the kind that the answer needs.
std::string with_value(std::string answer, const Json& value) {
  const auto put = [&answer](const std::string& name, const Json& item) {
    if (item.is_number())
      answer = replace_all(answer, name, item.dump());
    else if (item.is_string() && !is_auto(item))
      answer = replace_all(answer, name, shell_word(cut_text(item.as_string(), kWordWidth)));
  };
  if (value.is_array()) {
    for (std::size_t i = 0; i < std::min<std::size_t>(value.as_array().size(), 2); ++i)
      put(cat("VALUE[", i, "]"), value.as_array()[i]);
    return answer;
  }
  if (value.is_number() && passes([&] { return value.as_int() >= 0; })) {
    const std::int64_t count = value.as_int();
    if (count < 63) answer = replace_all(answer, "2^COUNT", cat(std::int64_t{1} << count));
    if (answer.find("2^COUNT") == std::string::npos) answer = replace_all(answer, "COUNT", cat(count));
  }
  if (answer.find("VALUE[") == std::string::npos) put("VALUE", value);
  return answer;
}

/// Returns the answer of a row that applies.
KeyAnswer apply_row(std::string_view answer, const Json& value) {
  const std::string plain = replace_all(answer, "`", "");
  const bool is_code = answer[0] == '`' && answer.find('`', 1) == answer.size() - 1;
  if (is_auto(value) && answer[0] == '`')
    return {"", cat("set by ", plain, "; \"auto\" leaves it to the script's own arguments")};
  const std::string filled = with_value(plain, value);
  const bool has_all = filled.find("VALUE") == std::string::npos && filled.find("COUNT") == std::string::npos;
  return {"", filled, is_code && has_all};
}

KeyAnswer answer_key(std::string_view section, std::string_view key, const Json& value) {
  const std::string text = value.is_string() ? value.as_string() : value.dump();
  const DeepSpeedKeys* other = nullptr;  // the first row that has the key with another value
  for (const DeepSpeedKeys& row : kDeepSpeedKeys) {
    if (row.section != section) continue;
    for (const std::string& word : split(row.keys, ' ')) {
      const std::size_t end = std::min(word.find('='), word.size());
      if (word.substr(0, end) != key) continue;
      if (end == word.size()) return is_off(value) ? KeyAnswer{"", kOff} : apply_row(row.answer, value);
      if (::strcasecmp(word.c_str() + end + 1, text.c_str()) == 0) return apply_row(row.answer, value);
      if (other == nullptr) other = &row;
    }
  }
  if (other == nullptr) return {"", kUnknown};
  if (is_off(value)) return {"", kOff};
  return is_auto(value) ? apply_row(other->answer, value) : KeyAnswer{"", kUnknown};
}

/// Appends the answers to all keys in a section; those after kMostLines are empty.
void answer_section(const Json& object, const std::string& section, std::vector<KeyAnswer>& out) {
  for (const auto& [key, value] : object.as_object()) {
    const std::string path = section.empty() ? key : cat(section, ".", key);
    const bool has_keys = is_section(path), off = has_keys && is_off(value);
    if (has_keys && value.is_object() && !off) {
      answer_section(value, path, out);
    } else if (out.size() >= kMostLines) {
      out.emplace_back();
    } else {
      out.push_back(off ? KeyAnswer{"", kOff} : answer_key(section, key, value));
      out.back().key = cut_text(cat(path, ": ", value.dump()), kKeyWidth);
    }
  }
}

std::vector<KeyAnswer> read_answers(const std::string& path) {
  const std::uint64_t size = file_size(path);
  if (size > kMostBytes) fail(Exit::bad_data, path, " has ", size, " bytes; a configuration has at most ", kMostBytes);
  const Json config = Json::read(path);
  if (!config.is_object()) fail(Exit::bad_data, path, " is not a JSON object");
  std::vector<KeyAnswer> out;
  answer_section(config, "", out);
  return out;
}

}  // namespace

std::span<const DeepSpeedKeys> deepspeed_keys() { return kDeepSpeedKeys; }

std::string explain_deepspeed_config(const std::string& path) {
  constexpr const char* kLine = "\n    ";
  std::vector<KeyAnswer> answers;
  try {
    answers = read_answers(path);
  } catch (const Error& error) {
    return cat(kLine, printable_text(error.what()),
               "; name a file of JSON, without comments, to see mtl-train's flags for its keys");
  }
  std::string flags;
  for (const KeyAnswer& each : answers) {
    if (each.is_flags) flags += " " + each.answer;
  }
  const std::size_t hidden = answers.size() - std::min(answers.size(), kMostLines);
  answers.resize(answers.size() - hidden);
  answers.insert(answers.begin(), {cut_text(path, kKeyWidth), "mtl-train"});
  std::size_t width = 0;
  for (const KeyAnswer& each : answers) width = std::max(width, each.key.size());
  std::string out;
  for (const KeyAnswer& each : answers)
    out += cat(kLine, each.key, std::string(width - each.key.size(), ' '), "  ", each.answer);
  if (hidden > 0) out += cat(kLine, ".. and ", hidden, " more keys");
  return flags.empty() ? out : cat(out, kLine, "together:", flags);
}

}  // namespace mtl
