// From token files to the micro-batches of a step.
//
// TrainingData opens the files and cuts the three splits; a DataFeed walks one of them in the sampler's order and fills
// batch buffers, one step ahead in a thread of its own, so that training does not wait for the disk.
#pragma once

#include <array>
#include <future>
#include <memory>
#include <optional>

#include "base/json.h"
#include "data/gpt_dataset.h"
#include "data/sampler.h"
#include "engine/pipeline.h"
#include "train/options.h"

namespace mtl {

class TrainingData {
 public:
  /// Opens --data-path and builds the sample orders. Ids beyond `vocab_size` will be refused; `eod` is the tokenizer's,
  /// or -1. Throws as IndexedDataset and open_split do.
  TrainingData(const TrainOptions& options, std::int64_t vocab_size, std::int32_t eod);

  /// Empty when the split has no weight, or nothing is asked of it.
  const std::shared_ptr<const GptDataset>& dataset(Split split) const {
    return datasets_[static_cast<std::size_t>(split)];
  }
  /// Path, size and hash of every file, as checkpoints remember them.
  Json identity() const;

 private:
  std::shared_ptr<const IndexedDataset> files_;
  std::array<std::shared_ptr<const GptDataset>, 3> datasets_;
};

/// What differs between two identities that matters (files' sizes and hashes, not where they lie); empty when nothing.
std::string data_difference(const Json& saved, const Json& now);

/// The mask as sums over one step: how many tokens count in each micro-batch.
struct StepBatch {
  std::unique_ptr<BatchBuffers> buffers;
  std::vector<double> unmasked;  // per micro-batch: the sum of its loss mask
};

class DataFeed {
 public:
  /// `shape` describes a step. Starts reading at once.
  DataFeed(std::shared_ptr<const GptDataset> dataset, SamplerOptions sampler, const RunShape& shape);
  ~DataFeed();

  /// The next step's micro-batches, valid until the next call; throws Error(bad_data) when the data is used
  /// up. The loss weights are mask / (unmasked of the micro-batch) / micro-batches of all ranks.
  const StepBatch& next();
  /// Seconds that next() has waited for data so far.
  double stalled_seconds() const { return stalled_; }

 private:
  void fill(StepBatch& step);
  void fill_sample(const Batch& batch, std::int64_t row, std::int64_t index, double* unmasked);

  std::shared_ptr<const GptDataset> dataset_;
  Sampler sampler_;
  RunShape shape_;
  std::array<StepBatch, 2> steps_;
  int filling_ = 0;
  std::future<void> reading_;
  double stalled_ = 0;
};

}  // namespace mtl
