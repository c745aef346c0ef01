// Computes where Megatron-LM's flat gradient buffers contain the parameters of one model chunk on one rank.
//
// Megatron-LM's distributed optimizer (--use-distributed-optimizer) saves main weights and Adam's moments not by
// parameter, but as flat tensors: one per buffer in distrib_optim.pt, and one per bucket in torch_dist checkpoints of
// the kind dp_reshardable. No file states which element belongs to which parameter. That follows from the parameters:
//
//   - A buffer holds the chunk's parameters in reverse module order.
//   - A parameter starts at a multiple of `alignment` elements from its bucket's start: 64 since megatron-core 0.8, 1
//     before. The elements between two parameters hold nothing.
//   - A bucket ends after the parameter with which it has bucket_size elements or more.
//   - A token embedding that two pipeline stages share has a bucket of its own on both. The bucket before it ends where
//     the token embedding would have started in it, after the alignment.
//   - Files contain buckets without the padding after them, which is for data-parallel ranks.
//
// These are the rules of _ParamAndGradBuffer in megatron/core/distributed/param_and_grad_buffer.py.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "formats/pickle.h"

namespace mtl {

struct MegatronBufferParam {
  std::int64_t elements = 0;
  bool has_own_bucket = false;  // the token embedding on the first or last of several stages, if it is tied
};

/// Where a buffer contains a parameter, in elements.
struct MegatronBufferRange {
  std::int64_t begin = 0, end = 0;  // in the buffer without padding between buckets
  std::size_t bucket = 0;           // index into MegatronBuffer::buckets
};

struct MegatronBucket {
  std::int64_t begin = 0, end = 0;  // in the buffer without padding between buckets
};

struct MegatronBuffer {
  std::vector<MegatronBufferRange> ranges;  // parallel to the parameters
  std::vector<MegatronBucket> buckets;      // in the order of the buffer: the last parameters are in the first bucket
  std::int64_t elements() const { return buckets.empty() ? 0 : buckets.back().end; }
};

inline constexpr std::int64_t kMegatronAlignment = 64, kMegatronNoAlignment = 1;

/// Returns the buffer of a chunk's parameters. `params` are in module order, which differs between the local
/// implementation and Transformer Engine. Empty `bucket_size`: the only buckets are those of shared token embeddings.
/// Throws Error(bad_data) if the buffer would have more than 2^62 elements, or if megatron-core 0.7 would have put a
/// shared token embedding partly into the padding before its bucket, which its files do not contain.
MegatronBuffer megatron_buffer(std::span<const MegatronBufferParam> params, std::optional<std::int64_t> bucket_size,
                               std::int64_t alignment);

/// Returns the bucket size that Megatron-LM chooses for a chunk from the run's arguments, or empty if it makes no
/// buckets: without --overlap-grad-reduce, on stages other than the first, and in chunks other than the first.
/// `rank_elements` is the number of elements in the parameters of all chunks on the rank. Throws Error(bad_data) if an
/// argument has the wrong type or is out of range.
std::optional<std::int64_t> megatron_bucket_size(PickleValue args, int stage, std::size_t chunk,
                                                 std::int64_t rank_elements);

}  // namespace mtl
