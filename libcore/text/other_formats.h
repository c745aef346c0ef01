// Recognizes input that is neither UTF-8 text nor JSON lines, to say what it seems to be and how to convert it.
//
// Remedies are commands for the shell. In them, FILE is the input, and "... --input -" is the tool that reads it. The
// parameter `unpack` is the command that decompresses the input ("gzip -dc"), or "" if it is stored as it is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mtl {

/// How many first bytes refuse_other_formats() examines.
inline constexpr std::size_t kFormatBytes = 512;

/// Throws Error(bad_data) if content that begins with `head` has another format than UTF-8 text: packed (bzip2, tar),
/// a table (Parquet, Arrow, NumPy), UTF-16, text after a byte order mark, a compressed Git LFS pointer. `name`: the
/// input in messages.
void refuse_other_formats(const std::string& name, std::string_view head, std::string_view unpack = "");

/// Where a line is from.
struct LineOrigin {
  std::int64_t number = 0;  // in its file, or 0
  std::string_view unpack = "";
  /// True if an earlier line of the file had the texts, as for a tool that stops at the first bad line.
  bool follows_texts = number > 1;
};

/// Returns what a line that is not a JSON object seems to be and what to do, or "" if the parser's message says enough.
/// Only a file's first line shows what kind of file it is. `key`: the one under which the tool looks for a text.
std::string describe_bad_line(std::string_view line, const LineOrigin& origin, const std::string& key);

/// For text whose name does not say whether it is plain text or JSON lines, and whose first line, blank lines aside, is
/// not an object: returns what it seems to be and what to do if it begins like an array of objects or strings or like
/// pretty-printed JSON, or "". Also "" if the line is not UTF-8.
std::string describe_other_json(std::string_view text, std::string_view unpack, const std::string& key);

/// Returns the message for an object without `key`, one of the requested `keys`: where in the line the texts seem to be
/// and what to do. Only keys with a string are suggested.
std::string describe_missing_key(std::string_view line, const LineOrigin& origin, const std::vector<std::string>& keys,
                                 const std::string& key);

/// For a line that begins with the value of `key`, which is neither a string nor a list of strings: returns what to do,
/// or "".
std::string describe_wrong_value(std::string_view value, const LineOrigin& origin, const std::vector<std::string>& keys,
                                 const std::string& key);

/// Returns the message for bytes that are not UTF-8. `column`: the first such byte in its line, from 1.
std::string invalid_utf8_message(std::size_t column, std::string_view unpack);

/// A place in a file: the number of lines before it, and of bytes before it in its line.
struct TextPlace {
  std::int64_t lines = 0;
  std::size_t column = 0;
};
/// Throws Error(bad_data) "NAME:LINE: ..." if `text`, which begins at `place`, is not valid UTF-8. Returns the place at
/// which it ends.
TextPlace check_utf8(const std::string& name, std::string_view text, std::string_view unpack, TextPlace place = {});

}  // namespace mtl
