// The token files to merge, in the same order as in Megatron-LM's merge_datasets.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/document_copy.h"
#include "data/indexed_dataset.h"

namespace mtl {

/// Returns the prefixes of all token files in a folder, sorted by the bytes of the file names. Ignores other files and
/// subfolders. Throws Error(bad_data) if half of a pair is missing, or if the folder has no token files. Throws
/// Error(io) if the folder cannot be listed.
std::vector<std::string> find_token_files(const std::string& folder);

/// The traits that all inputs to a merge share.
struct MergeTraits {
  DataType type;
  bool has_modes;
};
/// Returns the common traits of `inputs`, which must not be empty. Throws Error(bad_data), with the names of two
/// conflicting files, if the types differ or only some inputs have modes. Data sets without sequences may have either.
MergeTraits check_mergeable(const std::vector<std::unique_ptr<IndexedDataset>>& inputs);

}  // namespace mtl
