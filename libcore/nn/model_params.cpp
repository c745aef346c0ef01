#include "nn/model_params.h"

#include "nn/chunk.h"

namespace mtl {

std::vector<ParamSpec> model_params(const GptConfig& config) {
  std::vector<ParamSpec> out;
  Chunk model({.config = config, .padded_vocab = config.vocab_size},
              {.first_layer = 0, .num_layers = config.num_layers});
  model.params([&](Param&, const ParamSpec& spec) { out.push_back(spec); });
  return out;
}

std::int64_t parameter_count(const GptConfig& config) {
  std::int64_t count = 0;
  for (const ParamSpec& spec : model_params(config)) count += spec.numel();
  return count;
}

}  // namespace mtl
