// Makes a title, a path or a host's name safe for a terminal and for XML or JSON documents.
#pragma once

#include <string>
#include <string_view>

namespace mtl {

/// Returns valid UTF-8 without control characters, which a terminal would obey: replaces invalid bytes, and the last
/// two code points of each plane (XML forbids U+FFFE and U+FFFF), with U+FFFD; removes DEL, C0 and C1 controls that are
/// not in `kept`.
std::string printable_text(std::string_view text, std::string_view kept = "");

/// For a message of several lines: keeps newlines and tabs.
inline std::string printable_message(std::string_view text) { return printable_text(text, "\n\t"); }

}  // namespace mtl
