// Collects an SVG document's elements and tracks their right edge. All lengths are in pixels.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace mtl {

class SvgCanvas {
 public:
  /// `style` is a class in the document's style sheet.
  void line(double x1, double y1, double x2, double y2, const char* style);
  void box(double x, double y, double width, double height, const char* style);
  void label(double x, double y, const std::string& text, const char* style);
  /// `attributes` are added to the element, such as text-anchor="end".
  void text(double x, double y, const std::string& text, std::string_view attributes = "");
  /// Adds markup unchanged.
  void raw(const std::string& markup) { body_ += markup; }

  /// Extends width() to at least `x`. box() does this automatically; line() and text() do not.
  void widen(double x) { width_ = std::max(width_, x); }
  double width() const { return width_; }

  /// Returns the entire document. `head` contains style sheet and definitions.
  std::string document(double width, double height, const std::string& title, const std::string& head) const;

 private:
  std::string body_;
  double width_ = 0;
};

/// Returns printable_text(text) with XML's five special characters escaped.
std::string escape_xml(std::string_view text);

}  // namespace mtl
