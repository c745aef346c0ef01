#include "models/torch_dist_segments.h"

#include <algorithm>

#include "models/megatron_common.h"

namespace mtl {

std::vector<BufferSegment> BufferSegments::of(const DistBuffer& buffer, const std::string& kind) {
  const std::string rank = cat(kBufferKey, "dp_group_idx_", buffer.group, ".");
  const auto object = folder_.objects().find(rank + "param_state/shard_0_1");
  if (object != folder_.objects().end()) return {object_segment(object->first, object->second, buffer, kind)};
  std::vector<BufferSegment> segments;
  for (std::size_t bucket = 0; bucket < buffer.buffer.buckets.size(); ++bucket) {
    const auto [begin, end] = buffer.buffer.buckets[bucket];
    const std::string prefix = cat(rank, "gbuf_idx_", buffer.chunk, ".dtype_");
    const std::string suffix = cat(".bucket_idx_", bucket, ".", kind);
    auto found = folder_.tensors().lower_bound(prefix);
    while (found != folder_.tensors().end() && starts_with(found->first, prefix) && !ends_with(found->first, suffix))
      ++found;
    if (found == folder_.tensors().end() || !starts_with(found->first, prefix))
      fail_at(Exit::bad_data, folder_.path(), "there is no tensor '", prefix, "*", suffix, "'");
    const auto& [key, tensor] = *found;
    const std::int64_t stored = tensor.shape.size() == 1 ? tensor.shape[0] : 0;
    const bool is_bucket =
        stored == end - begin || (stored > end - begin && stated_size(buffer, bucket) == end - begin);
    if (!is_bucket || tensor.dtype != StoredDType::f32)
      refuse_tensor(folder_.path(), key, "is ", name_of(tensor.dtype), " with shape ", shape_text(tensor.shape),
                    ", but the model's bucket is F32 with shape ", shape_text({end - begin}));
    for (const DcpBox& box : tensor.boxes) {
      const std::int64_t at = begin + box.slice.offset[0];
      const bool is_padding = at >= end;
      if (box.slice.count() > 0 && !is_padding)
        segments.push_back({at, at + box.slice.count(), {.key = &key, .tensor = &tensor, .box = &box}});
    }
  }
  std::ranges::sort(segments, {}, &BufferSegment::begin);
  return segments;
}

std::int64_t BufferSegments::stated_size(const DistBuffer& buffer, std::size_t bucket) {
  const auto found =
      folder_.objects().find(cat(kBufferKey, "dp_group_idx_", buffer.group, ".per_bucket_numel_unpadded/shard_0_1"));
  if (found == folder_.objects().end()) return 0;
  const PickleValue buffers = object_root(found->first, found->second);
  const std::size_t chunk = buffer.chunk;
  if (!buffers.is(PickleKind::list) || chunk >= buffers.size()) return 0;
  const PickleValue by_dtype = buffers.at(chunk);
  if (!by_dtype.is(PickleKind::dict) || by_dtype.size() != 1) return 0;
  const PickleValue sizes = by_dtype.value(0);
  if (!sizes.is(PickleKind::list) || bucket >= sizes.size()) return 0;
  return sizes.at(bucket).is(PickleKind::integer) ? sizes.at(bucket).as_int() : 0;
}

PickleValue BufferSegments::object_root(const std::string& key, const DcpRange& range) {
  std::unique_ptr<TorchArchive>& archive = archives_[key];
  if (!archive) archive = folder_.open_object(key, range);
  const PickleValue root = archive->root();
  return root.is(PickleKind::list) && root.size() == 1 ? root.at(0) : root;
}

BufferSegment BufferSegments::object_segment(const std::string& key, const DcpRange& range, const DistBuffer& buffer,
                                             const std::string& kind) {
  const PickleValue root = object_root(key, range);
  const TorchArchive* archive = archives_.at(key).get();
  std::optional<PickleValue> tensors;
  for (std::size_t i = 0; root.is(PickleKind::dict) && i < root.size(); ++i) {
    const PickleValue number = root.key(i), value = root.value(i);
    if (!number.is(PickleKind::integer)) continue;
    if (!value.is(PickleKind::dict) || value.size() != 1)
      refuse_tensor(folder_.path(), key, "has gradient buffers of several dtypes, of which mtl reads one");
    if (number.as_int() == buffer.chunk) tensors = value.value(0);
  }
  const std::optional<PickleValue> value = find_in(tensors, kind);
  const TorchTensor* flat = value ? archive->tensor(*value) : nullptr;
  const std::int64_t elements = buffer.buffer.elements();
  if (flat == nullptr || flat->dtype != StoredDType::f32 || flat->shape != std::vector{elements} ||
      !flat->is_contiguous())
    refuse_tensor(folder_.path(), key, "has no contiguous F32 tensor '", kind, "' with the ", elements,
                  " elements of the model's gradient buffer");
  return {0, elements, {.key = &key, .archive = archive, .view = flat, .object = range}, true};
}

std::int64_t BufferSegments::optimizer_steps() const {
  for (const auto& [key, range] : folder_.objects()) {
    if (!starts_with(key, kBufferKey) || key.find(".optimizer/") == std::string::npos) continue;
    const std::unique_ptr<TorchArchive> archive = folder_.open_object(key, range);
    PickleValue root = archive->root();
    if (root.is(PickleKind::list) && root.size() == 1) root = root.at(0);
    return steps_in_optimizer(*archive, root);
  }
  return 0;
}

}  // namespace mtl
