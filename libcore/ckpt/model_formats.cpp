#include "ckpt/model_formats.h"

#include <algorithm>

#include "base/files.h"
#include "base/find.h"
#include "base/printable.h"
#include "ckpt/checkpoint.h"
#include "ckpt/checkpoint_folder.h"
#include "ckpt/manifest.h"
#include "ckpt/write_checkpoint.h"
#include "models/foreign_formats.h"

namespace mtl {

namespace {

constexpr FormatMark kOwnMarks[] = {{kManifestName}};
constexpr std::string_view kOwnParts[] = {kManifestName, "shard_#.safetensors"};
constexpr ModelFormat kOwnFormat = {
    .name = "mtl",
    .kind = "checkpoint",
    .content = "a checkpoint",
    .program = "mtl",
    .recognized = "manifest.json",
    .versions = "0.1.0 and later",
    .reads = "weights, Adam's moments, training state",
    .writes = "--to mtl",
    .proof = "cli/ages_test.sh",
    .marks = kOwnMarks,
    .parts = kOwnParts,
    .open = [](const std::string& path, const ModelSupplement&, Console&) { return open_checkpoint(path); },
    .write = write_checkpoint};

void add_new(std::vector<std::string>& words, std::string word) {
  if (std::ranges::find(words, word) == words.end()) words.push_back(std::move(word));
}

}  // namespace

ModelFormats model_formats() {
  static const std::vector<ModelFormat> formats = [] {
    std::vector<ModelFormat> all = {kOwnFormat};
    all.insert(all.end(), foreign_formats().begin(), foreign_formats().end());
    return all;
  }();
  return formats;
}

const ModelFormat* find_model_format(const std::string& path, ModelFormats formats) {
  return find_or_null(formats, true, [&](const ModelFormat& format) { return format.holds(path); });
}

std::optional<std::string> find_model_in(const std::string& path, Console& console, ModelFormats formats) {
  if (find_model_format(path, formats) != nullptr) return path;
  if (is_directory(path)) refuse_two_programs(path);
  for (const ModelFormat& format : formats) {
    if (format.current == nullptr) continue;
    if (std::optional<std::string> found = format.current(path, console)) return found;
  }
  return std::nullopt;
}

void warn_of_other_model(const std::string& folder, const std::string& model, Console& console, ModelFormats formats) {
  if (!is_directory(folder)) return;
  const ModelFormat& chosen = *find_model_format(model, formats);
  if (chosen.find_weights != nullptr && chosen.find_weights(model).empty()) return;  // opening it says what is there
  const std::string marks = model == folder ? std::string(chosen.recognized) : fs::path(model).filename().string();
  const auto warn = [&](const ModelFormat& other, std::string_view other_marks) {
    console.warn(cat(folder, " contains more than one model: mtl reads the ", chosen.kind, " (", marks,
                     ") and ignores the ", other.kind, " (", other_marks,
                     "); move one of them to a folder of its own"));
  };
  for (const ModelFormat& other : formats) {
    if (&other == &chosen || other.name == chosen.basis) continue;
    const std::string found = other.find_weights != nullptr ? other.find_weights(folder)
                              : other.holds(folder)         ? std::string(other.recognized)
                                                            : "";
    if (!found.empty()) return warn(other, found);
  }
  for (const std::string& name : names_in_folder(folder)) {
    const ModelFormat* other = is_iteration_name(name) ? find_model_format(cat(folder, "/", name), formats) : nullptr;
    const bool is_same = other == nullptr || other == &chosen || (other->current && other->current == chosen.current);
    if (!is_same) return warn(*other, printable_text(name));
  }
}

std::vector<std::string> written_formats(ModelFormats formats) {
  std::vector<std::string> names;
  for (const ModelFormat& format : formats) {
    if (!format.writes.empty()) add_new(names, split(std::string(format.writes), ' ').at(1));
  }
  return names;
}

const ModelFormat& written_format(std::string_view to, std::string_view ckpt_format) {
  const ModelFormats formats = model_formats();
  const std::string flags = cat("--to ", to);
  const auto found = std::ranges::find(formats, cat(flags, " --ckpt-format ", ckpt_format), &ModelFormat::writes);
  return found != formats.end() ? *found : *std::ranges::find(formats, flags, &ModelFormat::writes);
}

std::string loadable_models(ModelFormats formats) {
  std::vector<std::string> programs, others;
  for (const ModelFormat& format : formats)
    format.program.empty() ? add_new(others, cat(", or a ", format.kind))
                           : add_new(programs, std::string(format.program));
  return cat("a checkpoint of ", join_or(programs), join(others, ""));
}

std::string recognized_entries(ModelFormats formats) {
  return join_or(
      texts_of(formats, [](const ModelFormat& format) { return cat(format.recognized, " (", format.kind, ")"); }));
}

}  // namespace mtl
