// The table of all formats of models on disk: mtl's own, and those of models/foreign_formats.h. open_model() recognizes
// and opens a path by it, mtl-convert writes and cleans up by it, helps and errors list it, and `mtl-convert
// --list-formats` and docs/models.md print it. CONTRIBUTING.md says how to add a row.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/console.h"
#include "models/model_format.h"

namespace mtl {

/// Returns all formats. A path is of the first format in this order whose holds() is true.
ModelFormats model_formats();
/// Returns the format of one model, or nullptr if no format's holds() is true.
const ModelFormat* find_model_format(const std::string& path, ModelFormats formats = model_formats());
/// Returns `path` if it is one model, or the current one in another program's folder of several. Otherwise empty.
/// Throws Error(bad_data) if a folder contains checkpoints of both mtl and Megatron-LM, which name them alike.
std::optional<std::string> find_model_in(const std::string& path, Console& console,
                                         ModelFormats formats = model_formats());
/// Warns if `folder` also contains a model in another format than `model`, which is `folder` or one of the checkpoints
/// in it, and is a model. Two formats of one program's checkpoints are no reason to warn: its tracker selects one.
void warn_of_other_model(const std::string& folder, const std::string& model, Console& console,
                         ModelFormats formats = model_formats());

/// Returns the values of mtl-convert's --to, in the order of the table.
std::vector<std::string> written_formats(ModelFormats formats = model_formats());
/// Returns the format that mtl-convert writes with the flags --to, one of written_formats(), and --ckpt-format, which
/// only some values of --to heed.
const ModelFormat& written_format(std::string_view to, std::string_view ckpt_format);
/// Returns the models that --load can name, for a help: "a checkpoint of mtl, Megatron-LM or torchtitan, or a Hugging
/// Face folder".
std::string loadable_models(ModelFormats formats = model_formats());
/// Returns what the formats are recognized by: "manifest.json (checkpoint), ... or config.json (Hugging Face folder)".
std::string recognized_entries(ModelFormats formats = model_formats());

}  // namespace mtl
