// All parameters of a model: the only source of their names, shapes and number.
#pragma once

#include <vector>

#include "nn/gpt_config.h"
#include "nn/param.h"

namespace mtl {

/// Returns the specs for all parameters, in forward order. The vocabulary is not padded, and a tied embedding is listed
/// once. config.problems() must be empty.
std::vector<ParamSpec> model_params(const GptConfig& config);
/// Returns the total number of parameter elements.
std::int64_t parameter_count(const GptConfig& config);

}  // namespace mtl
