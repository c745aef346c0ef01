#include "ckpt/hf_names.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace mtl {

namespace {

struct ModuleName {
  const char* canonical;
  const char* hf;
  HfOrder weight_order;
};

constexpr ModuleName kLayerModules[] = {{"norm1", "ln_1", HfOrder::same},
                                        {"attention.qkv", "attn.c_attn", HfOrder::qkv},
                                        {"attention.out", "attn.c_proj", HfOrder::transposed},
                                        {"norm2", "ln_2", HfOrder::same},
                                        {"mlp.up", "mlp.c_fc", HfOrder::transposed},
                                        {"mlp.down", "mlp.c_proj", HfOrder::transposed}};

/// For every output of ours, which output of Hugging Face's it is. Ours is (heads, [q, k, v], head_dim).
std::vector<std::int64_t> output_order(HfOrder order, std::int64_t outputs, const GptConfig& config) {
  std::vector<std::int64_t> out(outputs);
  const std::int64_t D = config.head_dim, C = config.hidden_size;
  for (std::int64_t i = 0; i < outputs; ++i) {
    std::int64_t head = i / (3 * D), role = i / D % 3;
    out[i] = order == HfOrder::qkv ? role * C + head * D + i % D : i;
  }
  return out;
}

/// Moves one element each; `hf` is (inputs, outputs) of the whole tensor, `ours` (outputs, inputs) of the block. Tiles
/// keep both sides in cache.
template <std::size_t kBytes, bool kToHf>
void move_elements(std::span<const std::byte> from, std::span<std::byte> to, const LinearBlock& block,
                   const std::vector<std::int64_t>& order) {
  constexpr std::int64_t kTile = 32;
  const auto all_outputs = std::ssize(order);
  for (std::int64_t first_out = 0; first_out < block.outputs; first_out += kTile) {
    for (std::int64_t first_in = 0; first_in < block.inputs; first_in += kTile) {
      for (std::int64_t o = first_out; o < std::min(block.outputs, first_out + kTile); ++o) {
        std::int64_t hf_output = order[block.first_output + o];
        for (std::int64_t i = first_in; i < std::min(block.inputs, first_in + kTile); ++i) {
          std::size_t ours = (o * block.inputs + i) * kBytes;
          std::size_t hf = ((block.first_input + i) * all_outputs + hf_output) * kBytes;
          std::memcpy(to.data() + (kToHf ? hf : ours), from.data() + (kToHf ? ours : hf), kBytes);
        }
      }
    }
  }
}

template <bool kToHf>
void reorder(const HfTensor& tensor, const GptConfig& config, std::size_t element_bytes, const LinearBlock& block,
             std::span<const std::byte> from, std::span<std::byte> to) {
  LinearBlock whole = whole_block(tensor);
  std::span<const std::byte> hf = kToHf ? std::span<const std::byte>(to) : from;
  std::span<const std::byte> ours = kToHf ? from : std::span<const std::byte>(to);
  require(hf.size() == static_cast<std::size_t>(whole.outputs * whole.inputs) * element_bytes &&
              ours.size() == static_cast<std::size_t>(block.outputs * block.inputs) * element_bytes,
          "reordering '", tensor.name, "' between buffers of other sizes");
  std::vector<std::int64_t> order = output_order(tensor.order, whole.outputs, config);
  switch (element_bytes) {
    case 2:
      return move_elements<2, kToHf>(from, to, block, order);
    case 4:
      return move_elements<4, kToHf>(from, to, block, order);
    case 8:
      return move_elements<8, kToHf>(from, to, block, order);
    default:
      fail(Exit::failure, "elements of ", element_bytes, " bytes in '", tensor.name, "'");
  }
}

}  // namespace

HfTensor hf_tensor_of(const CanonicalTensor& tensor, const GptConfig& config) {
  const std::string& name = tensor.name;
  if (name == "embedding.tokens.weight") return {"wte.weight", HfOrder::same, tensor.shape};
  if (name == "embedding.positions.weight") return {"wpe.weight", HfOrder::same, tensor.shape};
  std::size_t last_dot = name.rfind('.');
  std::string part = name.substr(last_dot);  // ".weight" or ".bias"
  if (starts_with(name, "final_norm.")) return {"ln_f" + part, HfOrder::same, tensor.shape};
  std::size_t layer_end = name.find('.', 7);  // after "layers."
  require(starts_with(name, "layers.") && layer_end < last_dot, "no Hugging Face name for '", name, "'");
  std::string module = name.substr(layer_end + 1, last_dot - layer_end - 1);
  for (const ModuleName& entry : kLayerModules) {
    if (module != entry.canonical) continue;
    HfTensor out{cat("h.", name.substr(7, layer_end - 7), ".", entry.hf, part), entry.weight_order, tensor.shape};
    if (entry.weight_order == HfOrder::qkv) {
      std::int64_t outputs = 3 * config.hidden_size;
      out.shape = part == ".bias" ? std::vector{outputs} : std::vector{config.hidden_size, outputs};
    } else if (part == ".bias") {
      out.order = HfOrder::same;
    } else if (entry.weight_order == HfOrder::transposed) {
      std::swap(out.shape[0], out.shape[1]);
    }
    return out;
  }
  fail(Exit::failure, "no Hugging Face name for '", name, "'");
}

LinearBlock whole_block(const HfTensor& tensor) {
  return {0, tensor.shape.back(), 0, tensor.shape.size() == 2 ? tensor.shape[0] : 1};
}

void hf_to_canonical(const HfTensor& tensor, const GptConfig& config, std::size_t element_bytes,
                     const LinearBlock& block, std::span<const std::byte> hf, std::span<std::byte> canonical) {
  reorder<false>(tensor, config, element_bytes, block, hf, canonical);
}

void canonical_to_hf(const HfTensor& tensor, const GptConfig& config, std::size_t element_bytes,
                     std::span<const std::byte> canonical, std::span<std::byte> hf) {
  if (tensor.order == HfOrder::same) {
    require(canonical.size() == hf.size(), "copying '", tensor.name, "' between buffers of other sizes");
    std::memcpy(hf.data(), canonical.data(), hf.size());
    return;
  }
  reorder<true>(tensor, config, element_bytes, whole_block(tensor), canonical, hf);
}

}  // namespace mtl
