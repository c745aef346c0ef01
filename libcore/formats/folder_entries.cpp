#include "formats/folder_entries.h"

#include <algorithm>

#include "base/files.h"

namespace mtl {

namespace {

/// Removes a non-negative number of up to five digits from the front of `text`. Empty if there is none.
std::optional<int> take_number(std::string_view& text) {
  std::size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') ++digits;
  if (digits == 0 || digits > 5) return std::nullopt;
  const std::optional<std::int64_t> value = parse_int(std::string(text.substr(0, digits)));
  text.remove_prefix(digits);
  return static_cast<int>(*value);
}

}  // namespace

std::vector<FolderEntry> list_entries(const std::string& path) {
  std::vector<FolderEntry> entries;
  std::error_code error;
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    const fs::file_type type = at->symlink_status(error).type();
    if (error) break;
    entries.push_back({.name = at->path().filename().string(),
                       .is_file = type == fs::file_type::regular,
                       .is_folder = type == fs::file_type::directory});
  }
  if (error) fail_at(Exit::io, path, "cannot list: ", error.message());
  std::ranges::sort(entries, [](const FolderEntry& a, const FolderEntry& b) { return a.name < b.name; });
  return entries;
}

std::vector<std::string> names_in_folder(const std::string& folder) {
  std::vector<std::string> names;
  if (!is_directory(folder)) return names;
  for (const FolderEntry& entry : list_entries(folder)) names.push_back(entry.name);
  return names;
}

bool matches(std::string_view name, std::string_view pattern) {
  for (; !pattern.empty(); pattern.remove_prefix(1)) {
    if (pattern.front() == '*') {
      for (std::size_t at = 0; at <= name.size(); ++at) {
        if (matches(name.substr(at), pattern.substr(1))) return true;
      }
      return false;
    }
    if (pattern.front() == '#') {
      const std::size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
      if (digits == 0) return false;
      name.remove_prefix(digits);
    } else {
      if (name.empty() || name.front() != pattern.front()) return false;
      name.remove_prefix(1);
    }
  }
  return name.empty();
}

std::optional<std::vector<int>> numbers_in(std::string_view name, const std::vector<std::string_view>& parts) {
  std::vector<int> numbers;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!take_prefix(name, parts[i])) return std::nullopt;
    if (i + 1 == parts.size()) break;
    const std::optional<int> number = take_number(name);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  return name.empty() ? std::optional(numbers) : std::nullopt;
}

std::optional<std::string> newest_numbered(const std::string& folder, std::string_view prefix,
                                           bool (*holds)(const std::string& folder)) {
  std::optional<std::string> found;
  std::int64_t newest = -1;
  for (const std::string& name : names_in_folder(folder)) {
    if (!matches(name, cat(prefix, "#"))) continue;
    const std::optional<std::int64_t> number = parse_int(name.substr(prefix.size()));
    if (!number || *number <= newest || !holds(cat(folder, "/", name))) continue;
    newest = *number;
    found = cat(folder, "/", name);
  }
  return found;
}

std::string tracker_text(const std::string& directory) {
  std::string path = cat(directory, "/", kTrackerName);
  return is_regular_file(path) ? std::string(trim(read_regular_file(path).substr(0, 64))) : "";
}

std::string folder_of(std::int64_t iteration) { return format("iter_%07lld", static_cast<long long>(iteration)); }

std::optional<std::int64_t> iteration_in_name(const std::string& name) {
  if (name.size() < 12 || !matches(name, "iter_#")) return std::nullopt;
  return parse_int(name.substr(5));
}

}  // namespace mtl
