#include "text/other_formats.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/json.h"
#include "base/json_cursor.h"
#include "base/lfs_pointer.h"
#include "base/shell_word.h"
#include "base/utf8.h"

namespace mtl {

namespace {

/// A format that a filter turns into text. Its magic bytes are rare in text.
struct FilteredFormat {
  std::size_t offset;
  std::string_view magic;
  const char *what, *filter;
};
constexpr FilteredFormat kFilteredFormats[] = {
    {4, "1AY&SY", "bzip2 data; only gzip, xz and zstd are decompressed", "bzip2 -dc"},
    {0, std::string_view("\x04\x22\x4D\x18", 4), "lz4 data; only gzip, xz and zstd are decompressed", "lz4 -dc"},
    {0, std::string_view("\x5D\x00\x00", 3), "lzma data; only gzip, xz and zstd are decompressed",
     "xz -dc --format=lzma"},
    {0, "\x1F\x9D", "compress (.Z) data; only gzip, xz and zstd are decompressed", "gzip -dc"},
    {0, "LZIP\x01", "lzip data; only gzip, xz and zstd are decompressed", "lzip -dc"},
    {257, std::string_view("ustar\0", 6), "a tar archive", "tar -xOf -"},
    {257, std::string_view("ustar  \0", 8), "a tar archive", "tar -xOf -"},
};
/// A format that a program converts only from a file.
struct FileFormat {
  std::string_view magic;
  const char *what, *advice;
};
constexpr const char *kPickle = "a Python pickle", *kFromPickle = "write its texts as JSON lines with json.dumps()";
constexpr FileFormat kFileFormats[] = {
    {std::string_view("PK\x03\x04", 4), "a zip archive", "unpack it: unzip -p FILE | ... --input -"},
    {"7z\xBC\xAF", "a 7-Zip archive", "unpack it: 7z x -so FILE | ... --input -"},
    {"Rar!\x1A\x07", "a RAR archive", "unpack it: unrar p -inul FILE | ... --input -"},
    {"PAR1\x15", "a Parquet file",
     "convert it to JSON lines with pyarrow: python3 -c \"import json, pyarrow.parquet as p; "
     "any(print(json.dumps(r, default=str)) for b in p.ParquetFile('FILE').iter_batches() for r in b.to_pylist())\" | "
     "... --input -"},
    {"\xFF\xFF\xFF\xFF", "an Arrow stream, as in a data-*.arrow file of Hugging Face's datasets",
     "convert it to JSON lines with pyarrow: python3 -c \"import json, pyarrow as p; any(print(json.dumps(r, "
     "default=str)) for b in p.ipc.open_stream(p.memory_map('FILE')) for r in b.to_pylist())\" | ... --input -"},
    {std::string_view("ARROW1\0\0", 8), "an Arrow (Feather) file",
     "convert it to JSON lines with pyarrow: python3 -c \"import json, pyarrow as p; f = "
     "p.ipc.open_file(p.memory_map('FILE')); any(print(json.dumps(r, default=str)) for i in "
     "range(f.num_record_batches) for r in f.get_batch(i).to_pylist())\" | ... --input -"},
    {"FEA1", "a Feather file of version 1",
     "convert it to JSON lines with a pyarrow that still reads it, such as 26: python3 -c \"import json, "
     "pyarrow.feather as f; any(print(json.dumps(r, default=str)) for r in f.read_table('FILE').to_pylist())\" | ... "
     "--input -"},
    {"Obj\x01", "an Avro file", "convert it to JSON lines: avro-tools tojson FILE | ... --input -"},
    {"\x80\x02", kPickle, kFromPickle},
    {"\x80\x03", kPickle, kFromPickle},
    {"\x80\x04", kPickle, kFromPickle},
    {"\x80\x05", kPickle, kFromPickle},
    {"\x93NUMPY", "a NumPy array",
     "use the text from which it was made, or if it is token ids, convert it with mtl-data import"},
    {"\x89HDF\r\n", "an HDF5 file", "use the text from which it was made, or convert it to JSON lines"},
    {std::string_view("SQLite format 3\0", 16), "an SQLite database", "convert it to JSON lines"},
    {"%PDF-", "a PDF document", "extract its text: pdftotext FILE"},
    {std::string_view("MMIDIDX\0\0", 9), "the .idx of token files, which are tokenized already",
     "use them as they are, with --data-path"},
};

/// Endings of files that are never empty, because even those of no document have a header.
constexpr std::string_view kNeverEmpty[] = {".gz",   ".xz",      ".zst", ".bz2",   ".lz4",  ".zip",
                                            ".7z",   ".tar",     ".tgz", ".arrow", ".npy",  ".parquet",
                                            ".avro", ".feather", ".pkl", ".h5",    ".hdf5", ".pdf"};

/// Returns a command that pipes the input's content through `filter` and `then` into the tool. `from`: how the filter
/// reads FILE.
std::string piped(std::string_view filter, std::string_view unpack, std::string_view from = " FILE",
                  std::string_view then = "") {
  const std::string filtered = unpack.empty() ? cat(filter, from) : cat(unpack, " FILE | ", filter);
  return cat(filtered, then, " | ... --input -");
}

/// Returns a command that runs a jq program.
std::string jq(const std::string& program, std::string_view flags = "-c") {
  return cat("jq ", flags, " ", shell_word(program));
}

/// Returns a string of JSON, which is also one of jq: JSON escapes the backslash that begins jq's interpolation.
std::string in_quotes(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

/// Returns the jq filter for a member of an object.
std::string jq_member(std::string_view name) {
  const bool is_plain = !name.empty() && std::isdigit(byte_of(name.front())) == 0 &&
                        std::ranges::all_of(name, [](char c) { return std::isalnum(byte_of(c)) != 0 || c == '_'; });
  return cat(".", is_plain ? std::string(name) : in_quotes(name));
}

/// Returns the command that makes a document of each text that the filter returns.
std::string as_documents(std::string_view filter, const std::string& key, std::string_view unpack,
                         std::string_view flags = "-c") {
  return piped(jq(cat(filter, "{", in_quotes(key), ": .}"), flags), unpack);
}

/// Returns the command that drops the objects in which one of the keys is missing or null.
std::string without_missing(const std::vector<std::string>& keys, std::string_view unpack) {
  return piped(jq(cat("select(", join(keys, " and ", jq_member), ")")), unpack);
}

[[noreturn]] void refuse_filtered(const std::string& name, std::string_view what, std::string_view filter,
                                  std::string_view unpack) {
  fail_at(Exit::bad_data, name, unpack.empty() ? "this is " : "the decompressed content is ", what,
          "; convert it: ", piped(filter, unpack, " <FILE"));
}

/// True for a control character that is rare in text of any encoding.
bool has_control(std::string_view line) {
  return std::ranges::any_of(line, [](char c) { return byte_of(c) < '\b' || (c > '\r' && c < '\x1B'); });
}

/// Returns what follows a JSON value, or what begins with the error if the value is invalid.
std::string_view after_value(std::string_view record) {
  JsonCursor cursor(record);
  try {
    cursor.skip_value();
    cursor.peek();
  } catch (const Error&) {
    // The cursor has stopped at the error.
  }
  return record.substr(std::min(cursor.offset(), record.size()));
}

/// True for a header such as "id,text" or "id\ttext": at least two short cells, none of which starts with a blank.
bool is_table_header(std::string_view line) {
  constexpr std::size_t kCellBytes = 40;
  for (char separator : {'\t', ',', ';'}) {
    const std::vector<std::string> cells = split(line, separator);
    const auto is_name = [](const std::string& cell) {
      return !cell.empty() && cell.size() <= kCellBytes && cell.front() != ' ' && cell.find('.') == std::string::npos;
    };
    if (cells.size() > 1 && std::ranges::all_of(cells, is_name)) return true;
  }
  return false;
}

/// For a first line that does not begin like JSON.
std::string describe_other_text(std::string_view line, std::string_view unpack, const std::string& key) {
  if (starts_with(line, "<"))
    return "the file seems to be HTML or XML, not JSON lines; was a web page downloaded instead of the data?";
  if (is_table_header(line)) {
    return "the file seems to be a table (CSV or TSV), not JSON lines; convert it: python3 -c \"import pandas; "
           "pandas.read_csv('FILE', sep=None, engine='python').to_json('FILE.jsonl', orient='records', lines=True)\"";
  }
  return cat("the file seems to be plain text, not JSON lines; make each line a document: ",
             as_documents("", key, unpack, "-Rc"));
}

std::string describe_pretty_printed(std::string_view unpack) {
  return cat("the file seems to be pretty-printed JSON; put each object on one line: ", piped("jq -c .", unpack));
}

/// For a line that begins with '{', and in which the parser stopped at `rest`.
std::string describe_bad_object(std::string_view line, std::string_view rest, const LineOrigin& origin) {
  const std::string_view unpack = origin.unpack;
  const bool is_complete = ends_with(trim(line.substr(0, line.size() - rest.size())), "}");
  if (is_complete && rest == ",")
    return cat("a comma follows the object; remove it from all lines: ", piped("sed 's/,\\r*$//'", unpack));
  if (is_complete && starts_with(rest, ",") && starts_with(trim(rest.substr(1)), "{"))
    return cat("the line has several objects with commas between them; put each on its own line: ",
               piped("sed 's/,\\r*$//; s/.*/[&]/'", unpack, " FILE", " | jq -c '.[]'"));
  if (is_complete && starts_with(rest, "{"))
    return cat("the line has more than one object; put each on its own line: ", piped("jq -c .", unpack));
  for (const char* python : {"'", "None", "True", "False"}) {
    if (starts_with(rest, python))
      return "the line is a Python dict, not JSON; write the lines with json.dumps() instead of str() or repr()";
  }
  const bool goes_on = rest.empty() && std::string_view("{[,:").find(line.back()) != std::string_view::npos;
  if (origin.number == 1 && goes_on) return describe_pretty_printed(unpack);
  return "";
}

/// Returns the kind of JSON value that begins here.
std::string_view kind_of(char first) {
  struct Kind {
    std::string_view begins, name;
  };
  constexpr Kind kKinds[] = {{"\"", "string"}, {"{", "object"},   {"[", "array"},
                             {"n", "null"},    {"tf", "Boolean"}, {"-0123456789NI", "number"}};
  const auto kind =
      std::ranges::find_if(kKinds, [&](const Kind& each) { return each.begins.find(first) != std::string_view::npos; });
  return kind == std::end(kKinds) ? "" : kind->name;
}

bool is_json(std::string_view record) {
  JsonCursor cursor(record);
  return passes([&] { return cursor.skip_value(), cursor.finish(), true; });
}

/// For a line that is a JSON value other than an object, or that begins like an array of strings or objects.
std::string describe_other_value(std::string_view record, const LineOrigin& origin, const std::string& key) {
  const std::string_view kind = kind_of(record.front()), inside = trim(record.substr(1));
  const std::string_view items = kind == "array" && !inside.empty() ? kind_of(inside.front()) : "";
  const std::string found =
      cat("the line is a JSON ", kind, items.empty() ? "" : cat(" of ", items, "s"), ", not an object {...}");
  const bool is_complete = is_json(record);
  if (!is_complete && kind != "array") return "";
  if (is_complete && origin.follows_texts)
    return cat(found, ", as earlier lines are; drop such lines: ", piped("jq -c objects", origin.unpack));
  if (kind == "string") return cat(found, "; put each string into an object: ", as_documents("", key, origin.unpack));
  if (items == "string")
    return cat(found, "; put each string into an object: ", as_documents(".[] | ", key, origin.unpack));
  if (kind == "array" && (items.empty() || items == "object"))
    return cat(found, "; if the file is one array of objects, put each on its own line: ",
               piped("jq -c '.[]'", origin.unpack));
  return is_complete ? found : "";
}

/// True if a JSON object with a key, or an array of such objects or of strings, begins here, perhaps after a record
/// separator. Plain text may begin with a bracket, too: "[1] A reference", "{{a template}}".
bool begins_like_json(std::string_view text) {
  JsonCursor cursor(starts_with(text, "\x1E") ? text.substr(1) : text);
  const auto ends = [&] { return cursor.peek() == '\0' && cursor.offset() == text.size(); };
  return passes([&] {
    if (cursor.peek() == '[') {
      cursor.enter('[');
      if (!cursor.next_item(']')) return false;
      if (cursor.peek() == '"') {
        cursor.string();
        return cursor.next_item(']') ? cursor.peek() == '"' || ends() : ends();
      }
    }
    if (ends()) return !text.empty();  // the first line of pretty-printed JSON
    cursor.enter('{');
    if (ends()) return true;
    cursor.key();
    return true;
  });
}

/// True if a JSON value begins the text and ends on a later line.
bool spans_lines(std::string_view text) {
  JsonCursor cursor(text);
  return passes([&] {
    cursor.skip_value();
    return text.substr(0, cursor.offset()).find('\n') != std::string_view::npos;
  });
}

bool is_python_dict(std::string_view line) {
  return starts_with(line, "{'") && line.find("':") != std::string_view::npos;
}

}  // namespace

void refuse_other_formats(const std::string& name, std::string_view head, std::string_view unpack) {
  if (!unpack.empty()) refuse_lfs_pointer(name, head, "the decompressed content is");
  for (const FilteredFormat& other : kFilteredFormats) {
    if (head.size() >= other.offset && starts_with(head.substr(other.offset), other.magic))
      refuse_filtered(name, other.what, other.filter, unpack);
  }
  if (const OtherEncoding* other = find_other_encoding(head))
    refuse_filtered(name, cat(other->what, ", not plain UTF-8"), other->filter, unpack);
  const auto named =
      std::ranges::find_if(kNeverEmpty, [&](std::string_view ending) { return ends_with(name, ending); });
  if (head.empty() && unpack.empty() && named != std::end(kNeverEmpty))
    fail_at(Exit::bad_data, name, "the file is empty, which no ", *named, " file is; copy or download it again");
  for (const FileFormat& other : kFileFormats) {
    if (!starts_with(head, other.magic)) continue;
    if (unpack.empty()) fail_at(Exit::bad_data, name, "this is ", other.what, ", not text; ", other.advice);
    fail_at(Exit::bad_data, name, "the decompressed content is ", other.what, ", not text; decompress it into a file (",
            unpack, "), then ", other.advice);
  }
}

std::string invalid_utf8_message(std::size_t column, std::string_view unpack) {
  return cat("invalid UTF-8 (column ", column, "); if the file is in another encoding, such as Latin-1, convert it: ",
             piped("iconv -f ISO-8859-1 -t UTF-8", unpack));
}

TextPlace check_utf8(const std::string& name, std::string_view text, std::string_view unpack, TextPlace place) {
  const std::size_t bad = find_invalid_utf8(text);
  const std::string_view good = text.substr(0, bad);
  const std::size_t line_begin = good.rfind('\n') + 1;  // npos + 1 is 0
  place.lines += std::ranges::count(good, '\n');
  place.column = line_begin == 0 ? place.column + good.size() : good.size() - line_begin;
  if (bad == std::string_view::npos) return place;
  fail(Exit::bad_data, name, ":", place.lines + 1, ": ", invalid_utf8_message(place.column + 1, unpack));
}

std::string describe_bad_line(std::string_view line, const LineOrigin& origin, const std::string& key) {
  const std::string_view unpack = origin.unpack;
  if (starts_with(line, "\xEF\xBB\xBF"))
    return cat("the line starts with a byte order mark; remove it: ", piped("sed 's/^\\xEF\\xBB\\xBF//'", unpack));
  const std::size_t bad = find_invalid_utf8(line);
  if (line.find('\0') != std::string_view::npos || (bad != std::string_view::npos && has_control(line)))
    return "the line has control characters: this is binary data, not text";
  if (bad != std::string_view::npos) return invalid_utf8_message(bad + 1, unpack);
  const std::string_view record = trim(line), rest = after_value(record);
  if (record.empty()) return "";
  if (record.front() == '\x1E')
    return cat("the record starts with a record separator (RFC 7464); remove it: ", piped("jq --seq -c .", unpack));
  if (const std::size_t cr = record.find('\r'); cr != std::string_view::npos && starts_with(rest, "{"))
    return cat("lines end with CR alone; convert them to LF: ", piped("tr '\\r' '\\n'", unpack, " <FILE"));
  if (record.front() == '{') return describe_bad_object(record, rest, origin);
  const std::string value = describe_other_value(record, origin, key);
  return value.empty() && origin.number == 1 ? describe_other_text(record, unpack, key) : value;
}

std::string describe_other_json(std::string_view text, std::string_view unpack, const std::string& key) {
  text = trim(text);
  const std::string_view line = text.substr(0, text.find('\n'));
  const bool is_json = begins_like_json(text) || is_python_dict(line);
  if (!is_json || find_invalid_utf8(line) != std::string_view::npos) return "";
  const std::string seems = describe_bad_line(line, {1, unpack}, key);
  return seems.empty() && spans_lines(text) ? describe_pretty_printed(unpack) : seems;
}

/// Returns the command that makes a text of a list of chat messages under `name`, or "" for another value.
static std::string join_chat(const std::string& name, const Json& value, const std::string& key,
                             std::string_view unpack) {
  struct Message {
    const char *speaker, *text;
  };
  for (const auto& [speaker, text] : {Message{"role", "content"}, Message{"from", "value"}}) {
    const auto is_object = [](const Json& each) { return each.is_object(); };
    const auto is_message = [&](const Json& each) {
      const Json *who = each.is_object() ? each.find(speaker) : nullptr, *what = who ? each.find(text) : nullptr;
      if (what == nullptr || !who->is_string()) return false;
      const bool has_parts = what->is_array() && std::ranges::all_of(what->as_array(), is_object);
      return what->is_string() || what->is_null() || has_parts;  // null: the message calls a tool
    };
    if (!value.is_array() || value.as_array().empty() || !std::ranges::all_of(value.as_array(), is_message)) continue;
    const std::string parts = "if type == \"array\" then map(.text? // \"\") | join(\"\") else . end";
    const std::string texts = cat("map(", jq_member(text), " | ", parts, ") | join(\"\\n\")");
    return cat(in_quotes(name), " is a list of chat messages; join their ", in_quotes(text), " into one text: ",
               piped(jq(cat("{", in_quotes(key), ": (", jq_member(name), " | ", texts, ")}")), unpack));
  }
  return "";
}

/// A tree of the values takes several times as much memory as a line.
static constexpr std::size_t kTreeBytes = 16 << 20;

/// For an object on a file's first line that lacks the key: returns where in the object the texts seem to be and what
/// to do, or "".
static std::string describe_other_layout(const Json& object, std::string_view unpack, const std::string& key) {
  const auto has_key = [&](const Json& value) { return value.is_object() && value.find(key) != nullptr; };
  std::int64_t objects = 0, items = 0;
  std::string inner;
  for (const auto& [name, value] : object.as_object()) {
    ++items;
    if (has_key(value)) ++objects, inner = jq_member(name);
    if (value.is_array() && !value.as_array().empty() && has_key(value.as_array().front()))
      return cat("the documents seem to be in the list ", in_quotes(name),
                 "; put each on its own line: ", piped(jq(cat(jq_member(name), "[]")), unpack));
  }
  if (objects > 1 && objects == items)
    return cat("the file seems to be one object that contains the documents by name; put each on its own line: ",
               piped("jq -c '.[]'", unpack));
  if (objects != 1) return "";
  return cat("the key is one level down; unwrap its object: ", piped(jq(inner), unpack));
}

std::string describe_missing_key(std::string_view line, const LineOrigin& origin, const std::vector<std::string>& keys,
                                 const std::string& key) {
  const std::string missing = cat("the line has no key ", in_quotes(key));
  if (origin.follows_texts)
    return cat(missing,
               ", but earlier lines have it; drop the lines without it: ", without_missing(keys, origin.unpack));
  if (line.size() > kTreeBytes) return missing;
  const Json object = Json::parse(line);
  const std::string layout = origin.number == 1 ? describe_other_layout(object, origin.unpack, key) : "";
  if (!layout.empty()) return cat(missing, "; ", layout);
  std::vector<std::string> remedies, texts;
  for (const auto& [name, value] : object.as_object()) {
    if (const std::string chat = join_chat(name, value, key, origin.unpack); !chat.empty()) remedies.push_back(chat);
    if (value.is_string() && std::ranges::count(keys, name) == 0 && texts.size() < 8) texts.push_back(in_quotes(name));
  }
  if (!texts.empty())
    remedies.push_back(cat("choose ", texts.size() == 1 ? "" : "one of ", join(texts, ", "), " with --json-keys"));
  if (remedies.empty()) return cat(missing, ", and no other whose value is a string");
  return cat(missing, "; ", join(remedies, "; or "));
}

std::string describe_wrong_value(std::string_view value, const LineOrigin& origin, const std::vector<std::string>& keys,
                                 const std::string& key) {
  if (value.front() == 'n') return cat("drop the lines in which it is null: ", without_missing(keys, origin.unpack));
  if (value.front() == '{')
    return "if it has one text for each row, as from pandas, write the file with to_json(FILE, orient='records', "
           "lines=True)";
  if (value.front() != '[' || value.size() > kTreeBytes) return "";
  return join_chat(key, Json::parse(value.substr(0, value.size() - after_value(value).size())), key, origin.unpack);
}

}  // namespace mtl
