// From token files to the micro-batches of a step.
//
// TrainingData opens the files and cuts the three splits; a DataFeed walks one of them in the sampler's order and fills
// batch buffers, one step ahead in a separate thread, so that training does not wait for the disk. The samples of the
// step after that are prefetched.
//
// On cuda the thread fills pinned memory, and the feed's own stream copies it to the device while the compute stream is
// still busy with the previous step. Events order the copy after the computations that read the same memory two steps
// earlier, and a step's computations after its copy. Only the thread that calls next() calls CUDA.
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
  /// The data's vocabulary: reading a token id >= `vocab_size` is an error; `eod` and `pad` are -1 if absent.
  struct Tokens {
    std::int64_t vocab_size;
    std::int32_t eod = -1, pad = -1;
  };
  /// Opens the files that --data-path and related flags name, and builds the sample orders. Throws as IndexedDataset
  /// and open_split do, Error(usage) without a training set, and Error(bad_data) if a single-pass run takes more
  /// samples of a split than it has.
  TrainingData(const TrainOptions& options, const Tokens& tokens);

  /// Returns null if the split has no data, or the run takes no samples of it.
  const std::shared_ptr<const BlendedDataset>& dataset(Split split) const { return datasets_[enum_index(split)]; }
  /// Returns the files and their order, as checkpoints record them (data/data_identity.h).
  const Json& identity() const { return identity_; }
  /// Compares probed training samples with the identity `saved`. Describes the first one whose place differs; returns
  /// "" if there is none. Megatron's order depends on the length of the run: a longer run can move every sample.
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

/// The memory of a DataFeed: one step is read while the previous one is computed.
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

  /// `shape` describes the largest step. Starts reading into `memory` at once; no other feed may use it during this
  /// one's lifetime.
  DataFeed(std::shared_ptr<const BlendedDataset> dataset, SamplerOptions sampler, const RunShape& shape,
           MicroBatches micro_batches, StepBatches& memory);
  ~DataFeed();

  /// Returns the next step's micro-batches, for operators enqueued on `stream` from now on. On the cpu they are valid
  /// until the next call. On cuda they are valid until the call after that, for operators that either are enqueued
  /// before the next call or finish before the call after it. Loss weights are mask / max(1, sum of the micro-batch's
  /// mask) / (micro-batches of the step on all data-parallel ranks). Waits for the reader thread, not for the stream.
  /// Rethrows the reader's exception, such as Error(bad_data) at the end of the data.
  const StepBatch& next(Stream& stream);
  /// Returns the seconds that next() has waited for data so far.
  double stalled_seconds() const { return stalled_; }

 private:
  /// Sample numbers of a step; fewer micro-batches than `requested` at the end of the data.
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
