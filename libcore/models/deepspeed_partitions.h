// Reads partitioned optimizer states of DeepSpeed, those of ZeRO 1 and 2 and of BF16_Optimizer.
//
// ZeRO 1 and 2 flatten the parameters of a group, in the order of the model file's entry param_shapes, and cut the
// result into one partition for each data-parallel rank. A rank's file has
//
//   optimizer_state_dict = {single_partition_of_fp32_groups: [a partition of each group], group_paddings, zero_stage,
//                           base_optimizer_state: {state: {id: {exp_avg, exp_avg_sq, step}}, param_groups},
//                           partition_count, param_alignment_paddings}
//
// Without ZeRO, BF16_Optimizer writes the same files, but no param_shapes. The parameters and their order are then in
// param_slice_mappings: [{NAME: fragment_address(numel, start)} of each group], in the rank's partition.
//
// With elastic_checkpoint, base_optimizer_state is a list of states, one for each group. The partitions of the moments
// may be longer than those of the weights by padding. bf16's optimizer (BF16_Optimizer) has no zero_stage, and its
// partitions of the weights contain the padding too.
#pragma once

#include <vector>

#include "models/deepspeed_state.h"

namespace mtl {

/// Adds a rank's state from the files of its data-parallel ranks, in their order.
void read_deepspeed_partitions(const DeepSpeedRank& rank, const std::vector<const TorchFile*>& shards);

}  // namespace mtl
