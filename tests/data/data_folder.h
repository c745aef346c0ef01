// Token files for tests, in a temporary folder.
#pragma once

#include <string>
#include <vector>

#include "base/files.h"
#include "data/indexed_dataset.h"
#include "tests/data/finish.h"
#include "tests/scratch_folder.h"

namespace mtl {

/// A temporary folder, removed with this object; `path` ends with a slash.
struct Folder {
  test::ScratchFolder scratch;
  std::string path = scratch.path() + "/";
};

inline std::vector<std::int32_t> read_sequence(const IndexedDataset& data, std::int64_t sequence) {
  std::vector<std::int32_t> out(static_cast<std::size_t>(data.lengths()[sequence]));
  data.read(sequence, 0, out);
  return out;
}

/// Each document is a list of sequences.
using Documents = std::vector<std::vector<std::vector<std::int32_t>>>;

inline void write_documents(const std::string& prefix, DataType type, const Documents& documents) {
  IndexedDatasetWriter writer(prefix, type);
  for (const auto& document : documents) {
    for (const auto& sequence : document) writer.add_sequence(sequence);
    writer.end_document();
  }
  test::finish(writer);
}

inline Documents read_documents(const std::string& prefix) {
  const IndexedDataset data(prefix);
  Documents documents(static_cast<std::size_t>(data.documents()));
  for (std::int64_t d = 0; d < data.documents(); ++d) {
    for (std::int64_t i = data.document_begin(d); i < data.document_begin(d + 1); ++i) {
      documents[static_cast<std::size_t>(d)].push_back(read_sequence(data, i));
    }
  }
  return documents;
}

}  // namespace mtl
