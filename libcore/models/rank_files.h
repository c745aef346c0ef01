// Notices files of ranks that do not belong together, as a folder that was copied partly, or from two checkpoints, has
// them. What every rank's file states of its run must be the same in all of them: the iteration, sizes of the model and
// of the layout, seeds. Where the files state their ranks, their order must be that of the file names. Matrices that
// tensor parallelism cuts differ between ranks, and those of trained layers differ between pipeline stages.
//
// This does not notice a file that states nothing of its run (DeepSpeed's layer_*) and is of another checkpoint of the
// same model, nor exchanged files of two ranks with the same kinds of tensors if args.rank is missing.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "formats/torch_file.h"

namespace mtl {

/// `files` are those of a checkpoint's model-parallel ranks: by stage and, within a stage, by tensor parallel rank.
/// Throws Error(bad_data), which names two files and what differs.
void check_same_checkpoint(const std::vector<std::unique_ptr<TorchFile>>& files);

/// The matrices that tensor parallelism cuts, by file.
class RankMatrices {
 public:
  struct Matrix {
    std::span<const std::byte> data;
    std::size_t element;  // bytes
    bool is_table;        // a token embedding or an output layer, which may be equal on two stages
  };

  /// Adds a matrix in `file`, in the order of the module. `first` is the file with tensor parallel rank 0's part.
  void add(const TorchFile& file, const TorchFile& first, Matrix matrix);
  /// Throws Error(bad_data) if a file's matrices are those of another file. Of matrices that differ, reads the first
  /// bytes. Matrices of one value are no sign, nor are equal layers on different stages unless `stated`, a rank's file,
  /// states more than one iteration: a model may begin with repeated layers.
  void check_no_copy(const TorchFile& stated) const;

 private:
  struct File {
    const TorchFile *file, *first;
    std::vector<Matrix> matrices;
  };

  std::vector<File> files_;
};

}  // namespace mtl
