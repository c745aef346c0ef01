// Variants of golden folders that are stored as edits of their files, or made by editing them.
#pragma once

#include <doctest/doctest.h>

#include <map>
#include <string>

#include "base/files.h"
#include "base/json.h"
#include "ckpt/zip_archive.h"
#include "ckpt/zip_writer.h"

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

/// Replaces the only occurrence of `from` in a text.
inline std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  REQUIRE(text.find(from, at + 1) == std::string::npos);
  return text.replace(at, from.size(), to);
}

/// Writes an archive of torch.save() again, with what edit() makes of its pickle.
template <class Edit>
void edit_pickle(const std::string& path, const Edit& edit) {
  const std::string text = read_file(path);
  const ZipArchive zip(std::as_bytes(std::span(text)));
  OutputFile out(path);
  ZipWriter writer(out);
  for (const ZipEntry& entry : zip.entries()) {
    const std::string data(reinterpret_cast<const char*>(entry.data.data()), entry.data.size());
    writer.add(entry.name, ends_with(entry.name, "data.pkl") ? edit(data) : data);
  }
  writer.finish();
  out.close();
}

}  // namespace mtl::test
