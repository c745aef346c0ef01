// What mtl knows of a format of models on disk: one row of a table. ckpt/model_formats.h has the table; everything that
// recognizes, lists, describes, opens, writes or removes models goes by it.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/console.h"
#include "models/conversion_hook.h"
#include "models/format_marks.h"
#include "models/megatron_writer.h"
#include "models/model_source.h"

namespace mtl {

/// What mtl-convert writes.
struct ModelWriteOptions {
  std::optional<StoredDType> dtype = {};  // of the weights; empty: as stored
  ConversionHook on_conversion = {};
  std::uint64_t max_shard_bytes = 5'000'000'000;  // of a Hugging Face folder's weight files
  MegatronWriteOptions megatron = {};             // without dtype and hook
  std::string command_line = {};
};

struct ModelFormat {
  std::string_view name;          // "megatron", "torch_dist"
  std::string_view kind;          // ModelSource::kind() of such a model: "Megatron-LM checkpoint"
  std::string_view content;       // what a folder contains, in messages: "a Megatron-LM checkpoint"
  std::string_view program = {};  // whose checkpoints these are; "" if they are not a run's
  std::string_view recognized;    // the entries that a folder of this format contains
  std::string_view versions;      // the releases that wrote what mtl reads
  std::string_view reads;         // what mtl reads: "weights, Adam's moments"
  std::string_view writes = {};   // mtl-convert's flags that write this format; "" if mtl does not write it
  bool lacks_config = false;      // the files may not state the configuration: ModelSupplement::hf_config then does
  std::string_view basis = {};    // the format whose holds() is true for folders of this format, too
  std::string_view proof;         // the test in tests/ that compares with files of the program itself

  /// Of a folder with one model.
  std::span<const FormatMark> marks;
  /// The files of a model: patterns of matches(), relative to its folder. Beside them it may contain companion files
  /// (models/companion_files.h). Empty: mtl neither replaces nor removes such a model.
  std::span<const std::string_view> parts = {};
  /// The names that programs give to the folder of one iteration: patterns of matches().
  std::span<const std::string_view> iterations = {};
  /// True if a file, which is not a folder, is one model. Null: it is not.
  bool (*holds_file)(const std::string& path) = nullptr;
  /// False for a folder that has the marks, but those of something else. Null: it does not happen.
  bool (*is_model)(const std::string& folder) = nullptr;
  /// Returns the current one of the models in another program's folder of several, or empty if `path` is not such a
  /// folder. Null for formats whose models stand alone, and for a folder that mtl-train saves into, which
  /// newest_checkpoint() searches. Formats with the same function are of one program, which changed its format.
  std::optional<std::string> (*current)(const std::string& path, Console& console) = nullptr;
  /// Opens a model for which holds() is true. Throws Error(bad_data) for damaged or unsuitable files.
  std::unique_ptr<TensorReader> (*open)(const std::string& path, const ModelSupplement& given, Console& console);
  /// Writes a model into an existing, empty folder, and syncs every file. Null if `writes` is empty.
  void (*write)(const ModelSource& source, const std::string& folder, const ModelWriteOptions& options) = nullptr;
  /// Returns the name of a file with weights in this format, even if other files of the model are missing, or "" if the
  /// folder has none. Null: the marks say whether it has weights.
  std::string (*find_weights)(const std::string& folder) = nullptr;

  /// True if `path` is one model of this format, judged by names. Opens no files.
  bool holds(const std::string& path) const {
    return has_mark(marks, path) || (holds_file != nullptr && holds_file(path));
  }
};

using ModelFormats = std::span<const ModelFormat>;

}  // namespace mtl
