// Reads what a checkpoint's files contain.
#pragma once

#include <cstdlib>
#include <vector>

#include "models/sharded_model.h"
#include "models/tensor_reader.h"

namespace mtl {

/// Reads a model as a conversion does: every tensor, and then what verify() finds.
inline void read_model(TensorReader& model) {
  for (std::size_t i = 0; i < model.tensors.size(); ++i) {
    const SavedTensor& tensor = model.tensors[i];
    const Slice whole = whole_slice(tensor.shape);
    std::vector<std::byte> elements(whole.count() * bits_of(tensor.dtype) / 8);
    model.read(i, whole, elements);
  }
  model.verify();
}

/// Reads every element of every shard. Aborts if a shard's segments do not have the elements of its shape.
inline void read_parameters(const ShardedParameters& parameters) {
  volatile unsigned sum = 0;
  for (const auto& [name, parameter] : parameters) {
    for (const StoredShard& shard : parameter.shards) {
      std::int64_t count = 0;
      for (const ShardSegment& segment : shard.segments) count += segment.elements.count();
      if (count != shard.count()) std::abort();
      for (std::byte byte : elements_of(shard)) sum = sum + std::to_integer<unsigned>(byte);
    }
  }
}

inline void read_states(const ShardedStates& states) {
  for (const ShardedParameters* parameters : {&states.main, &states.exp_avg, &states.exp_avg_sq})
    read_parameters(*parameters);
}

}  // namespace mtl
