// Reads DeepSpeed's universal checkpoints, which its ds_to_universal.py makes of those of ZeRO 1 to 3:
//
//   DIR/latest_universal                                       the tracker: the name of the checkpoint's folder
//   DIR/global_step1000_universal/mp_rank_*_model_states.pt    as before; the weights in them are not used
//   DIR/global_step1000_universal/zero/NAME/{fp32,exp_avg,exp_avg_sq}.pt
//       = {param: fp32 tensor, cat_dim: 0 or 1, param_n_sub_params: 2, vocab_tensor: True}
//
// The tensor parallel ranks' shards of a parameter are joined along cat_dim. With param_n_sub_params, all first halves
// precede all second halves. Without cat_dim, the ranks had equal copies, or the tensor is their mean. With
// vocab_tensor, the padding rows are removed. cat_dim is 0 for all parameters, vectors included, if the program did not
// tell DeepSpeed how it shards them (--inject_missing_state).
//
// Of ZeRO-3 without tensor parallelism, a file NAME/*.pt is the flattened tensor itself. Its shape is in param_shapes
// of the files zero_pp_rank_D_mp_rank_00_model_states.pt, which take the place of mp_rank_00_model_states.pt.
#pragma once

#include "models/deepspeed_model.h"

namespace mtl {

/// Collects the parameters with their fp32 weights, opens their files and sets model.tensor_parallel, which the shapes
/// in the ranks' files (param_shapes) show. Throws Error(bad_data) if files are missing, or if a tensor is not a GPT
/// parameter or is merged in another way.
void read_universal_weights(DeepSpeedModel& model, const DeepSpeedFiles& files);

/// Returns the optimizer state `state` ("exp_avg") of the same parameters, sharded in the same way.
ShardedParameters read_universal_state(DeepSpeedModel& model, const DeepSpeedFiles& files, const char* state);

}  // namespace mtl
