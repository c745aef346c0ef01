// Variants of golden folders that are stored as edits of their files, or made by editing them.
#pragma once

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "formats/zip_archive.h"
#include "formats/zip_writer.h"
#include "models/model_source.h"

namespace mtl::test {

inline std::string unhex(const std::string& digits) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  return bytes;
}

/// Replaces `cut` bytes from byte `at` of the file FOLDER/`file` by the bytes `put` (hexadecimal), `times` times, for
/// each edit in a list, whose `at` are those in the unchanged files, in order.
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

/// A text as it is in pickles of protocol 2 and later.
inline std::string pickle_text(const std::string& text) {
  return cat("X", char(text.size()), std::string(3, '\0'), text);  // BINUNICODE
}

/// Replaces the first `from` after the text `key` in the pickle of every file whose path contains `file`. An empty
/// `from` renames the key; an empty `key` removes the files.
struct PickleEdit {
  std::string file, key, from, to;
  bool is_at_key = false;  // `from` begins with the key
};

inline void apply_edit(const std::string& folder, const PickleEdit& edit) {
  std::vector<std::string> paths;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string path = entry.path().string();
    if (entry.is_regular_file() && path.find(edit.file) != std::string::npos) paths.push_back(path);
  }
  REQUIRE(!paths.empty());
  for (const std::string& path : paths) {
    if (edit.key.empty()) {
      fs::remove(path);
      continue;
    }
    edit_pickle(path, [&](std::string pickle) {
      const std::string key = pickle_text(edit.key);
      const std::size_t at = pickle.find(key);
      REQUIRE(at != std::string::npos);
      if (edit.from.empty()) return pickle.replace(at, key.size(), pickle_text(edit.to));
      const std::size_t value = pickle.find(edit.from, edit.is_at_key ? at : at + key.size());
      REQUIRE(value != std::string::npos);
      return pickle.replace(value, edit.from.size(), edit.to);
    });
  }
}

/// Opens and verifies a model. Returns the error with its code, or the numbers of the training state, "+" if there is
/// an optimizer state, the problem with it, and the samples that were skipped.
template <class Open>
std::string outcome(const Open& open) {
  try {
    const ModelSource source = open();
    source.verify();
    const std::optional<TrainState> state = source.state();
    const std::int64_t skipped = state ? state->extra.int_or("skipped_samples", 0) : 0;
    return cat(state ? cat(state->iteration, " ", state->consumed_samples, " ", state->consumed_valid_samples, " ",
                           state->optimizer_steps, " ", state->skipped_iterations)
                     : "no state",
               source.has_optimizer() ? " +" : " -", source.optimizer_problem(),
               skipped != 0 ? cat(" skipped ", skipped) : "");
  } catch (const Error& error) {
    return cat(static_cast<int>(error.code()), ": ", error.what());
  }
}

}  // namespace mtl::test
