// The logits of two models, side by side.
#include <algorithm>
#include <cmath>

#include "cli/convert_model.h"
#include "comm/communicator.h"
#include "engine/stage.h"
#include "optim/param_store.h"

namespace mtl {

namespace {

constexpr std::int64_t kSequences = 2, kMaxLength = 64;

/// Runs the model on tokens that depend on its shape alone. Logits (kSequences * length, V).
std::vector<float> logits_of(const ModelSource& source, int threads) {
  const GptConfig& config = source.config();
  const std::int64_t length = std::min(kMaxLength, config.max_positions);
  Stage stage = whole_model(config, {}, config.vocab_size);
  ParamStore params(Device::cpu, kPrecisionFp32, std::nullopt, [&](const ParamVisitor& visit) { stage.params(visit); });
  source.load_values(params);

  std::vector<std::int32_t> tokens, positions;
  for (std::int64_t i = 0; i < kSequences * length; ++i) {
    tokens.push_back(static_cast<std::int32_t>(i * 7919 % config.vocab_size));
    positions.push_back(static_cast<std::int32_t>(i % length));
  }
  std::vector<float> logits(static_cast<std::size_t>(kSequences * length * config.vocab_size));

  std::size_t slot_bytes = 0, scratch_bytes = 0;
  for (Device device : {Device::meta, Device::cpu}) {  // the first pass finds the sizes for the second
    auto at = [&](void* data) { return device == Device::meta ? nullptr : data; };
    Batch batch;
    batch.tokens = Tensor(at(tokens.data()), DType::i32, {kSequences, length});
    batch.positions = Tensor(at(positions.data()), DType::i32, {kSequences, length});
    Stream stream(device, threads);
    Arena slot(device, "slot", slot_bytes), scratch(device, "scratch", scratch_bytes);
    ProcessGroups groups;
    StepState state;
    Ctx ctx{stream, slot, scratch, groups, &state, false};
    Chunk::Cache cache = stage.chunks[0].make_cache();
    stage.chunks[0].logits(ctx, Tensor(at(logits.data()), DType::f32, {kSequences * length, config.vocab_size}), batch,
                           cache);
    slot_bytes = slot.peak(), scratch_bytes = scratch.peak();
  }
  return logits;
}

}  // namespace

ModelComparison compare_models(const ModelSource& a, const ModelSource& b, int threads) {
  require(a.config() == b.config(), a.folder(), " and ", b.folder(), " are models of different shapes");
  std::vector<float> of_a = logits_of(a, threads), of_b = logits_of(b, threads);
  ModelComparison out;
  out.positions = static_cast<std::int64_t>(of_a.size()) / a.config().vocab_size;
  for (std::size_t i = 0; i < of_a.size(); ++i) {
    if (!std::isfinite(of_a[i]) || !std::isfinite(of_b[i])) {
      fail(Exit::bad_data, std::isfinite(of_a[i]) ? b.folder() : a.folder(),
           ": a logit is not finite; the weights are damaged, or the training diverged");
    }
    out.max_difference = std::max(out.max_difference, std::fabs(static_cast<double>(of_a[i]) - of_b[i]));
    out.max_logit = std::max(out.max_logit, std::fabs(static_cast<double>(of_a[i])));
  }
  return out;
}

}  // namespace mtl
