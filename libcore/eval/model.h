// A model for inference (scoring and generation): weights without gradients or optimizer state.
//
//   Model model(open_model(path, console), threads);
//   std::vector<float> logits = model.logits(ids);   // one sequence, once
//   Scorer / Decoder                                  // many, without allocating (eval/scorer.h, eval/decoder.h)
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "ckpt/open_model.h"
#include "comm/communicator.h"
#include "device/memory.h"
#include "device/stream.h"
#include "engine/meta_model.h"
#include "engine/stage.h"
#include "models/model_source.h"
#include "optim/param_memory.h"

namespace mtl {

/// The message for a model whose outputs are not finite.
inline constexpr const char* kNotFinite =
    "the model's logits are not finite, because its weights are damaged, its training diverged, or float16 overflowed; "
    "use another checkpoint, or --dtype float32 instead of float16";

/// Returns the size of a model's weights in memory, in bytes.
std::size_t weight_bytes(const GptConfig& config, DType compute);

class Model {
 public:
  /// Loads the weights onto the device and rounds them to `compute` (f32, bf16 or f16), which is also the dtype of
  /// activations and caches. Logits are fp32. `source` is not used after construction. On the CPU, throws
  /// Error(usage) if the weights do not fit into memory.
  explicit Model(const ModelSource& source, int threads = 1, DType compute = DType::f32, Device device = Device::cpu);
  Model(const Model&) = delete;

  const GptConfig& config() const { return config_; }
  std::int64_t vocab() const { return config_.vocab_size; }
  std::int64_t positions() const { return config_.longest_sequence(); }
  int threads() const { return stream_.threads(); }
  Device device() const { return stream_.device(); }
  const Precision& precision() const { return params_.precision(); }

  /// Returns the logits (T, V) for T ids, row-major. T must be from 1 to positions(). Allocates the pass's memory for
  /// this call only.
  std::vector<float> logits(std::span<const std::int32_t> ids);
  /// For the first id outside the vocabulary, throws Error(bad_data) with `where`, the id and the size of the
  /// vocabulary.
  void check_ids(std::span<const std::int32_t> ids, const std::string& where) const;

  const Chunk& chunk() const { return stage_.chunks[0]; }
  Stream& stream() { return stream_; }

 private:
  GptConfig config_;
  Stage stage_;
  ParamMemory params_;
  Stream stream_;
};

/// Memory for activations and temporary tensors in passes through a model. Its size is determined in advance.
class Workspace {
 public:
  using Pass = std::function<void(Ctx&, const Chunk&)>;
  /// Runs each pass on the meta device, where tensors have shapes but no memory, and then allocates the most that any
  /// pass needs.
  Workspace(Model& model, const std::vector<Pass>& passes);
  /// Returns the size of such a workspace, in bytes.
  static std::size_t bytes_for(const Model& model, const std::vector<Pass>& passes);
  /// Returns a context for one pass. Invalidates the tensors from earlier passes.
  Ctx context();

 private:
  static MetaModel::PassBytes measure(const Model& model, const std::vector<Pass>& passes);
  Workspace(Model& model, MetaModel::PassBytes bytes);

  Stream& stream_;
  Arena slot_, scratch_;
  ProcessGroups groups_;
};

}  // namespace mtl
