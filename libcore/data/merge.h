// The token files of a merge and their order: Megatron-LM's merge_datasets.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/document_copy.h"
#include "data/indexed_dataset.h"

namespace mtl {

/// Finds the prefixes of all token files in a folder, sorted by the bytes of their names; ignores other files and
/// folders. Throws Error(bad_data) for a .bin without its .idx, the reverse, or a folder without any; Error(io) if it
/// cannot be listed.
std::vector<std::string> find_token_files(const std::string& folder);

/// The traits that all inputs of a merge share.
struct MergeTraits {
  DataType type;
  bool has_modes;
};
/// Returns the traits of the inputs, at least one. Throws Error(bad_data), naming both files, if types differ, or if
/// only some of the data sets with sequences have modes.
MergeTraits check_mergeable(const std::vector<std::unique_ptr<IndexedDataset>>& inputs);

}  // namespace mtl
