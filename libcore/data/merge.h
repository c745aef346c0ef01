// The token files that a merge takes, and their order: Megatron-LM's merge_datasets.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/document_copy.h"
#include "data/indexed_dataset.h"

namespace mtl {

/// The prefixes of all token files in a folder, by name in byte order. Other files and folders are passed over; a .bin
/// without its .idx, or the reverse, is Error(bad_data), and so is a folder without any.
std::vector<std::string> find_token_files(const std::string& folder);

/// The traits that all of them share. Throws Error(bad_data), naming both files, when one has another type than the
/// first, or modes where others have none. Data sets without sequences have modes or not, as need be.
struct MergeTraits {
  DataType type;
  bool has_modes;
};
MergeTraits check_mergeable(const std::vector<std::unique_ptr<IndexedDataset>>& inputs);

}  // namespace mtl
