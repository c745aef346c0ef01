// Makes text such as a title, a path or a host name safe for terminals and for XML and JSON documents.
#pragma once

#include <string>
#include <string_view>

namespace mtl {

/// Returns `text` as valid UTF-8 without control characters, which a terminal would execute. Replaces invalid bytes,
/// and the last two code points of each plane (XML forbids U+FFFE and U+FFFF), by U+FFFD. Removes DEL and all C0 and C1
/// control characters, except for those in `kept`.
std::string printable_text(std::string_view text, std::string_view kept = "");

/// Like printable_text(), but keeps newlines and tabs, for messages of several lines.
inline std::string printable_message(std::string_view text) { return printable_text(text, "\n\t"); }

}  // namespace mtl
