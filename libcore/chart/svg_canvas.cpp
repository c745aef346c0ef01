#include "chart/svg_canvas.h"

#include <utility>

#include "base/printable.h"
#include "base/str.h"

namespace mtl {

void SvgCanvas::line(double x1, double y1, double x2, double y2, const char* style) {
  body_ += format("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"%s\"/>\n", x1, y1, x2, y2, style);
}

void SvgCanvas::box(double x, double y, double width, double height, const char* style) {
  body_ +=
      format("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" class=\"%s\"/>\n", x, y, width, height, style);
  widen(x + width);
}

void SvgCanvas::label(double x, double y, const std::string& text, const char* style) {
  this->text(x, y, text, cat("class=\"", style, "\""));
}

void SvgCanvas::text(double x, double y, const std::string& text, std::string_view attributes) {
  body_ += cat(format("<text x=\"%.1f\" y=\"%.1f\" ", x, y), attributes, ">", escape_xml(text), "</text>\n");
}

std::string SvgCanvas::document(double width, double height, const std::string& title, const std::string& head) const {
  return cat(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n",
      format("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
             "role=\"img\">\n",
             width, height, width, height),
      "<title>", escape_xml(title), "</title>\n", head, "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n", body_,
      "</svg>\n");
}

std::string escape_xml(std::string_view text) {
  constexpr std::pair<std::string_view, std::string_view> kEscapes[] = {// & is first, because escapes contain it
                                                                        {"&", "&amp;"},
                                                                        {"<", "&lt;"},
                                                                        {">", "&gt;"},
                                                                        {"\"", "&quot;"},
                                                                        {"'", "&#39;"}};
  std::string out = printable_text(text);
  for (const auto& [character, escape] : kEscapes) out = replace_all(out, character, escape);
  return out;
}

}  // namespace mtl
