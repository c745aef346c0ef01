// FLOPs per step, and model FLOPs utilization.
//
//   Megatron's FLOPs per step (megatron/training/training.py), B sequences of s tokens, V the padded vocabulary:
//     6 B s [h (2 ffn L) + L (h (q + k + v) + q h) + h V] + 6 B s^2 q L,   q = head_dim heads, k = v = head_dim groups,
//     3 ffn in place of 2 when the MLP is gated; attention halved for causality, whatever the window
//   MFU, model FLOPs utilization = FLOPs per token * tokens per second / peak:
//     convention A (llm.c):           6 N + 6 L C T    per token, causal attention
//     convention B (PaLM, MosaicML):  6 N + 12 L C T
//   N: all parameters, a tied embedding once, without vocabulary padding. C: heads * head_dim.
#pragma once

#include <cstdint>

#include "device/stream.h"
#include "nn/gpt_config.h"

namespace mtl {

double megatron_flops(const GptConfig& config, std::int64_t padded_vocab, std::int64_t sequences,
                      std::int64_t seq_length);
double flops_per_token_a(const GptConfig& config, std::int64_t seq_length);
double flops_per_token_b(const GptConfig& config, std::int64_t seq_length);

/// Measures the TFLOP/s of a large matrix multiplication, the default peak for MFU: 768 x 768 in `compute`, the dtype
/// of the run's products, on the CPU with `threads` threads, or 4,096 x 4,096 in bf16 on a GPU. Takes about a tenth of
/// a second.
double measure_peak_tflops(Device device, int threads, DType compute);

}  // namespace mtl
