// The samples that a run consumes, in order, without running it.
#pragma once

#include <cstdint>
#include <functional>

#include "data/blended_dataset.h"
#include "run/options.h"

namespace mtl {

struct SampleWalk {
  const DataOptions& data;
  const BatchOptions& batch;
  Split split = Split::train;
  std::int64_t seed = 1234;
  std::int64_t data_parallel = 1;
};

/// Calls visit(dataset, index) for each of a split's samples, in the order in which a run with these options consumes
/// them: by update or, in validation and test, by global batch, and by rank within it. Does nothing if the run needs no
/// samples of the split. Throws Error(usage) if it needs samples, but the split has no data, and whatever open_split()
/// and require_samples() throw.
void for_each_sample(const SampleWalk& walk, const SplitSources& sources,
                     const std::function<void(const BlendedDataset& dataset, std::int64_t index)>& visit);

}  // namespace mtl
