// GPT-2's names and orders on Hugging Face's side, for each canonical tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ckpt/canonical.h"
#include "nn/gpt_config.h"

namespace mtl {

/// How the elements of a tensor lie in a Hugging Face file, compared with ours.
enum class HfOrder {
  same,
  transposed,  // Conv1D: (in, out)
  qkv,         // Conv1D whose outputs are [query | key | value], each (heads, head_dim); also its bias, with in = 1
};

struct HfTensor {
  std::string name;  // without "transformer."
  HfOrder order = HfOrder::same;
  std::vector<std::int64_t> shape;  // as Hugging Face stores it
};

HfTensor hf_tensor_of(const CanonicalTensor& tensor, const GptConfig& config);

/// Some outputs and inputs of a linear layer, in our order. A bias has one input.
struct LinearBlock {
  std::int64_t first_output, outputs, first_input, inputs;
};
LinearBlock whole_block(const HfTensor& tensor);

/// Elements from one side's order to the other's; bits are copied, never computed with. `hf` is always the whole
/// tensor, of which only the block is touched; `canonical` is the block, (outputs, inputs).
void hf_to_canonical(const HfTensor& tensor, const GptConfig& config, std::size_t element_bytes,
                     const LinearBlock& block, std::span<const std::byte> hf, std::span<std::byte> canonical);
void canonical_to_hf(const HfTensor& tensor, const GptConfig& config, std::size_t element_bytes,
                     std::span<const std::byte> canonical, std::span<std::byte> hf);

}  // namespace mtl
