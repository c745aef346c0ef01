#include "text/json_lines.h"

#include <simdjson.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/json.h"
#include "base/json_cursor.h"
#include "base/utf8.h"
#include "text/other_formats.h"

namespace mtl {

bool named_json_lines(std::string_view path) {
  for (std::string_view suffix : {".gz", ".xz", ".zst"}) {
    if (ends_with(path, suffix)) path.remove_suffix(suffix.size());
  }
  return ends_with(path, ".jsonl") || ends_with(path, ".json");
}

bool looks_like_json_lines(std::string_view text) {
  text = trim(text);
  const std::string_view line = trim(text.substr(0, text.find('\n')));
  return starts_with(line, "{") && passes([&] { return Json::parse(line).is_object(); });
}

LineReader::LineReader(std::vector<std::string> paths, LineReaderOptions options)
    : paths_(std::move(paths)), options_(options) {
  // Ensures that only a batch's first line can exceed the limit, because fill_batch() checks only that line.
  options_.batch_bytes =
      std::clamp<std::size_t>(options_.batch_bytes, 1, std::max<std::size_t>(1, options_.line_bytes / 2));
}

/// Returns the position of the last newline, or npos. std::string_view::rfind() would compare one byte at a time.
static std::size_t find_last_newline(std::string_view text) {
  const void* found = text.empty() ? nullptr : ::memrchr(text.data(), '\n', text.size());
  return found == nullptr ? std::string_view::npos : static_cast<const char*>(found) - text.data();
}

/// A file without newlines may be one JSON array, or end its lines with CR.
static std::string long_line_remedy(std::string_view line, std::string_view unpack) {
  constexpr std::size_t kBeginning = 1 << 16;
  std::string_view beginning = line.substr(0, kBeginning);
  while (!beginning.empty() && byte_of(beginning.back()) >= 0x80) beginning.remove_suffix(1);  // a cut character
  const std::string seems = describe_bad_line(beginning, {0, unpack}, "text");
  return seems.empty() ? "split its document into several lines" : seems;
}

/// Appends more of the current file to pending_. Returns false at the end of the file.
bool LineReader::fill() {
  const std::size_t size = pending_.size(), wanted = options_.batch_bytes;
  const std::size_t request = size < wanted ? wanted - size : wanted;
  const std::size_t got = source_->read(pending_.room(request), request);
  pending_.add(got);
  return got > 0;
}

/// Fills pending_ with a batch whose last line ends at `end`. Returns false if the file has ended; the batch is then
/// all of pending_.
bool LineReader::fill_batch(std::size_t& end) {
  std::size_t searched = 0;
  bool more = true;
  end = 0;  // no newline yet
  while (more && (pending_.size() < options_.batch_bytes || end == 0)) {
    more = fill();
    std::size_t newline = find_last_newline(pending_.view().substr(searched));
    if (newline != std::string_view::npos) end = searched + newline + 1;
    searched = pending_.size();
    if (pending_.size() > options_.line_bytes && pending_.view().find('\n') > options_.line_bytes) {
      fail(Exit::bad_data, input_name(paths_[file_]), ":", line_, ": the line is longer than ",
           human_bytes(options_.line_bytes), ", the limit that keeps memory bounded; ",
           long_line_remedy(pending_, source_->stored().unpack));
    }
  }
  return more;
}

std::optional<LineBatch> LineReader::next() {
  while (file_ < paths_.size()) {
    if (source_ == nullptr) {
      source_ = open_input(paths_[file_], options_.decode_threads);
      line_ = 1;
    }
    std::size_t end;
    bool more = fill_batch(end);
    LineBatch batch{
        .file = input_name(paths_[file_]), .first_line = line_, .first_index = index_, .text = std::move(pending_)};
    if (more) {
      pending_.append(batch.text.view().substr(end));
      batch.text.truncate(end);
      StoredInput stored = source_->stored();
      batch.stored_bytes = stored_bytes_ + stored.bytes;
      batch.unpack = std::move(stored.unpack);
    } else {
      stored_.push_back(source_->stored());
      stored_bytes_ += stored_.back().bytes;
      batch.stored_bytes = stored_bytes_;
      batch.unpack = stored_.back().unpack;
      source_.reset();
      ++file_;
    }
    if (batch.text.empty()) continue;
    for_each_text_line(batch.text, [&](std::string_view) { ++line_, ++index_; });
    return batch;
  }
  return {};
}

/// The simdjson parser and its document, which holds the strings of the line that was read last.
class TextExtractor::Dom {
 public:
  /// Returns false if simdjson rejects the line.
  bool parse(std::string_view line, simdjson::dom::object& items) {
    return parser_.parse_into_document(document_, line.data(), line.size(), false).get(items) == simdjson::SUCCESS;
  }
  /// Immediately allocates memory for the longest line. The operating system never commits memory that short lines do
  /// not access.
  Dom() {
    if (document_.allocate(kDomBytes) != simdjson::SUCCESS || parser_.allocate(kDomBytes, 1000) != simdjson::SUCCESS)
      throw std::bad_alloc();
  }

 private:
  simdjson::dom::parser parser_;
  simdjson::dom::document document_;
};

TextExtractor::TextExtractor(std::vector<std::string> keys, Parser parser)
    : keys_(std::move(keys)), values_(keys_.size()) {
  if (parser == Parser::simdjson_first) dom_ = std::make_unique<Dom>();
}

TextExtractor::~TextExtractor() = default;

void TextExtractor::read(std::string_view line, const LineOrigin& origin) {
  if (line.size() <= kDomBytes) {
    copy_.clear();
    copy_.append(line);
    line = copy_;
  }
  read_padded(line, origin);
}

void TextExtractor::read_padded(std::string_view line, const LineOrigin& origin) {
  if (dom_ != nullptr && line.size() <= kDomBytes && read_with_dom(line)) {
    ++dom_lines_;
  } else {
    read_with_cursor(line, origin);
  }
}

/// Returns a requested key's value, or null.
TextExtractor::Value* TextExtractor::find(std::string_view key) {
  auto found = std::ranges::find(keys_, key);
  return found == keys_.end() ? nullptr : &values_[found - keys_.begin()];
}

namespace {

/// Appends a string, or a list's strings. Returns false for any other value.
bool append_texts(simdjson::dom::element value, std::vector<std::string_view>& texts) {
  std::string_view text;
  if (value.get(text) == simdjson::SUCCESS) return texts.push_back(text), true;
  simdjson::dom::array items;
  if (value.get(items) != simdjson::SUCCESS) return false;
  for (simdjson::dom::element item : items) {
    if (item.get(text) != simdjson::SUCCESS) return false;
    texts.push_back(text);
  }
  return true;
}

}  // namespace

/// Returns false if the line is bad or may be bad. The padding after a line cannot change the result, because simdjson
/// rejects an object whose last structural character is not '}' and reads nothing after that character. simdjson also
/// rejects a line with a lone surrogate anywhere, so all strings are Unicode text.
bool TextExtractor::read_with_dom(std::string_view line) {
  simdjson::dom::object items;
  if (!dom_->parse(line, items)) return false;
  for (Value& value : values_) value.is_found = false;
  for (auto [key, element] : items) {
    Value* value = find(key);
    if (value == nullptr) continue;
    value->texts.clear();
    value->is_found = append_texts(element, value->texts);
  }
  return std::ranges::all_of(values_, [](const Value& value) { return value.is_found; });
}

void TextExtractor::read_value(JsonCursor& cursor, Value& value) {
  value.is_found = true;
  value.decoded.clear();
  value.problem.clear();
  char first = cursor.peek();
  value.column = cursor.offset() + 1;
  auto take_string = [&] {
    value.decoded.emplace_back(cursor.string());
    if (value.problem.empty() && has_lone_surrogate(value.decoded.back()))
      value.problem = "contains a lone surrogate, which is not Unicode text";
  };
  if (first == '"') return take_string();
  if (first != '[') {
    value.problem = first == 'n' ? "is null" : "is neither a string nor a list of strings";
    return cursor.skip_value();
  }
  cursor.enter('[');
  while (cursor.next_item(']')) {
    if (cursor.peek() == '"') {
      take_string();
    } else {
      if (value.problem.empty()) value.problem = "is a list with values other than strings";
      cursor.skip_value();
    }
  }
}

void TextExtractor::read_with_cursor(std::string_view line, const LineOrigin& origin) {
  for (Value& value : values_) value.is_found = false;
  JsonCursor cursor(line);
  try {
    char first = cursor.peek();
    if (first == '\0' && cursor.offset() == line.size()) fail(Exit::bad_data, "byte 1: the line is blank");
    if (first != '{') {
      cursor.skip_value();
      cursor.finish();
      fail(Exit::bad_data, "byte 1: the line is not an object {...}");
    }
    cursor.enter('{');
    while (cursor.next_item('}')) {
      Value* value = find(cursor.key());
      if (value == nullptr) {
        cursor.skip_value();
      } else {
        read_value(cursor, *value);
      }
    }
    cursor.finish();
  } catch (const Error& error) {
    if (const std::string what = describe_bad_line(line, origin, keys_.front()); !what.empty())
      fail(Exit::bad_data, what);
    // "byte N: what" (base/json.h) becomes "what (column N)".
    std::string_view message = error.what();
    std::size_t colon = message.find(": ");
    fail(Exit::bad_data, message.substr(colon + 2), " (column ", message.substr(5, colon - 5), ")");
  }
  for (std::size_t k = 0; k < keys_.size(); ++k) {
    Value& value = values_[k];
    if (!value.is_found) fail(Exit::bad_data, describe_missing_key(line, origin, keys_, keys_[k]));
    if (!value.problem.empty()) {
      const std::string remedy = describe_wrong_value(line.substr(value.column - 1), origin, keys_, keys_[k]);
      fail(Exit::bad_data, "the value of \"", keys_[k], "\" ", value.problem, " (column ", value.column, ")",
           remedy.empty() ? "" : "; ", remedy);
    }
    value.texts.assign(value.decoded.begin(), value.decoded.end());
  }
}

}  // namespace mtl
