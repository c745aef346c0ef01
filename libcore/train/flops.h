// FLOPs of a step, and model FLOPs utilization.
//
//   Megatron's FLOPs per step (megatron/training/training.py), B sequences of s tokens, V the padded vocabulary:
//     6 B s [h (2 ffn L) + L (h (q + k + v) + q h) + h V] + 6 B s^2 q L,   q = head_dim heads, k = v = head_dim groups,
//     3 ffn in place of 2 when the MLP is gated; attention halved for causality, whatever the window
//   MFU, model FLOPs utilization = FLOPs per token * tokens per second / peak:
//     convention A (llm.c):           6 N + 6 L C T    per token, causal attention
//     convention B (PaLM, MosaicML):  6 N + 12 L C T
//   N: all parameters, the tied table once, padding not counted.
#pragma once

#include <cstdint>

#include "device/stream.h"
#include "nn/gpt_config.h"

namespace mtl {

double megatron_flops(const GptConfig& config, std::int64_t padded_vocab, std::int64_t sequences,
                      std::int64_t seq_length);
double flops_per_token_a(const GptConfig& config, std::int64_t seq_length);
double flops_per_token_b(const GptConfig& config, std::int64_t seq_length);

/// Measures the speed of a large matrix product in TFLOP/s, the default peak of MFU: 768 fp32 rows and columns on the
/// CPU with this many threads, 4,096 in bf16 on a GPU. Takes about a tenth of a second.
double measure_peak_tflops(Device device, int threads);

}  // namespace mtl
