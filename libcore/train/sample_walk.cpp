#include "train/sample_walk.h"

#include <string>
#include <vector>

#include "base/enum_index.h"
#include "data/sampler.h"

namespace mtl {
namespace {

/// Returns a sampler for each data-parallel rank.
std::vector<Sampler> samplers_of(const SampleWalk& walk, const BlendedDataset& dataset) {
  std::vector<Sampler> samplers;
  for (std::int64_t rank = 0; rank < walk.data_parallel; ++rank) {
    samplers.emplace_back(SamplerOptions{
        .kind = walk.data.sampler_kind(),
        .total = dataset.size(),
        .micro_batch_size = walk.batch.micro_batch_size,
        .dp_size = walk.data_parallel,
        .dp_rank = rank,
        .data_sharding = walk.data.data_sharding,
    });
  }
  return samplers;
}

[[noreturn]] void refuse_empty(const SampleWalk& walk) {
  const std::string name(kSplitNames[enum_index(walk.split)]);
  const DataPathOptions& paths = walk.data.paths;
  if (paths.is_per_split())
    fail(Exit::usage, "--", name, "-data-path is required, because it names the data for ", name);
  fail(Exit::usage, "--split ", paths.split, " leaves no data for ", name, "; set its weight above 0");
}

}  // namespace

void for_each_sample(const SampleWalk& walk, const SplitSources& sources,
                     const std::function<void(const BlendedDataset& dataset, std::int64_t index)>& visit) {
  const BatchOptions& batch = walk.batch;
  const BatchSizes sizes = batch.sizes(walk.data_parallel, walk.data.seq_length);
  const std::int64_t updates =
      batch.train_samples ? sizes.count_iterations(*batch.train_samples) : batch.train_iters.value_or(0);
  const std::size_t split = enum_index(walk.split);
  const std::int64_t needed = count_samples(batch.run_length(updates, walk.data_parallel))[split];
  if (needed == 0) return;
  if (!sources[split]) refuse_empty(walk);
  DataFiles files;
  const auto dataset =
      open_split(files, *sources[split], needed,
                 {.order = {.kind = walk.data.order_kind(), .seq_length = walk.data.seq_length, .seed = walk.seed}});
  if (walk.data.sampler_kind() == SamplerKind::single) require_samples(*sources[split], walk.split, *dataset, needed);
  std::vector<Sampler> samplers = samplers_of(walk, *dataset);
  const bool is_training = walk.split == Split::train;
  const std::int64_t iterations = is_training ? updates : needed / batch.global_size(walk.data_parallel);
  for (std::int64_t iteration = 0, consumed = 0; iteration < iterations; ++iteration) {
    const std::int64_t size = is_training ? sizes.running(consumed) : sizes.largest();
    for (Sampler& sampler : samplers) {
      for (std::int64_t i = 0; i < size / (batch.micro_batch_size * walk.data_parallel); ++i) {
        const std::vector<std::int64_t> indices = sampler.next();
        if (indices.empty()) return;
        for (const std::int64_t index : indices) visit(*dataset, index);
      }
    }
    consumed += size;
  }
}

}  // namespace mtl
