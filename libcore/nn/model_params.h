// The parameters of a whole model: the only source of their names, shapes and number.
#pragma once

#include <vector>

#include "nn/gpt_config.h"
#include "nn/param.h"

namespace mtl {

/// Returns the specs of all parameters in the order of a forward pass. The vocabulary is not padded, and a tied
/// embedding occurs once. Requires that config.problems() is empty.
std::vector<ParamSpec> model_params(const GptConfig& config);
/// Returns the number of elements of all parameters.
std::int64_t parameter_count(const GptConfig& config);

}  // namespace mtl
