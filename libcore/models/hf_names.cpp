#include "models/hf_names.h"

#include <algorithm>

#include "base/error.h"
#include "base/str.h"

namespace mtl {

namespace {

constexpr const char* kOutput = "output";  // the output layer's canonical module

/// Returns a part's box in the canonical tensor.
Slice box_of(HfPart part, const std::vector<std::int64_t>& shape) {
  const Slice whole = whole_slice(shape);
  switch (part) {
    case HfPart::queries:
      return narrow(whole, 1, 0, shape.at(1) - 2);
    case HfPart::keys:
      return narrow(whole, 1, shape.at(1) - 2, 1);
    case HfPart::values:
      return narrow(whole, 1, shape.at(1) - 1, 1);
    case HfPart::gate:
      return narrow(whole, 0, 0, 1);
    case HfPart::up:
      return narrow(whole, 0, 1, 1);
    default:
      return whole;
  }
}

/// Returns a part's axes in file order, slowest first. Empty for the canonical order. `axes` is the number of axes; a
/// bias does not have the input axis.
std::vector<int> axis_order(HfPart part, std::size_t axes) {
  if (part == HfPart::qkv_transposed) return axes == 4 ? std::vector{3, 1, 0, 2} : std::vector{1, 0, 2};
  if (part == HfPart::transposed && axes == 2) return {1, 0};
  return {};
}

HfTensor make_tensor(std::string name, const CanonicalTensor& tensor, HfPart part) {
  const std::vector<int> order = axis_order(part, tensor.shape.size());
  const Slice box = box_of(part, tensor.shape);
  HfTensor out{std::move(name), {box.count()}, dense_piece(0, box, order)};
  if (tensor.is_matrix()) {
    const std::int64_t inputs = box.size.back();
    out.shape = {box.count() / inputs, inputs};
    if (!order.empty()) std::swap(out.shape[0], out.shape[1]);
  }
  return out;
}

}  // namespace

std::vector<HfTensor> hf_tensors_of(const CanonicalTensor& tensor, const HfFamily& family) {
  constexpr std::string_view kLayers = "layers.";
  const std::string& name = tensor.name;
  const std::size_t last_dot = name.rfind('.');
  const std::string suffix = name.substr(last_dot);  // ".weight" or ".bias"
  std::string module = name.substr(0, last_dot);
  if (module == kOutput) return {make_tensor(family.output + suffix, tensor, HfPart::whole)};
  std::string prefix = family.prefix;
  const bool in_layer = starts_with(name, kLayers);
  if (in_layer) {
    const std::size_t end = name.find('.', kLayers.size());
    prefix += cat(family.layers, name.substr(kLayers.size(), end - kLayers.size()), ".");
    module = name.substr(end + 1, last_dot - end - 1);
  }
  std::vector<HfTensor> out;
  for (const HfModule& entry : in_layer ? family.layer_modules : family.modules) {
    if (module != entry.canonical) continue;
    out.push_back(make_tensor(cat(prefix, entry.name, suffix), tensor, entry.part));
    out.back().piece.file = out.size() - 1;
  }
  require(!out.empty(), "no name for '", name, "' in a model of type ", family.model_type);
  return out;
}

std::string full_hf_name(const std::string& name, const HfFamily& family) {
  const std::string output = cat(family.output, ".");
  if (family.other_output != nullptr && starts_with(name, cat(family.other_output, ".")))
    return family.output + name.substr(std::string_view(family.other_output).size());
  return starts_with(name, family.prefix) || starts_with(name, output) ? name : family.prefix + name;
}

bool is_hf_buffer(std::string_view name, const HfFamily& family) {
  return std::ranges::any_of(family.ignored, [&](const char* end) { return ends_with(name, end); });
}

}  // namespace mtl
