#include "models/sharded_model.h"

#include <algorithm>

namespace mtl {

namespace {

constexpr std::string_view kGate = ".mlp.gate.", kUp = ".mlp.up.";

/// Returns a name with `to` in place of `from`.
std::string renamed(std::string name, std::string_view from, std::string_view to) {
  const std::size_t at = name.find(from);
  return at == std::string::npos ? name : name.replace(at, from.size(), to);
}

}  // namespace

std::string gate_name(std::string up) { return renamed(std::move(up), kUp, kGate); }
std::string up_name(std::string gate) { return renamed(std::move(gate), kGate, kUp); }

ShardSegment flat_segment(const TorchFile& file, const TorchTensor& tensor, std::int64_t begin, std::int64_t count) {
  return {&file,
          {.dtype = tensor.dtype,
           .shape = {count},
           .strides = {1},
           .data = tensor.data.subspan(begin * bits_of(tensor.dtype) / 8),
           .record = tensor.record}};
}

std::vector<std::byte> elements_of(const StoredShard& shard) {
  std::vector<std::byte> out(shard.count() * bits_of(shard.dtype) / 8);
  std::span<std::byte> left = out;
  for (const ShardSegment& segment : shard.segments) {
    const std::size_t bytes = segment.elements.count() * bits_of(shard.dtype) / 8;
    read_elements(segment.elements, 0, left.first(bytes));
    left = left.subspan(bytes);
  }
  return out;
}

bool same_shard(const StoredShard& a, const StoredShard& b) {
  return a.shape == b.shape && a.dtype == b.dtype && elements_of(a) == elements_of(b);
}

bool rounds_to_weights(const StoredShard& main, const StoredShard& weights) {
  constexpr std::int64_t kBlock = 1 << 16;
  std::vector<std::byte> exact, stored;
  std::int64_t at = 0;  // in `weights`
  for (const ShardSegment& segment : main.segments) {
    for (std::int64_t begin = 0; begin < segment.elements.count(); begin += kBlock) {
      const std::int64_t count = std::min(kBlock, segment.elements.count() - begin);
      exact.resize(count * bits_of(main.dtype) / 8);
      stored.resize(count * bits_of(weights.dtype) / 8);
      read_elements(segment.elements, begin, exact);
      read_elements(weights.segments.front().elements, at + begin, stored);
      if (!rounds_to(main.dtype, exact, weights.dtype, stored)) return false;
    }
    at += segment.elements.count();
  }
  return true;
}

void add_shard(ShardedParameter& parameter, int rank, const std::string& name, MegatronSplit split,
               const TorchFile& file, const TorchTensor& tensor) {
  if (rank == 0 && parameter.shards.empty()) parameter = {.split = split, .name = name, .shards = {}};
  if (std::ssize(parameter.shards) != rank)
    refuse_tensor(file.path(), name,
                  std::ssize(parameter.shards) > rank ? "is stored twice" : "is missing in the file of another rank",
                  "; copy all files of the checkpoint again");
  parameter.shards.push_back({tensor.shape, tensor.dtype, {{&file, tensor}}});
}

std::optional<std::vector<std::int64_t>> ShardedModel::shape_of(const std::string& name) const {
  const ShardedParameter* found = parameter(name);
  if (found == nullptr) return std::nullopt;
  std::vector<std::int64_t> shape = found->shards.front().shape;
  const std::size_t axis = found->split == MegatronSplit::rows ? 0 : 1;
  if (found->split != MegatronSplit::none && axis < shape.size()) shape[axis] *= tensor_parallel;
  return shape;
}

void ShardedModel::check_ranks() const {
  for (const auto& [name, parameter] : parameters) {
    if (std::ssize(parameter.shards) != tensor_parallel)
      refuse_tensor(parameter.shards.front().path(), parameter.name, "is stored by ", parameter.shards.size(), " of ",
                    tensor_parallel, " tensor parallel ranks");
  }
}

void add_matrix(RankMatrices& matrices, const std::string& name, const ShardedParameter& parameter, std::size_t rank) {
  const StoredShard& shard = parameter.shards[rank];
  if (parameter.split == MegatronSplit::none || shard.shape.size() != 2 || shard.segments.size() != 1) return;
  const TorchTensor& tensor = shard.segments.front().elements;
  if (!tensor.is_contiguous()) return;
  const std::size_t element = bits_of(shard.dtype) / 8;
  matrices.add(*shard.segments.front().file, *parameter.shards.front().segments.front().file,
               {tensor.data.first(shard.count() * element), element, !starts_with(name, "layers.")});
}

PickleValue required_entry(const TorchFile& file, PickleValue dict, std::string_view key) {
  const std::optional<PickleValue> value = dict.find(key);
  if (!value) refuse_optimizer(file, "has no '", key, "'");
  return *value;
}

PickleValue required_entry(const TorchFile& file, PickleValue dict, std::int64_t number) {
  const std::optional<PickleValue> value = dict.find(number);
  if (!value) refuse_optimizer(file, "has no entry for parameter ", number);
  return *value;
}

}  // namespace mtl
