// Checks that the pieces of a tensor do not share an element.
#include <vector>

#include "ckpt/manifest.h"
#include "formats/slice_overlap.h"

namespace mtl {

void check_disjoint(const ManifestTensor& entry) {
  std::vector<const Slice*> slices;
  for (const ManifestPiece& piece : entry.pieces) slices.push_back(&piece.slice);
  if (const auto found = find_overlap(slices))
    fail(Exit::bad_data, "its pieces in ", entry.pieces[found->first].file, " and ", entry.pieces[found->second].file,
         " overlap");
}

}  // namespace mtl
