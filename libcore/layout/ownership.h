// Who holds, sums, owns and speaks for a parameter: pure arithmetic over the rank grid. Layers state it for each
// parameter. Memory, communication, checkpoints and plans ask here.
#pragma once

#include <cstdint>
#include <vector>

#include "layout/ranks.h"
#include "layout/slice.h"

namespace mtl {

/// Ranks along these axes hold the same weights but read different tokens: other samples, or other parts of them.
inline constexpr AxisSet kReplicaAxes{Axis::data, Axis::context};

/// A group of ranks that exchange tensors, by its name in messages, profiles and plans.
struct GroupAxes {
  const char* name;
  AxisSet axes;
};
inline constexpr const char* kPipelineGroup = "pipeline";
/// One sum over the replicas adds up gradients over both of their axes. Without data parallelism, these are the
/// context-parallel ranks, which may also send each other messages.
inline constexpr GroupAxes kGroups[] = {
    {"tensor", Axis::tensor}, {kPipelineGroup, Axis::pipeline}, {"context", Axis::context}, {"data", kReplicaAxes}};
/// The group of the stages that hold a copy of a tied embedding.
inline constexpr const char* kEmbeddingGroup = "embedding";

/// A tensor axis that is split over the ranks of a grid axis.
struct Shard {
  int axis;
  Axis over;
};

struct Ownership {
  std::vector<Shard> shards = {};   // empty: every rank holds the entire tensor
  AxisSet replicas = kReplicaAxes;  // same elements, other tokens: gradients are summed over these ranks
  AxisSet partial = {};             // same elements, terms of one gradient: it is summed over these ranks after that
  AxisSet owners = {};              // a subset of `replicas` whose ranks each update an equal range
  bool on_end_stages = false;       // the first and the last stage each have a copy, whose gradients are added
};

// `shape` is an entire tensor's, as checkpoints store it. In memory, axis 0 has `padded_rows` rows over all ranks, or
// shape[0] if that is 0.

/// Returns the shape of a rank's part in memory, with padding rows: the same for all ranks. Throws if an axis is not
/// divisible by its number of ranks.
std::vector<std::int64_t> held_shape(const Ownership& ownership, std::vector<std::int64_t> shape,
                                     std::int64_t padded_rows, const RankGrid& grid);
/// Returns a rank's part of the tensor, without padding. The last ranks may have fewer rows than the others, or none.
Slice held(const Ownership& ownership, const std::vector<std::int64_t>& shape, std::int64_t padded_rows,
           const RankGrid& grid, int rank);

/// The elements [begin, end) of a flat range.
struct ElementRange {
  std::int64_t begin = 0, end = 0;
  std::int64_t count() const { return end - begin; }
};
/// Returns the range of `count` elements that a rank updates. `count` must be a multiple of the number of owners.
ElementRange owned_range(const Ownership& ownership, std::int64_t count, const RankGrid& grid, int rank);

/// Several ranks may own the same elements. Returns true for the first of them, which writes them to checkpoints and
/// counts them in norms.
bool writes(const Ownership& ownership, const RankGrid& grid, int rank);
/// A sum over the elements that ranks write is added up over these axes, one set after the other.
inline constexpr AxisSet kWriterAxes[] = {kReplicaAxes, Axis::tensor, Axis::pipeline};

}  // namespace mtl
