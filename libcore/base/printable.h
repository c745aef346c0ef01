// Makes titles, paths, host names and the like safe for terminals, XML and JSON.
#pragma once

#include <string>
#include <string_view>

namespace mtl {

/// Returns `text` as valid UTF-8 without control characters, which a terminal would execute. Replaces invalid bytes and
/// each plane's last two code points (XML forbids U+FFFE and U+FFFF) with U+FFFD. Removes DEL and all C0 and C1 control
/// characters not in `kept`, and characters that would show what follows them in another order.
std::string printable_text(std::string_view text, std::string_view kept = "");

/// Like printable_text(), but keeps newlines and tabs, for multi-line messages.
inline std::string printable_message(std::string_view text) { return printable_text(text, "\n\t"); }

}  // namespace mtl
