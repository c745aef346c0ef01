// The width of text, and names shortened to a given width.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace mtl {

/// Returns the number of characters in UTF-8 text.
std::size_t count_characters(std::string_view text);

/// Returns an upper estimate for a text's width in a sans-serif font of this size.
double text_width(std::string_view text, double font);

/// Returns the text if `fits` accepts it. Otherwise replaces its middle with `mark`, because names often differ at both
/// ends, and returns the longest result that fits, or just `mark` if none does.
std::string cut_middle(const std::string& text, std::string_view mark,
                       const std::function<bool(const std::string&)>& fits);

}  // namespace mtl
