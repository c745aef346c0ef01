// Ends token files that a test writes.
#pragma once

#include "data/indexed_dataset.h"

namespace mtl::test {

/// Seals and commits the files.
inline void finish(IndexedDatasetWriter& writer) {
  writer.seal();
  writer.files().commit();
}

}  // namespace mtl::test
