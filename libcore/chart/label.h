// Shortens names to a given width.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace mtl {

/// The number of characters of UTF-8 text.
std::size_t count_characters(std::string_view text);

/// The text, or the longest form that `fits` accepts with its middle replaced by `mark`: names often differ at both
/// ends. Only `mark` if none fits.
std::string cut_middle(const std::string& text, std::string_view mark,
                       const std::function<bool(const std::string&)>& fits);

}  // namespace mtl
