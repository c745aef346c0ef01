#include "ckpt/megatron_tensor.h"

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

std::vector<std::byte> megatron_elements(const ModelSource& source, const MegatronTensor& tensor, StoredDType to,
                                         const ConversionHook& on_conversion) {
  const StoredDType from = source.find_tensor(tensor.source)->dtype;
  std::vector<std::byte> stored(tensor.slice.count() * bits_of(from) / 8);
  std::vector<std::byte> out(whole_slice(tensor.shape).count() * bits_of(to) / 8);
  source.read(tensor.source, tensor.slice, stored);
  const std::span converted = std::span(out).first(tensor.slice.count() * bits_of(to) / 8);
  convert_elements(from, stored, to, converted);
  if (on_conversion) on_conversion(tensor.name, from, stored, to, converted);
  return out;
}

}  // namespace mtl
