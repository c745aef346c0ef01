#include "eval/prompts.h"

#include <utility>

#include "base/json.h"
#include "base/json_cursor.h"
#include "base/str.h"
#include "text/decompress.h"
#include "text/other_formats.h"

namespace mtl {

namespace {

std::vector<std::int32_t> parse_ids(std::string_view text, const std::string& where) {
  std::vector<std::int32_t> ids;
  for (std::size_t at = 0; (at = text.find_first_not_of(" \t,", at)) != std::string_view::npos;) {
    std::string_view word = text.substr(at, text.find_first_of(" \t,", at) - at);
    auto id = parse_int(word);
    if (!id || *id < 0 || *id > INT32_MAX)
      fail(Exit::bad_data, where, ": \"", word, "\" is not a token id; with --ids, write ids separated by spaces");
    ids.push_back(static_cast<std::int32_t>(*id));
    at += word.size();
  }
  return ids;
}

}  // namespace

Prompt PromptReader::read(std::string text, std::string where, std::string_view unpack) const {
  if (const std::size_t bad = ids ? std::string::npos : find_invalid_utf8(text); bad != std::string::npos)
    fail(Exit::bad_data, where, ": ", invalid_utf8_message(bad + 1, unpack));
  std::vector<std::int32_t> found = ids ? parse_ids(text, where) : tokenizer->encode(text);
  if (found.empty() && first) found.push_back(*first);
  if (found.empty())
    fail(Exit::bad_data, where,
         ": the prompt is empty, and the model has no end-of-document token to start from; write at least one token");
  model.check_ids(found, where);
  return {std::move(text), std::move(found), std::move(where)};
}

Prompt PromptReader::read_flag(const std::string& text) const {
  if (const std::size_t bad = find_invalid_utf8(text); bad != std::string::npos)
    fail(Exit::bad_data, "--prompt: invalid UTF-8 (column ", bad + 1,
         "); choose a UTF-8 locale for the terminal, or write the prompt as UTF-8 into a file and use --input");
  return read(text, "--prompt");
}

Prompt PromptReader::read_json(std::string_view line, const std::string& where, std::string_view unpack) const {
  Json prompt;
  try {
    prompt = Json::parse(line).at("prompt");
    if (prompt.is_string() && has_lone_surrogate(prompt.as_string()))
      fail(Exit::bad_data, "the prompt contains a lone surrogate, which is not Unicode text");
    if (!prompt.is_string() && !(ids && prompt.is_array()))
      fail(Exit::bad_data, "the prompt is not a string", ids ? " or list of ids" : "");
  } catch (const Error& error) {
    const std::string seems = describe_bad_line(line, {0, unpack}, "prompt");
    fail(error.code(), where, ": ", seems.empty() ? error.what() : seems);
  }
  if (prompt.is_string()) return read(prompt.as_string(), where);
  const auto word = [](const Json& id) { return id.is_int() ? cat(id.as_int()) : id.dump(); };
  return read(join(prompt.as_array(), " ", word), where);
}

PromptStream::PromptStream(const PromptReader& reader, const std::string& path, Console& console)
    : reader_(reader),
      console_(console),
      name_(input_name(path)),
      file_({path}, {.batch_bytes = 1}) {  // returns each line at once: on a pipe, the next may never come
  if (named_json_lines(path)) is_json_ = true;
}

std::optional<Prompt> PromptStream::next() {
  while (std::optional<LineBatch> batch = file_.next()) {
    ++lines_;
    std::string_view line = batch->text;
    if (ends_with(line, "\n")) line.remove_suffix(1);
    if (ends_with(line, "\r")) line.remove_suffix(1);
    const std::string where = cat(name_, ":", lines_);
    if (!trim(line).empty() && !std::exchange(is_begun_, true)) {
      is_json_ = is_json_ || looks_like_json_lines(line);
      if (const std::string seems = describe_other_json(line, batch->unpack, "prompt"); !seems.empty())
        fail(Exit::bad_data, where, ": ", seems, is_json_ ? "" : "; if the line is a prompt, put it into JSON lines");
    }
    try {
      return is_json_ ? reader_.read_json(line, where, batch->unpack)
                      : reader_.read(std::string(line), where, batch->unpack);
    } catch (const Error& error) {
      if (error.code() != Exit::bad_data) throw;
      ++bad_lines_;
      console_.error(error.what());
    }
  }
  return std::nullopt;
}

}  // namespace mtl
