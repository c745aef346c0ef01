// The common state of a Megatron-LM torch_dist checkpoint: a dict with the run's arguments, its iteration, and the
// settings of the optimizer, without tensors of the model.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/files.h"
#include "formats/dcp_folder.h"
#include "formats/pickle.h"
#include "formats/torch_archive.h"

namespace mtl {

class MegatronCommon {
 public:
  /// Opens FOLDER/common.pt or, if there is none, the object common_state/shard_0_1. Throws Error(bad_data) if both are
  /// missing, if one is damaged, or if it states another checkpoint_version than 3.
  explicit MegatronCommon(const DcpFolder& folder);

  /// Returns the dict.
  PickleValue root() const { return *root_; }
  /// Returns the run's arguments, a Namespace. Empty if there are none.
  std::optional<PickleValue> args() const;
  /// Throws Error(bad_data) if the dict states that the optimizer state is in a layout that mtl does not know.
  void check_layout() const;
  /// Returns the number of optimizer steps, or 0 if the dict does not state it.
  std::int64_t optimizer_steps() const;

 private:
  MappedFile file_;    // empty for an object of the folder
  std::string where_;  // the path, with the name of the object
  std::unique_ptr<TorchArchive> archive_;
  std::optional<PickleValue> root_;
};

/// Returns the number of steps in an optimizer's dict, in its param_groups or its state, or 0 if it is not there.
std::int64_t steps_in_optimizer(const TorchArchive& archive, PickleValue optimizer);

}  // namespace mtl
