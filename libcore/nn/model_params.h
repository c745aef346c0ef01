// The parameters of a whole model, as its layers describe them: the one source of their names, shapes and number.
#pragma once

#include <vector>

#include "nn/gpt_config.h"
#include "nn/param.h"

namespace mtl {

/// In the order in which a forward pass meets them, the vocabulary unpadded; a tied table once. The configuration must
/// have no problems().
std::vector<ParamSpec> model_params(const GptConfig& config);
/// Their elements.
std::int64_t parameter_count(const GptConfig& config);

}  // namespace mtl
