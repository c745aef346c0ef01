// Reads JSON lines files in batches of complete lines, which threads can share, and extracts text from the lines.
//
// Lines end with \n or \r\n, which a file's last line may omit. A line is validated as by Python's json module
// (base/json.h); if a key is repeated, the last one counts. Line length is limited, so that memory use is bounded for
// any input.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/decompress.h"
#include "text/other_formats.h"
#include "text/padded_text.h"

namespace mtl {

/// A batch: consecutive whole lines of one file, which one thread processes.
struct LineBatch {
  std::string file;
  std::int64_t first_line = 1;   // the first line's number in the file, from 1
  std::int64_t first_index = 0;  // that line's index among the lines of all files, from 0
  PaddedText text;
  std::string unpack = {};         // of the file (StoredInput)
  std::uint64_t stored_bytes = 0;  // stored bytes read from all files when the batch was complete
};

/// Default limit for a line: 256 MiB.
inline constexpr std::size_t kLineBytes = std::size_t{256} << 20;

struct LineReaderOptions {
  std::size_t batch_bytes = 1 << 18;    // approximate size; a batch with a longer line is larger
  std::size_t line_bytes = kLineBytes;  // a longer line is Error(bad_data) "FILE:LINE: ..."
  int decode_threads = 0;               // as in open_input
};

/// The lines of multiple files, one file after another.
class LineReader {
 public:
  explicit LineReader(std::vector<std::string> paths, LineReaderOptions options = {});
  /// Returns the next lines, or nothing at the end. Throws the errors of open_input() and ByteSource, and
  /// Error(bad_data) if a line is too long.
  std::optional<LineBatch> next();
  /// The files that have been read completely.
  const std::vector<StoredInput>& stored() const { return stored_; }

 private:
  bool fill();
  bool fill_batch(std::size_t& end);
  std::vector<std::string> paths_;
  LineReaderOptions options_;
  std::size_t file_ = 0;  // index of the current file
  std::unique_ptr<ByteSource> source_;
  PaddedText pending_;  // read but not returned yet
  std::int64_t line_ = 1, index_ = 0;
  std::vector<StoredInput> stored_;
  std::uint64_t stored_bytes_ = 0;  // of stored_
};

/// True if the name, without a compression suffix, ends in .jsonl or .json.
bool named_json_lines(std::string_view path);
/// True if the first line of `text` that is not blank is a JSON object.
bool looks_like_json_lines(std::string_view text);

/// Calls use(line, number, index) for each line in the text, without the newline. `number` and `index` increase by 1
/// per line.
template <class Use>
void for_each_line(std::string_view text, std::int64_t number, std::int64_t index, Use&& use) {
  while (!text.empty()) {
    std::size_t end = text.find('\n');
    use(text.substr(0, end), number++, index++);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
}

/// Like the function above, for a batch. Its lines can be passed to TextExtractor::read_padded().
template <class Use>
void for_each_line(const LineBatch& batch, Use&& use) {
  for_each_line(batch.text, batch.first_line, batch.first_index, use);
}

/// Calls `use(line)` for each line in the text, including its newline.
template <class Use>
void for_each_text_line(std::string_view text, Use&& use) {
  while (!text.empty()) {
    std::size_t newline = text.find('\n');
    std::string_view line = text.substr(0, newline == std::string_view::npos ? newline : newline + 1);
    use(line);
    text.remove_prefix(line.size());
  }
}

/// Extracts the strings under the requested keys from JSON lines. Use one object per thread, because it keeps memory
/// between calls.
///
/// simdjson parses lines of up to kDomBytes. JsonCursor parses longer lines, lines that simdjson rejects, and lines in
/// which a requested text is missing. For these lines, JsonCursor's result counts. It accepts everything that Python
/// accepts (numbers beyond 64 bits, NaN, lone surrogates in keys that were not requested), and produces all error
/// messages.
class TextExtractor {
 public:
  enum class Parser { simdjson_first, cursor_only };  // the results are the same
  static constexpr std::size_t kDomBytes = 1 << 20;

  explicit TextExtractor(std::vector<std::string> keys, Parser parser = Parser::simdjson_first);
  ~TextExtractor();
  /// A first line's message may say what kind of file it seems to be. Throws Error(bad_data) "what (column N)", or what
  /// the line seems to be and what to do, in these cases:
  /// - The line is blank, is not valid JSON or is not an object.
  /// - A requested key is missing.
  /// - A requested key's value is not a string or a list of strings, or is not Unicode text.
  void read(std::string_view line, const LineOrigin& origin = {});
  /// Like read(), for a line in a PaddedText, which is not copied.
  void read_padded(std::string_view line, const LineOrigin& origin = {});
  /// Returns the strings for the key with this index in the line that was read last: one string, or a list's strings.
  /// Valid until the next line is read.
  const std::vector<std::string_view>& texts(std::size_t key) const { return values_[key].texts; }
  /// The number of lines that simdjson parsed.
  std::int64_t dom_lines() const { return dom_lines_; }

 private:
  struct Value {
    std::vector<std::string_view> texts;
    bool is_found = false;  // read_with_dom: with valid texts
    // Used by read_with_cursor:
    std::vector<std::string> decoded;
    std::string problem;     // with the value; reported unless the key occurs again
    std::size_t column = 0;  // of the value's first byte in the line, from 1
  };
  class Dom;
  Value* find(std::string_view key);
  bool read_with_dom(std::string_view line);
  void read_with_cursor(std::string_view line, const LineOrigin& origin);
  void read_value(class JsonCursor& cursor, Value& value);

  std::vector<std::string> keys_;
  std::vector<Value> values_;
  std::unique_ptr<Dom> dom_;  // null: cursor only
  PaddedText copy_;           // of a line that is not padded
  std::int64_t dom_lines_ = 0;
};

}  // namespace mtl
