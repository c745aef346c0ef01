#include "models/megatron_stages.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/str.h"
#include "models/megatron_config.h"

namespace mtl {

namespace {

constexpr std::int64_t kMostChunks = 1 << 16;

/// Returns an argument, which must be an integer of at least `least`. Empty if it is missing or None.
std::optional<std::int64_t> integer_argument(PickleValue args, const char* name, std::int64_t least) {
  const std::optional<PickleValue> value = args.find_not_none(name);
  if (!value) return std::nullopt;
  const std::int64_t number = value->as_int();
  if (number < least || number > kMostChunks)
    fail(Exit::bad_data, "args.", name, " is ", number, ", but must be from ", least, " to ", kMostChunks);
  return number;
}

/// Returns how many layers each stage has in all of its chunks, of which `extra` are the embedding and the loss.
/// Returns an empty list if the arguments do not fit the number of layers.
std::vector<std::int64_t> layers_of_stages(PickleValue args, std::int64_t stages, std::int64_t layers) {
  const auto first = integer_argument(args, "decoder_first_pipeline_num_layers", 0);
  const auto last = integer_argument(args, "decoder_last_pipeline_num_layers", 0);
  const std::int64_t rest = layers - first.value_or(0) - last.value_or(0);
  const std::int64_t equal_stages = stages - (first ? 1 : 0) - (last ? 1 : 0);
  const bool fits = equal_stages > 0 ? rest >= 0 && rest % equal_stages == 0 : equal_stages == 0 && rest == 0;
  if (!fits) return {};
  std::vector<std::int64_t> out(stages, equal_stages > 0 ? rest / equal_stages : 0);
  if (first) out.front() = *first;
  if (last) out.back() = *last;
  return out;
}

}  // namespace

std::vector<std::vector<MegatronLayers>> megatron_stages(PickleValue args, std::int64_t num_layers) {
  if (args.find_not_none("pipeline_model_parallel_layout"))
    fail(Exit::bad_data,
         "args.pipeline_model_parallel_layout describes the stages, which mtl does not read; save the "
         "checkpoint with --dist-ckpt-optim-fully-reshardable");
  const std::int64_t stages = std::max<std::int64_t>(1, megatron_parallel_sizes(args).second);
  if (stages > kMostChunks) fail(Exit::bad_data, "the args state ", stages, " pipeline stages");
  const std::int64_t chunks =
      stages > 1 ? integer_argument(args, "virtual_pipeline_model_parallel_size", 1).value_or(1) : 1;
  const std::int64_t embedding = is_switched_on(args, "account_for_embedding_in_pipeline_split") ? 1 : 0,
                     loss = is_switched_on(args, "account_for_loss_in_pipeline_split") ? 1 : 0;
  const std::vector<std::int64_t> counts = layers_of_stages(args, stages, num_layers + embedding + loss);
  bool fits = !counts.empty() && stages * chunks <= kMostChunks;
  for (std::int64_t count : counts) fits = fits && count % chunks == 0;
  if (!fits)
    fail(Exit::bad_data, "the args divide ", num_layers, " layers among ", stages, " pipeline stages of ", chunks,
         " chunks each, which does not give whole layers");
  std::vector<std::vector<MegatronLayers>> out(stages, std::vector<MegatronLayers>(chunks));
  std::int64_t next = 0;
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    for (std::int64_t stage = 0; stage < stages; ++stage) {
      std::int64_t count = counts[stage] / chunks;
      if (stage == 0 && chunk == 0) count -= embedding;
      if (stage + 1 == stages && chunk + 1 == chunks) count -= loss;
      if (count < 0) fail(Exit::bad_data, "the args give a pipeline stage fewer than 0 layers");
      out[stage][chunk] = {next, count};
      next += count;
    }
  }
  return out;
}

}  // namespace mtl
