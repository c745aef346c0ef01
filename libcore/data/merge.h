// The token files to merge, in the same order as in Megatron-LM's merge_datasets.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/document_copy.h"
#include "data/indexed_dataset.h"

namespace mtl {

/// Returns the prefixes of all token files in a folder, sorted by the bytes of the file names. Ignores other files and
/// subfolders. Throws Error(bad_data) if half of a pair is missing, or if the folder has no token files. Throws
/// Error(io) if the folder cannot be listed.
std::vector<std::string> find_token_files(const std::string& folder);

/// The traits of merged files.
struct MergeTraits {
  DataType type;
  bool has_modes;
};
/// Returns the traits for `inputs`, which must not be empty: their type, or `type` if it is given. Throws
/// Error(bad_data), with the names of two conflicting files, if the types differ and no type is given, or if only some
/// inputs have modes. Data sets without sequences may have either.
MergeTraits check_mergeable(const std::vector<std::unique_ptr<IndexedDataset>>& inputs,
                            std::optional<DataType> type = {});

}  // namespace mtl
