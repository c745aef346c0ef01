// Precision presets: the dtype for each role of a parameter, and the bytes per parameter.
//
//   preset      load  mixed precision  local preparation  training  optimizer   bytes per parameter
//   fp32        fp32  none             fp32               fp32      fp32        16
//   bf16        fp32  bf16             fp32               bf16      fp32        18
//   fp16        fp32  fp16             fp32               fp16      fp32        18    with a dynamic loss scale
//   fsdp-low    bf16  none             bf16               bf16      bf16         8
//   fsdp-mixed  bf16  bf16             fp32               bf16      fp32        16    main gradients in bf16
//   deepspeed   bf16  bf16             fp32               bf16      fp32        18
//
// - `load`: initial and loaded weights are rounded to this dtype.
// - `mixed precision`: the compute dtype if the optimizer keeps separate main weights, otherwise "none".
// - `local preparation`: the weights that the optimizer updates.
// - `training`: the weights that layers read, and their computations.
// - `optimizer`: the states of the update rule, in the table the moments of AdamW.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "device/precision.h"
#include "optim/update_rule.h"

namespace mtl {

struct PrecisionPreset {
  const char* name;
  Precision precision;
};

/// All presets, in table order.
const std::vector<PrecisionPreset>& precision_presets();
/// Returns a preset's precision. Throws Error(usage) if there is no preset with this name.
const Precision& find_precision(std::string_view name);

/// Returns Megatron-LM's name for a compute dtype: fp32, bf16 or fp16. For other dtypes, returns name_of().
const char* short_name(DType dtype);

/// A row in the table above: the cells from `load` to `optimizer`.
struct PrecisionRow {
  std::string load, mixed, preparation, training, optimizer;
};
PrecisionRow precision_row(const Precision& precision, const RuleSet& rules);

/// A kind of data stored for every parameter, with one number per element.
struct PrecisionRole {
  std::string role;
  DType dtype;
  int zero_stage;    // the first ZeRO stage that shards it over data-parallel ranks
  double share = 1;  // of the parameters that have it: states of one rule of two

  std::int64_t bytes() const { return static_cast<std::int64_t>(size_of(dtype)); }
};
/// `params` are those of the model.
std::vector<PrecisionRole> precision_roles(const Precision& precision, const RuleSet& rules,
                                           const std::vector<ParamSpec>& params);

}  // namespace mtl
