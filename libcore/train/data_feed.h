// From token files to the micro-batches of a step.
//
// TrainingData opens the files and cuts the three splits; a DataFeed walks one of them in the sampler's order and fills
// batch buffers, one step ahead in a thread of its own, so that training does not wait for the disk; the system is
// asked to read the samples of the step after that.
//
// On cuda the thread fills pinned memory, and a stream of the feed's own copies it to the device while the compute
// stream is still busy with the step before. Events order the copy after the computations that read the same memory two
// steps before, and the computations of the step after its copy. The host calls CUDA from the thread of next() alone.
#pragma once

#include <array>
#include <functional>
#include <future>
#include <memory>
#include <optional>

#include "base/json.h"
#include "data/blended_dataset.h"
#include "data/sampler.h"
#include "device/event.h"
#include "engine/pipeline.h"
#include "train/options.h"

namespace mtl {

class TrainingData {
 public:
  /// What the ids of the data mean: those beyond `vocab_size` will be refused; `eod` and `pad` are -1 when there are
  /// none.
  struct Tokens {
    std::int64_t vocab_size;
    std::int32_t eod = -1, pad = -1;
  };
  /// Opens what --data-path and its relatives name and builds the orders. Throws as IndexedDataset and open_split do,
  /// and Error(bad_data) when a split has fewer samples than the run takes of it.
  TrainingData(const TrainOptions& options, const Tokens& tokens);

  /// Empty when the split has no weight, or nothing is asked of it.
  const std::shared_ptr<const BlendedDataset>& dataset(Split split) const {
    return datasets_[static_cast<std::size_t>(split)];
  }
  /// The files and their order, as checkpoints remember them: data/data_identity.h.
  const Json& identity() const { return identity_; }
  /// A training sample that lies elsewhere than when `saved` was made, in words; empty when the order has not changed.
  /// Megatron's order depends on how long the run is: a longer one can move every sample.
  std::string moved_sample(const Json& saved) const;
  /// The identity, one file or flag a line.
  std::string identity_lines() const;

 private:
  void identify(const TrainOptions& options, const SplitSources& sources);

  DataFiles files_;
  std::array<std::shared_ptr<const BlendedDataset>, 3> datasets_;
  Json identity_;
};

/// The micro-batches of one step.
struct StepBatch {
  std::unique_ptr<BatchBuffers> buffers;
  int micro_batches = 0;         // of this step; buffers may hold more
  std::vector<double> unmasked;  // per micro-batch: the sum of its loss mask, how many tokens count
};

/// Memory of a feed: one step is read while the step before is computed.
struct StepBatches {
  struct Slot {
    StepBatch read;      // where the thread writes
    StepBatch computed;  // on cuda: the copy that operators read; elsewhere they read the first, and this is empty
    Event copied, used;  // reached after the copy, and after the operators that read it
  };
  std::vector<Slot> slots;         // two
  std::unique_ptr<Stream> copies;  // on cuda
};
StepBatches make_step_batches(const RunShape& shape);

class DataFeed {
 public:
  /// How many micro-batches a rank takes once so many samples are consumed.
  using MicroBatches = std::function<std::int64_t(std::int64_t consumed)>;

  /// `shape` describes the largest step. Starts reading into `memory` at once, which no other feed may use meanwhile.
  DataFeed(std::shared_ptr<const BlendedDataset> dataset, SamplerOptions sampler, const RunShape& shape,
           MicroBatches micro_batches, StepBatches& memory);
  ~DataFeed();

  /// The next step's micro-batches, for operators that `stream` is given from now on; throws Error(bad_data) when the
  /// data is used up. Valid until the next call, on cuda until the one after: operators that read it are given to
  /// `stream` before the next call, or finished before the one after. The loss weights are mask / (unmasked of the
  /// micro-batch) / micro-batches of the step on all ranks. Waits for the thread, but not for the stream.
  const StepBatch& next(Stream& stream);
  /// Seconds that next() has waited for data so far.
  double stalled_seconds() const { return stalled_; }

 private:
  /// Sample numbers of a step: fewer micro-batches than wanted at the end of the data.
  struct Draw {
    std::int64_t consumed = 0;  // by all ranks before it
    std::int64_t wanted = 0;
    std::vector<std::vector<std::int64_t>> micro_batches;
  };
  Draw draw();
  void start_reading();
  void copy(StepBatches::Slot& slot, Stream& stream);
  void fill(StepBatch& step);
  void fill_micro_batch(StepBatch& step, int number, const Draw& draw);
  void fill_sample(const Batch& batch, std::int64_t row, std::int64_t index, double* unmasked);

  std::shared_ptr<const BlendedDataset> dataset_;
  Sampler sampler_;
  RunShape shape_;
  MicroBatches micro_batches_;
  Draw ahead_;  // of the step after the one that is read next
  StepBatches& memory_;
  int filling_ = 0;
  std::future<void> reading_;
  double stalled_ = 0;
};

}  // namespace mtl
