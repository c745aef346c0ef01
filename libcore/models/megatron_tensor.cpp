#include "models/megatron_tensor.h"

#include <algorithm>

namespace mtl {

MegatronTensor cut_for_rank(const ParamSpec& spec, std::string name, std::int64_t rank, std::int64_t ranks) {
  const RankGrid grid({.tensor = static_cast<int>(ranks)});
  const std::vector<std::int64_t> stored = held_shape(spec.ownership, spec.shape, spec.padded_rows, grid);
  MegatronTensor out{.name = std::move(name),
                     .source = "param." + spec.name,
                     .slice = held(spec.ownership, spec.shape, spec.padded_rows, grid, static_cast<int>(rank)),
                     .shape = {}};
  const bool is_matrix = spec.name.ends_with(".weight") && spec.shape.size() > 1;
  const std::int64_t width = is_matrix ? stored.back() : 1;
  const std::int64_t elements = whole_slice(stored).count();
  out.shape = is_matrix ? std::vector{elements / width, width} : std::vector{elements};
  return out;
}

void read_megatron_elements(TensorBlocks& blocks, const MegatronTensor& tensor, StoredDType dtype,
                            std::vector<std::byte>& out) {
  out.resize(whole_slice(tensor.shape).count() * bits_of(dtype) / 8);
  const std::size_t bytes = tensor.slice.count() * bits_of(dtype) / 8;
  blocks.read({tensor.source, tensor.name, dtype}, tensor.slice, std::span(out).first(bytes));
  std::ranges::fill(out.begin() + std::ptrdiff_t(bytes), out.end(), std::byte{0});
}

}  // namespace mtl
