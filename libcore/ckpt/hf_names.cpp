#include "ckpt/hf_names.h"

#include <algorithm>

#include "base/error.h"

namespace mtl {

namespace {

/// Which part of a canonical tensor a file's tensor holds, and in which order of axes.
enum class Part {
  whole,
  transposed,      // Conv1D: (inputs, outputs)
  qkv_transposed,  // Conv1D whose outputs are [queries | keys | values], each (heads, head_dim)
};

struct ModuleName {
  const char* canonical;
  const char* hf;
  Part part;
};

constexpr ModuleName kModules[] = {{"embedding.tokens", "wte", Part::whole},
                                   {"embedding.positions", "wpe", Part::whole},
                                   {"final_norm", "ln_f", Part::whole}};
constexpr ModuleName kLayerModules[] = {{"norm1", "ln_1", Part::whole},
                                        {"attention.qkv", "attn.c_attn", Part::qkv_transposed},
                                        {"attention.out", "attn.c_proj", Part::transposed},
                                        {"norm2", "ln_2", Part::whole},
                                        {"mlp.up", "mlp.c_fc", Part::transposed},
                                        {"mlp.down", "mlp.c_proj", Part::transposed}};

/// The axes of a part as the file has them, slowest first. A bias has no inputs.
std::vector<int> axis_order(Part part, std::size_t axes) {
  if (part == Part::qkv_transposed) return axes == 4 ? std::vector{3, 1, 0, 2} : std::vector{1, 0, 2};
  if (part == Part::transposed && axes == 2) return {1, 0};
  return {};
}

HfTensor make_tensor(std::string name, const CanonicalTensor& tensor, Part part, bool is_bias) {
  const std::vector<int> order = axis_order(part, tensor.shape.size());
  const Slice box = whole_slice(tensor.shape);
  const std::int64_t inputs = is_bias ? 1 : box.size.back();
  HfTensor out{std::move(name), {box.count()}, dense_piece(0, box, order)};
  if (tensor.shape.size() > 1 && !is_bias) out.shape = {box.count() / inputs, inputs};
  if (!order.empty() && !is_bias) std::swap(out.shape[0], out.shape[1]);
  return out;
}

}  // namespace

std::vector<HfTensor> hf_tensors_of(const CanonicalTensor& tensor, const GptConfig&) {
  const std::string& name = tensor.name;
  const std::size_t last_dot = name.rfind('.');
  const std::string suffix = name.substr(last_dot);  // ".weight" or ".bias"
  std::string module = name.substr(0, last_dot), layer;
  const bool in_layer = starts_with(name, "layers.");
  if (in_layer) {
    const std::size_t end = name.find('.', 7);
    layer = cat("h.", name.substr(7, end - 7), ".");
    module = name.substr(end + 1, last_dot - end - 1);
  }
  const std::span<const ModuleName> modules = in_layer ? std::span<const ModuleName>(kLayerModules) : kModules;
  std::vector<HfTensor> out;
  for (const ModuleName& entry : modules) {
    if (module != entry.canonical) continue;
    out.push_back(make_tensor(cat(layer, entry.hf, suffix), tensor, entry.part, suffix == ".bias"));
    out.back().piece.file = out.size() - 1;
  }
  require(!out.empty(), "no Hugging Face name for '", name, "'");
  return out;
}

}  // namespace mtl
