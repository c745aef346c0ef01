// Variants of golden folders that are stored as edits of their files.
#pragma once

#include <map>
#include <string>

#include "base/files.h"
#include "base/json.h"

namespace mtl::test {

inline std::string unhex(const std::string& digits) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  return bytes;
}

/// Replaces `cut` bytes from byte `at` of the file FOLDER/`file` by the bytes `put` (hexadecimal), `times` times, for
/// each edit in a list, whose places are those in the unchanged files, in order.
inline void apply_edits(const std::string& folder, const Json& list) {
  std::map<std::string, std::string> files;
  const Json::Array& edits = list.as_array();
  for (std::size_t i = edits.size(); i-- > 0;) {
    const std::string path = cat(folder, "/", edits[i].at("file").as_string());
    const auto [file, is_new] = files.emplace(path, "");
    if (is_new) file->second = read_file(path);
    std::string put;
    for (std::int64_t left = edits[i].int_or("times", 1); left > 0; --left)
      put += unhex(edits[i].at("put").as_string());
    file->second.replace(edits[i].at("at").as_int(), edits[i].at("cut").as_int(), put);
  }
  for (const auto& [path, text] : files) write_file_atomic(path, text);
}

}  // namespace mtl::test
