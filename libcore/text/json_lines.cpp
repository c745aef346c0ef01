#include "text/json_lines.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"

namespace mtl {

LineReader::LineReader(std::vector<std::string> paths, LineReaderOptions options)
    : paths_(std::move(paths)), options_(options) {
  // Only the first line of a chunk can be long, which is what fill_chunk looks at.
  options_.chunk_bytes =
      std::clamp<std::size_t>(options_.chunk_bytes, 1, std::max<std::size_t>(1, options_.line_bytes / 2));
}

/// Reads more of the current file behind rest_; false at its end.
bool LineReader::fill() {
  std::size_t before = rest_.size();
  rest_.resize(before + options_.chunk_bytes);
  std::size_t got = source_->read(rest_.data() + before, options_.chunk_bytes);
  rest_.resize(before + got);
  return got > 0;
}

/// Fills rest_ with a chunk; `end` is where its last line ends. False when the file ended, and then rest_ is the chunk.
bool LineReader::fill_chunk(std::size_t& end) {
  std::size_t searched = 0;
  bool more = true;
  end = 0;  // no newline yet
  while (more && (rest_.size() < options_.chunk_bytes || end == 0)) {
    more = fill();
    std::size_t newline = std::string_view(rest_).substr(searched).rfind('\n');
    if (newline != std::string_view::npos) end = searched + newline + 1;
    searched = rest_.size();
    if (rest_.size() > options_.line_bytes && rest_.find('\n') > options_.line_bytes) {
      fail(Exit::bad_data, input_name(paths_[file_]), ":", line_, ": the line is longer than ",
           human_bytes(static_cast<double>(options_.line_bytes)),
           ", the limit that keeps memory bounded; split its document into several lines");
    }
  }
  return more;
}

std::optional<LineChunk> LineReader::next() {
  while (file_ < paths_.size()) {
    if (source_ == nullptr) {
      source_ = open_input(paths_[file_], options_.decode_threads);
      line_ = 1;
    }
    std::size_t end;
    bool more = fill_chunk(end);
    LineChunk chunk{input_name(paths_[file_]), line_, index_, std::move(rest_)};
    rest_.clear();
    if (more) {
      rest_.assign(chunk.text, end);
      chunk.text.resize(end);
      chunk.stored_bytes = stored_bytes_ + source_->stored().bytes;
    } else {
      stored_.push_back(source_->stored());
      stored_bytes_ += stored_.back().bytes;
      chunk.stored_bytes = stored_bytes_;
      source_.reset();
      ++file_;
    }
    if (chunk.text.empty()) continue;
    auto lines = std::count(chunk.text.begin(), chunk.text.end(), '\n') + (chunk.text.back() == '\n' ? 0 : 1);
    line_ += lines;
    index_ += lines;
    return chunk;
  }
  return {};
}

TextExtractor::TextExtractor(std::vector<std::string> keys) : keys_(std::move(keys)), values_(keys_.size()) {}

void TextExtractor::read_value(JsonCursor& cursor, Value& value) {
  value.is_there = true;
  value.texts.clear();
  value.problem.clear();
  char first = cursor.peek();
  value.column = cursor.offset() + 1;
  auto take_string = [&] {
    value.texts.emplace_back(cursor.string());
    if (value.problem.empty() && has_lone_surrogate(value.texts.back()))
      value.problem = "holds a lone surrogate, which is no Unicode text";
  };
  if (first == '"') return take_string();
  if (first != '[') {
    value.problem = "is neither a string nor a list of strings";
    return cursor.skip_value();
  }
  cursor.enter('[');
  while (cursor.next_item(']')) {
    if (cursor.peek() == '"') {
      take_string();
    } else {
      if (value.problem.empty()) value.problem = "is a list with something else than strings";
      cursor.skip_value();
    }
  }
}

void TextExtractor::read(std::string_view line) {
  for (Value& value : values_) value.is_there = false;
  JsonCursor cursor(line);
  try {
    char first = cursor.peek();
    if (starts_with(line, "\xEF\xBB\xBF"))
      fail(Exit::bad_data, "byte 1: a byte order mark; cut it off: tail -c +4 FILE | ... --input -");
    if (first == '\0' && cursor.offset() == line.size()) fail(Exit::bad_data, "byte 1: a blank line");
    if (first != '{') {
      cursor.skip_value();
      cursor.finish();
      fail(Exit::bad_data, "byte 1: not an object {...}");
    }
    cursor.enter('{');
    while (cursor.next_item('}')) {
      auto key = std::find(keys_.begin(), keys_.end(), cursor.key());
      if (key == keys_.end()) {
        cursor.skip_value();
      } else {
        read_value(cursor, values_[static_cast<std::size_t>(key - keys_.begin())]);
      }
    }
    cursor.finish();
  } catch (const Error& error) {
    // "byte N: what" (base/json.h) becomes "what (column N)".
    std::string_view message = error.what();
    std::size_t colon = message.find(": ");
    fail(Exit::bad_data, message.substr(colon + 2), " (column ", message.substr(5, colon - 5), ")");
  }
  for (std::size_t k = 0; k < keys_.size(); ++k) {
    const Value& value = values_[k];
    if (!value.is_there) fail(Exit::bad_data, "no key \"", keys_[k], "\" (column 1)");
    if (!value.problem.empty())
      fail(Exit::bad_data, "the value of \"", keys_[k], "\" ", value.problem, " (column ", value.column, ")");
  }
}

}  // namespace mtl
