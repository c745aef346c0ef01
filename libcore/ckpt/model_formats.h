// The formats of models on disk, one row each. ModelSource recognizes and opens a path by this table, mtl-convert
// writes by it, and `mtl-convert --list-formats` and docs/models.md print it. CONTRIBUTING.md says how to add a row.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/console.h"
#include "models/model_source.h"
#include "models/tensor_reader.h"

namespace mtl {

struct ModelFormat {
  std::string_view name;        // "megatron", "torch_dist"
  std::string_view kind;        // ModelSource::kind() of such a model: "Megatron-LM checkpoint"
  std::string_view recognized;  // the entries that a folder of this format contains
  std::string_view versions;    // the releases that wrote what mtl reads
  std::string_view reads;       // what mtl reads: "weights, Adam's moments"
  std::string_view writes;      // mtl-convert's flags that write this format; "" if mtl does not write it
  bool lacks_config = false;    // the files may not state the configuration: ModelSupplement::hf_config then does
  std::string_view basis = {};  // the format whose holds() is true for folders of this format, too
  std::string_view proof;       // the test in tests/ that compares with files of the program itself

  /// True if `path` is one model of this format, judged by names. Opens no files.
  bool (*holds)(const std::string& path);
  /// Returns the current one of the models in another program's folder of several, or empty if `path` is not such a
  /// folder. Null for formats whose models stand alone, and for a folder that mtl-train saves into, which
  /// newest_checkpoint() searches. Formats with the same function are of one program, which changed its format.
  std::optional<std::string> (*current)(const std::string& path, Console& console);
  /// Opens a model for which holds() is true. Throws Error(bad_data) for damaged or unsuitable files.
  std::unique_ptr<TensorReader> (*open)(const std::string& path, const ModelSupplement& given, Console& console);
  /// Returns the name of a file with weights in this format, even if other files of the model are missing, or "" if the
  /// folder has none. Null: holds() says whether it has weights.
  std::string (*find_weights)(const std::string& folder) = nullptr;
};

/// Returns all formats. A path is of the first format in this order whose holds() is true.
std::span<const ModelFormat> model_formats();
/// Returns the format of one model, or nullptr if no format's holds() is true.
const ModelFormat* find_model_format(const std::string& path);
/// Returns `path` if it is one model, or the current one in another program's folder of several. Otherwise empty.
std::optional<std::string> find_model_in(const std::string& path, Console& console);
/// Warns if `folder` also contains a model in another format than `model`, which is `folder` or one of the checkpoints
/// in it, and is a model. Two formats of one program's checkpoints are no reason to warn: its tracker selects one.
void warn_of_other_model(const std::string& folder, const std::string& model, Console& console);

}  // namespace mtl
