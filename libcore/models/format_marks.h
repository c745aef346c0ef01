// Names of files and folders by which a program's models are recognized.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mtl {

/// An entry of a folder that shows what the folder contains.
struct FormatMark {
  std::string_view name;             // a pattern of matches() in formats/folder_entries.h
  std::string_view what = {};        // with a verb: "is a checkpoint of nanoGPT"; the name follows in parentheses
  std::string_view remedy = {};      // how to make it a model that mtl reads; begins with punctuation
  std::string_view beside = {};      // such a pattern for another entry in the same folder; empty: any
  std::string_view magic = {};       // the file's first bytes; empty: any
  std::string_view not_ending = {};  // of the name; empty: any
};

/// The remedy for a model that mtl reads, but not where it was found.
inline constexpr std::string_view kReadRemedy = "; use it only with --load";

struct FoundMark {
  const FormatMark* mark = nullptr;  // null: not found
  std::string name;                  // the entry's
  explicit operator bool() const { return mark != nullptr; }
};
/// Returns the first of the marks that one of the names in a folder fits.
FoundMark find_mark(std::span<const FormatMark> marks, const std::string& folder,
                    const std::vector<std::string>& names);
/// True if `folder` is a folder with one of the marks.
bool has_mark(std::span<const FormatMark> marks, const std::string& folder);

}  // namespace mtl
