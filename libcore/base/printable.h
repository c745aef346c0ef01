// Text that a terminal shows and an XML or JSON document may hold, from a title, a path or a host's name.
#pragma once

#include <string>
#include <string_view>

namespace mtl {

/// Valid UTF-8 without control characters, which a terminal would obey: invalid bytes and
/// noncharacters (XML forbids U+FFFE and U+FFFF) become U+FFFD; C0 controls other than those in `kept`, DEL, and C1
/// controls are removed.
std::string printable_text(std::string_view text, std::string_view kept = "");

/// A message of several lines: newlines and tabs stay.
inline std::string printable_message(std::string_view text) { return printable_text(text, "\n\t"); }

}  // namespace mtl
