#include "chart/label.h"

#include <algorithm>
#include <vector>

#include "base/str.h"
#include "base/utf8.h"

namespace mtl {

namespace {

/// True for a continuation byte of UTF-8.
bool is_continuation(char c) { return (byte_of(c) & 0xc0) == 0x80; }

}  // namespace

std::size_t count_characters(std::string_view text) {
  return text.size() - std::ranges::count_if(text, is_continuation);
}

double text_width(std::string_view text, double font) {
  double ems = 0;
  for (unsigned char c : text) {
    if ((c & 0xc0) == 0x80) continue;  // a UTF-8 continuation byte
    bool narrow = std::string_view("iljtfrI.,:;'|!()[] ").find(static_cast<char>(c)) != std::string_view::npos;
    bool wide = c == 'm' || c == 'w' || c == '@' || c == '%' || (c >= 'A' && c <= 'Z' && c != 'I');
    ems += c >= 0x80 ? 1.0 : narrow ? 0.36 : wide ? 0.86 : 0.58;
  }
  return ems * font;
}

std::string cut_middle(const std::string& text, std::string_view mark,
                       const std::function<bool(const std::string&)>& fits) {
  if (fits(text)) return text;
  std::vector<std::string> characters;
  for (char c : text) {
    if (is_continuation(c) && !characters.empty())
      characters.back() += c;
    else
      characters.emplace_back(1, c);
  }
  std::string out(mark);
  for (std::size_t keep = characters.size(); keep-- > 0;) {
    std::vector<std::string> front(characters.begin(),
                                   characters.begin() + static_cast<std::ptrdiff_t>((keep + 1) / 2));
    std::vector<std::string> back(characters.end() - static_cast<std::ptrdiff_t>(keep / 2), characters.end());
    out = cat(join(front, ""), mark, join(back, ""));
    if (fits(out)) break;
  }
  return out;
}

}  // namespace mtl
