// Reads token files and assembles the micro-batches of each step.
//
// TrainingData opens the files and divides them into the three splits. A DataFeed reads the samples of one split in the
// sampler's order and fills batch buffers in a separate thread, one step ahead, so that training does not wait for the
// disk. The samples of the following step are prefetched.
//
// On cuda, the reader thread fills pinned memory, and a separate stream copies this memory to the device while the
// compute stream is still busy with the previous step. Events order the copy after the computations of two steps
// earlier, which read the same memory, and order the computations of a step after the copy for that step. Only the
// thread that calls next() calls CUDA.
#pragma once

#include <array>
#include <functional>
#include <future>
#include <memory>
#include <optional>

#include "base/enum_index.h"
#include "base/json.h"
#include "data/blended_dataset.h"
#include "data/sampler.h"
#include "device/event.h"
#include "engine/pipeline.h"
#include "train/options.h"

namespace mtl {

class TrainingData {
 public:
  /// The vocabulary of the data. Reading a token id >= `vocab_size` is an error. `eod` and `pad` are -1 if absent.
  struct Tokens {
    std::int64_t vocab_size;
    std::int32_t eod = -1, pad = -1;
  };
  /// Opens the files that --data-path and related flags name, and builds the sample orders. Throws the errors of
  /// IndexedDataset and open_split(), Error(usage) if there is no training set, and Error(bad_data) if a single-pass
  /// run needs more samples of a split than the split has.
  TrainingData(const TrainOptions& options, const Tokens& tokens);

  /// Returns null if the split has no data, or if the run uses no samples of the split.
  const std::shared_ptr<const BlendedDataset>& dataset(Split split) const { return datasets_[enum_index(split)]; }
  /// Returns the files and their order, as checkpoints record them (data/data_identity.h).
  const Json& identity() const { return identity_; }
  /// Compares the places of a few training samples with those recorded in `saved`. Describes the first sample whose
  /// place differs; returns "" if no place differs. In Megatron-LM's order, places depend on the length of the run: a
  /// longer run can move every sample.
  std::string moved_sample(const Json& saved) const;
  /// Returns the identity as text, one file or flag per line.
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
  std::vector<double> unmasked;  // per micro-batch: the sum of its loss mask
};

/// The memory of a DataFeed. One step is read while the previous step is computed.
struct StepBatches {
  struct Slot {
    StepBatch read;      // filled by the reader thread
    StepBatch computed;  // on cuda: the copy that operators read; empty on the cpu, where they use `read`
    Event copied, used;  // reached after the copy to `computed`, and after the operators that read it
  };
  std::vector<Slot> slots;         // two
  std::unique_ptr<Stream> copies;  // of the copies to the device; null on the cpu
};
StepBatches make_step_batches(const RunShape& shape);

class DataFeed {
 public:
  /// Returns the number of micro-batches per rank in the step that begins after `consumed` samples.
  using MicroBatches = std::function<std::int64_t(std::int64_t consumed)>;

  /// `shape` describes the largest step. Immediately starts reading into `memory`. No other feed may use `memory`
  /// during the lifetime of this feed.
  DataFeed(std::shared_ptr<const BlendedDataset> dataset, SamplerOptions sampler, const RunShape& shape,
           MicroBatches micro_batches, StepBatches& memory);
  ~DataFeed();

  /// Returns the micro-batches of the next step, for operators that are enqueued on `stream` from now on. On the cpu,
  /// the micro-batches are valid until the next call. On cuda, they are valid for operators that are enqueued before
  /// the next call, and for operators that finish before the call after the next. Loss weights are mask / max(1, sum of
  /// the micro-batch's mask) / (micro-batches of the step on all data-parallel ranks). Waits for the reader thread, not
  /// for the stream. Rethrows the reader's exception, such as Error(bad_data) at the end of the data.
  const StepBatch& next(Stream& stream);
  /// Returns the seconds that next() has waited for data so far.
  double stalled_seconds() const { return stalled_; }

 private:
  /// The sample indices of a step. At the end of the data, there are fewer micro-batches than `requested`.
  struct Draw {
    std::int64_t consumed = 0;  // samples of all ranks before this step
    std::int64_t requested = 0;
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
  Draw ahead_;  // of the next step to read; its samples are being prefetched
  StepBatches& memory_;
  int filling_ = 0;  // the slot that the reader fills
  std::future<void> reading_;
  double stalled_ = 0;
};

}  // namespace mtl
