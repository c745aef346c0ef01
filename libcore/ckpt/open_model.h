// Finds and opens a model on disk in any format of model_formats.h.
#pragma once

#include <string>

#include "base/console.h"
#include "ckpt/model_formats.h"
#include "models/model_source.h"

namespace mtl {

/// Opens one of these; `path` may also be a model's name in the Hugging Face hub's cache (base/hub_cache.h). Recognizes
/// the format by the contents of `path`.
/// - A folder that mtl-train saves into: its newest valid checkpoint.
/// - One model in any of the formats, or another program's folder of several.
///
/// If no format fits, the error says what was looked for. Warns about each checkpoint that it skips. Throws
/// Error(usage) if given.num_attention_heads contradicts the files and !given.may_differ.
ModelSource open_model(const std::string& path, Console& console, const ModelSupplement& given = {},
                       ModelFormats formats = model_formats());
/// Returns the path that open_model() would open: the newest valid checkpoint in a folder that mtl-train saves into,
/// the checkpoint that a Megatron-LM folder's tracker names, or otherwise the path itself. In a job, rank 0 calls this
/// function and sends the result to all ranks, so that they all open the same model.
std::string find_model(const std::string& name, Console& console, ModelFormats formats = model_formats());

}  // namespace mtl
