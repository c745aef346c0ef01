#include "data/npy.h"

#include <charconv>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/str.h"

namespace mtl {
namespace {

/// Returns NumPy's name for a type, such as "<u2": byte order, kind, number of bytes. For one-byte types, NumPy writes
/// | instead of a byte order.
std::string npy_type(std::string_view name, std::size_t bytes) {
  return cat(bytes == 1 ? '|' : '<', name.front(), bytes);
}

std::string npy_header(const std::string& descr, std::int64_t size) {
  constexpr std::size_t kFixed = 10, kAlignment = 64;
  std::string text = cat("{'descr': '", descr, "', 'fortran_order': False, 'shape': (", size, ",), }");
  const std::size_t unpadded = kFixed + text.size() + 1;
  text.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  text += '\n';
  return cat(kNpyMagic, std::string_view("\x01\x00", 2), to_little_endian(text.size(), 2), text);
}

/// Parses the dictionary: the part of Python's syntax for literals that NumPy writes.
class NpyText {
 public:
  explicit NpyText(std::string_view text) : text_(text) {}

  void parse() {
    take('{');
    while (!take_if('}')) {
      const std::string_view key = string();
      take(':');
      if (key == "descr") {
        set(descr, key, type());
      } else if (key == "fortran_order") {
        set(is_fortran, key, boolean());
      } else if (key == "shape") {
        set(shape, key, tuple());
      } else {
        fail(Exit::bad_data, "the header has an unknown key '", key.substr(0, 40), "'");
      }
      if (!take_if(',') && peek() != '}') fail_at_offset();
    }
    if (peek() != '\0') fail_at_offset();
    if (!descr || !is_fortran || !shape) fail(Exit::bad_data, "the header lacks descr, fortran_order or shape");
  }

  std::optional<std::string_view> descr;
  std::optional<bool> is_fortran;
  std::optional<std::vector<std::int64_t>> shape;

 private:
  [[noreturn]] void fail_at_offset() const {
    fail(Exit::bad_data, "the header is not a dictionary as NumPy writes it (character ", at_, " of its text)");
  }
  template <class T>
  void set(std::optional<T>& value, std::string_view key, T found) {
    if (value) fail(Exit::bad_data, "the header has the key '", key, "' twice");
    value = std::move(found);
  }

  /// Returns the next character that is not a blank, or '\0' at the end.
  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    if (at_ == text_.size()) return '\0';
    if (text_[at_] == '\0') fail_at_offset();
    return text_[at_];
  }
  bool take_if(char c) { return peek() == c ? (++at_, true) : false; }
  void take(char c) {
    if (!take_if(c)) fail_at_offset();
  }
  std::string_view string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') fail_at_offset();
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) fail_at_offset();
    const std::string_view out = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return out;
  }
  std::string_view type() {
    if (peek() == '[')
      fail(Exit::bad_data, "the array has several fields (a structured type), not token ids; save one of them");
    return string();
  }
  bool boolean() {
    peek();
    for (const std::string_view word : {"True", "False"}) {
      if (!starts_with(text_.substr(at_), word)) continue;
      at_ += word.size();
      return word == "True";
    }
    fail_at_offset();
  }
  std::int64_t number() {
    peek();
    std::int64_t value = 0;
    const char *begin = text_.data() + at_, *end = text_.data() + text_.size();
    const auto [rest, error] = std::from_chars(begin, end, value);
    if (error != std::errc{}) fail_at_offset();
    at_ += rest - begin;
    return value;
  }
  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> out;
    take('(');
    while (!take_if(')')) {
      out.push_back(number());
      if (!take_if(',') && peek() != ')') fail_at_offset();
    }
    return out;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

IntegerType read_descr(std::string_view descr) {
  const auto refuse = [&](std::string_view what) {
    fail(Exit::bad_data, "the array's type is ", what, " ('", descr.substr(0, 40),
         "'); save its ids as integers: numpy.save(FILE, a.astype('<u2')), or '<i4'");
  };
  if (descr.size() < 2) refuse("not an integer type");
  const char order = descr[0], kind = descr[1];
  if (kind == 'O') refuse("object, which only Python can read");
  if ((kind != 'u' && kind != 'i') || descr.size() != 3) refuse("not an integer type");
  const auto type = parse_integer_type(cat(kind, 8 * parse_int(descr.substr(2)).value_or(0)));
  if (!type) refuse("not an integer type");
  if (type->bytes == 1 ? order != '|' && order != '<' && order != '>' : order != '<')
    refuse(order == '>' ? "big-endian" : "of unknown byte order");
  return *type;
}

}  // namespace

std::string npy_header(DataType type, std::int64_t size) {
  return npy_header(npy_type(name_of(type), item_size(type)), size);
}

std::string npy_header(IntegerType type, std::int64_t size) {
  return npy_header(npy_type(name_of(type), type.bytes), size);
}

FlatHeader read_npy_header(std::string_view head) {
  constexpr std::size_t kVersionAt = 6, kLengthAt = 8;
  if (!starts_with(head, kNpyMagic) || head.size() < kLengthAt + 2)
    fail(Exit::bad_data, "the file is too short for the header of an .npy file");
  const int version = static_cast<unsigned char>(head[kVersionAt]);
  if (version < 1 || version > 3 || head[kVersionAt + 1] != 0)
    fail(Exit::bad_data, "the .npy format version is ", version, ".", int{static_cast<unsigned char>(head[7])},
         "; 1.0, 2.0 and 3.0 are supported");
  const std::size_t length_bytes = version == 1 ? 2 : 4, text_at = kLengthAt + length_bytes;
  const std::uint64_t length = from_little_endian(head.substr(kLengthAt, length_bytes));
  if (length > kNpyHeadBytes - 12)
    fail(Exit::bad_data, "the header's text has ", length, " bytes; numpy.load and mtl accept at most ",
         with_commas(kNpyHeadBytes - 12));
  if (head.size() < text_at + length)
    fail(Exit::bad_data, "the header needs ", text_at + length, " bytes, but the file has ", head.size());
  NpyText text(head.substr(text_at, length));
  text.parse();
  const IntegerType type = read_descr(*text.descr);
  if (text.shape->size() != 1)
    fail(Exit::bad_data, "the array has ", text.shape->size(),
         " dimensions, not 1; flatten it: numpy.save(FILE, a.ravel())");
  // NumPy never writes this for one dimension.
  if (*text.is_fortran) fail(Exit::bad_data, "the array is in Fortran order; save it with numpy.save(FILE, a.ravel())");
  if (text.shape->front() < 0) fail(Exit::bad_data, "the array has ", text.shape->front(), " elements");
  return {type, text.shape->front(), text_at + length};
}

}  // namespace mtl
