#include "models/megatron_buffers.h"

#include <algorithm>

#include "base/error.h"
#include "models/megatron_config.h"

namespace mtl {

namespace {

constexpr std::int64_t kMostBufferElements = std::int64_t{1} << 62;
constexpr std::int64_t kBucketAlignment = 128;  // of the buckets in memory, whatever the number of ranks

std::int64_t align_up(std::int64_t at, std::int64_t alignment) { return (at + alignment - 1) / alignment * alignment; }

/// Lays parameters out one after another. Counts within the current bucket, because alignment does.
class BufferFiller {
 public:
  explicit BufferFiller(std::int64_t alignment) : alignment_(alignment) {}

  MegatronBufferRange add(const MegatronBufferParam& param, std::optional<std::int64_t> bucket_size) {
    next_ = align_up(next_, alignment_);
    if (param.has_own_bucket && alignment_ == kMegatronNoAlignment && next_ % kBucketAlignment != 0)
      fail(Exit::bad_data,
           "the shared token embedding begins in the padding before its bucket, because the elements "
           "before it are not a multiple of ",
           kBucketAlignment, "; use megatron-core 0.8 or later");
    if (param.has_own_bucket) end_bucket();
    if (param.elements < 0 || param.elements > kMostBufferElements - bucket_begin_ - next_ - alignment_)
      fail(Exit::bad_data, "a gradient buffer has more than 2^62 elements");
    const MegatronBufferRange range{bucket_begin_ + next_, bucket_begin_ + next_ + param.elements, buckets_.size()};
    next_ += param.elements;
    is_empty_ = false;
    if (param.has_own_bucket || (bucket_size && next_ >= *bucket_size)) end_bucket();
    return range;
  }

  std::vector<MegatronBucket> finish() {
    end_bucket();
    return std::move(buckets_);
  }

 private:
  void end_bucket() {
    if (is_empty_) return;
    buckets_.push_back({bucket_begin_, bucket_begin_ + next_});
    bucket_begin_ += next_;
    next_ = 0;
    is_empty_ = true;
  }

  std::int64_t alignment_, bucket_begin_ = 0;
  std::int64_t next_ = 0;  // within the bucket
  bool is_empty_ = true;
  std::vector<MegatronBucket> buckets_;
};

/// Returns an argument that must be positive. Empty if it is missing or None.
std::optional<std::int64_t> size_argument(PickleValue args, const char* name) {
  const std::optional<PickleValue> value = args.find_not_none(name);
  if (!value) return std::nullopt;
  const std::int64_t size = value->as_int();
  if (size < 1) fail(Exit::bad_data, "args.", name, " is ", size, ", but must be at least 1");
  return size;
}

}  // namespace

MegatronBuffer megatron_buffer(std::span<const MegatronBufferParam> params, std::optional<std::int64_t> bucket_size,
                               std::int64_t alignment) {
  MegatronBuffer out;
  BufferFiller filler(alignment);
  for (std::size_t i = params.size(); i-- > 0;) out.ranges.push_back(filler.add(params[i], bucket_size));
  std::ranges::reverse(out.ranges);
  out.buckets = filler.finish();
  return out;
}

// The defaults are those of setup in megatron/training/training.py and of DistributedDataParallel.
std::optional<std::int64_t> megatron_bucket_size(PickleValue args, int stage, std::size_t chunk,
                                                 std::int64_t rank_elements) {
  if (stage > 0 || chunk > 0 || !is_switched_on(args, "overlap_grad_reduce")) return std::nullopt;
  if (is_switched_on(args, "overlap_param_gather_with_optimizer_step")) return std::nullopt;
  if (const auto buckets = size_argument(args, "ddp_num_buckets")) return rank_elements / *buckets;
  if (const auto size = size_argument(args, "ddp_bucket_size")) return size;
  constexpr std::int64_t kLeastBucket = 40'000'000, kBucketPerRank = 1'000'000, kMostRanks = std::int64_t{1} << 31;
  std::int64_t ranks = 1;
  for (const char* axis : {"data_parallel_size", "context_parallel_size"}) {
    const std::int64_t size = size_argument(args, axis).value_or(1);
    if (size > kMostRanks / ranks) fail(Exit::bad_data, "args.", axis, " is ", size, ", more than mtl supports");
    ranks *= size;
  }
  return std::max(kLeastBucket, kBucketPerRank * ranks);
}

}  // namespace mtl
