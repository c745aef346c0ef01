#include "models/deepspeed_state.h"

#include <algorithm>

namespace mtl {

PickleValue required_entry(const TorchFile& file, PickleValue dict, std::string_view key) {
  const std::optional<PickleValue> value = dict.find(key);
  if (!value) refuse_optimizer(file, "has no '", key, "'");
  return *value;
}

PickleValue group_entry(const TorchFile& file, PickleValue list, std::size_t group, std::string_view what) {
  if (!list.is(PickleKind::list) || list.size() <= group) refuse_optimizer(file, "has no ", what, " of group ", group);
  return list.at(group);
}

PickleValue numbered_entry(const TorchFile& file, PickleValue dict, std::int64_t number) {
  for (std::size_t i = 0; dict.is(PickleKind::dict) && i < dict.size(); ++i) {
    if (dict.key(i).is(PickleKind::integer) && dict.key(i).as_int() == number) return dict.value(i);
  }
  refuse_optimizer(file, "has no entry for parameter ", number);
}

const TorchTensor& flat_tensor(const TorchFile& file, PickleValue value, std::string_view what) {
  const TorchTensor* tensor = file.tensor(value);
  if (tensor == nullptr || tensor->dtype != StoredDType::f32 || tensor->shape.size() != 1 || !tensor->is_contiguous())
    refuse_optimizer(file, "has ", value.describe(), " as ", what, ", instead of a flat fp32 tensor");
  return *tensor;
}

std::int64_t steps_in(const TorchFile& file, PickleValue dict) {
  const std::optional<PickleValue> step = dict.find("step");
  if (!step) return 0;
  if (step->is(PickleKind::integer)) return step->as_int();
  double value = 0;
  if (const TorchTensor* tensor = file.tensor(*step); tensor != nullptr && tensor->count() == 1) {
    if (tensor->dtype == StoredDType::i64) {
      std::int64_t integer = 0;
      read_elements(*tensor, 0, std::as_writable_bytes(std::span(&integer, 1)));
      return integer;
    }
    if (!is_model_dtype(tensor->dtype)) return 0;
    std::vector<std::byte> stored(bits_of(tensor->dtype) / 8);
    read_elements(*tensor, 0, stored);
    float single = 0;
    to_float(tensor->dtype, stored, std::span(&single, 1));
    value = single;
  } else if (step->is(PickleKind::real)) {
    value = step->as_number();
  }
  return value >= 0 && value < 9e15 ? static_cast<std::int64_t>(value) : 0;
}

std::vector<ShardSegment> cut(const Partitions& partitions, std::int64_t begin, std::int64_t count) {
  std::vector<ShardSegment> out;
  std::int64_t at = 0;
  for (const ShardSegment& partition : partitions) {
    const std::int64_t end = at + partition.elements.count();
    const std::int64_t first = std::max(begin, at), last = std::min(begin + count, end);
    if (first < last) out.push_back(flat_segment(*partition.file, partition.elements, first - at, last - first));
    at = end;
  }
  return out;
}

}  // namespace mtl
