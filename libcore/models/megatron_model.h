// A Megatron-LM checkpoint's parameters by canonical name, each with its shards. Layers are numbered consecutively
// across stages and chunks.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "formats/torch_file.h"
#include "models/megatron_folder.h"
#include "models/megatron_names.h"

namespace mtl {

struct MegatronShard {
  const TorchFile* file = nullptr;
  const TorchTensor* tensor = nullptr;
};

struct MegatronParameter {
  MegatronSplit split = MegatronSplit::none;
  std::string name;                   // the name in the first shard's file
  std::vector<MegatronShard> shards;  // by tensor parallel rank
};

/// One rank's parameters in module order, in which optimizers number parameters.
struct MegatronRank {
  const TorchFile* file = nullptr;
  std::vector<std::vector<std::string>> chunks;  // canonical names, by model chunk
  std::vector<std::string> names() const;        // of all chunks
};

struct MegatronModel {
  std::vector<std::unique_ptr<TorchFile>> files;
  int tensor_parallel = 1, pipeline_parallel = 1;
  double version = 0;                                   // checkpoint_version
  std::map<std::string, MegatronParameter> parameters;  // by canonical name
  std::vector<MegatronRank> ranks;                      // parallel to `files`
  std::int64_t layers = 0;

  PickleValue root() const { return files.front()->root(); }
  /// Returns the run's arguments from the first file. Empty if it has none.
  std::optional<PickleValue> args() const;
  /// True if the arguments state that the output layer has weights of its own.
  bool has_untied_output() const;
};

/// Opens all files and collects the parameters. Throws Error(bad_data) if a tensor is not a GPT parameter, if the files
/// do not belong together (rank_files.h) or are another stage's, or if a name occurs twice.
MegatronModel read_megatron_model(const MegatronRankFiles& files);

}  // namespace mtl
