// Where the optimizer state that a torch_dist checkpoint stores by gradient buffer is in the folder: the layouts
// dp_reshardable and, before megatron-core 0.15, fully_sharded_bucket_space, a tensor for each bucket, and
// dp_zero_gather_scatter, an object for each model-parallel rank. A tensor of fully_sharded_bucket_space includes the
// padding after its bucket.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "models/dcp_reader.h"
#include "models/torch_dist_buffers.h"

namespace mtl {

/// The keys of optimizer state by gradient buffer begin with this.
inline constexpr std::string_view kBufferKey = "optimizer.distributed.";

/// A range of a gradient buffer, without padding between buckets, and the source that contains it.
struct BufferSegment {
  std::int64_t begin, end;
  DcpSource source;
  bool may_span = false;  // over parameters; a box of a bucket belongs to one parameter, or to none
};

class BufferSegments {
 public:
  /// The caller must keep `folder` alive.
  explicit BufferSegments(const DcpFolder& folder) : folder_(folder) {}
  /// Returns the segments of one kind ("exp_avg", "param") in a rank's buffer, in order: boxes of the tensors of its
  /// buckets, or one tensor in the rank's object. They are valid as long as this object. Throws Error(bad_data) if the
  /// tensors are missing, or do not have the sizes of the buffer.
  std::vector<BufferSegment> of(const DistBuffer& buffer, const std::string& kind);
  /// Returns the number of optimizer steps as stated beside the buffers, or 0 if it is not there.
  std::int64_t optimizer_steps() const;

 private:
  /// Returns the size of a bucket without padding as the rank's object per_bucket_numel_unpadded states it:
  /// [[{dtypes: [size, ...]} for each chunk]]. Returns 0 if there is none.
  std::int64_t stated_size(const DistBuffer& buffer, std::size_t bucket);
  /// Opens an object, or finds it opened. Megatron-LM stores every object as the only item of a list.
  PickleValue object_root(const std::string& key, const DcpRange& range);
  /// Opens the object with a rank's whole buffers: [{buckets_coalesced: True, CHUNK: {dtypes: {param, exp_avg, ...}}}].
  BufferSegment object_segment(const std::string& key, const DcpRange& range, const DistBuffer& buffer,
                               const std::string& kind);

  const DcpFolder& folder_;
  std::map<std::string, std::unique_ptr<TorchArchive>> archives_;  // of objects, by key
};

}  // namespace mtl
