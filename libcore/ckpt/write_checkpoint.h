// Writes a model of any format as a checkpoint of mtl.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "models/model_format.h"

namespace mtl {

/// Fills `out` with an entire tensor, whose elements are rounded to `dtype`.
void read_tensor(const ModelSource& source, const SavedTensor& tensor, StoredDType dtype, std::vector<std::byte>& out,
                 const ConversionHook& on_conversion = {});

/// Returns a tensor's dtype in the output. --dtype applies to parameters, but not to optimizer states.
StoredDType target_dtype(const SavedTensor& tensor, std::optional<StoredDType> dtype);

/// Commits the checkpoint of the source's iteration in `folder`, with its optimizer and training state and its
/// companion files.
void write_checkpoint(const ModelSource& source, const std::string& folder, const ModelWriteOptions& options);

}  // namespace mtl
