// Finds a Megatron-LM checkpoint's parameters. Layers are numbered consecutively across stages and chunks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/megatron_folder.h"
#include "models/sharded_model.h"

namespace mtl {

/// One rank's parameters in module order, in which optimizers number parameters.
struct MegatronRank {
  const TorchFile* file = nullptr;
  std::vector<std::vector<std::string>> chunks;  // canonical names, by model chunk
  std::vector<std::string> names() const;        // of all chunks
};

struct MegatronModel : ShardedModel {
  int pipeline_parallel = 1;
  double version = 0;               // checkpoint_version
  std::vector<MegatronRank> ranks;  // parallel to `files`

  /// Returns the run's arguments from the first file. Empty if it has none.
  std::optional<PickleValue> args() const;
  /// True if the arguments state that the output layer has weights of its own.
  bool has_untied_output() const;
};

/// Opens all files and collects the parameters. Throws Error(bad_data) if a tensor is not a GPT parameter, if the files
/// do not belong together (rank_files.h) or are another stage's, or if a name occurs twice.
MegatronModel read_megatron_model(const MegatronRankFiles& files);

}  // namespace mtl
