#include "models/format_marks.h"

#include <algorithm>

#include "base/files.h"
#include "base/open_file.h"
#include "formats/folder_entries.h"

namespace mtl {

namespace {

bool begins_with(const std::string& path, std::string_view magic) {
  if (magic.empty()) return true;
  std::string head(magic.size(), '\0');
  std::error_code error;
  return fs::is_regular_file(path, error) && passes([&] {
           OpenFile(path).read(0, std::as_writable_bytes(std::span(head)));
           return head == magic;
         });
}

/// Returns the names of the entries that fit a pattern. Lists the folder only for a pattern with wildcards.
std::vector<std::string> entries_of(const std::string& folder, std::string_view pattern) {
  if (pattern.find_first_of("*#") != std::string_view::npos) {
    std::vector<std::string> names = names_in_folder(folder);
    std::erase_if(names, [&](const std::string& name) { return !matches(name, pattern); });
    return names;
  }
  if (!file_exists(cat(folder, "/", pattern))) return {};
  return {std::string(pattern)};
}

}  // namespace

FoundMark find_mark(std::span<const FormatMark> marks, const std::string& folder,
                    const std::vector<std::string>& names) {
  for (const FormatMark& mark : marks) {
    for (const std::string& name : names) {
      if (matches(name, mark.name) && (mark.not_ending.empty() || !ends_with(name, mark.not_ending)) &&
          (mark.beside.empty() || !entries_of(folder, mark.beside).empty()) &&
          begins_with(cat(folder, "/", name), mark.magic))
        return {&mark, name};
    }
  }
  return {};
}

bool has_mark(std::span<const FormatMark> marks, const std::string& folder) {
  return is_directory(folder) && std::ranges::any_of(marks, [&](const FormatMark& mark) {
           return bool(find_mark({&mark, 1}, folder, entries_of(folder, mark.name)));
         });
}

}  // namespace mtl
