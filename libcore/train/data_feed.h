// From token files to the micro-batches of a step.
//
// TrainingData opens the files and cuts the three splits; a DataFeed walks one of them in the sampler's order and fills
// batch buffers, one step ahead in a thread of its own, so that training does not wait for the disk. Samples of the
// step after that are prefetched.
//
// On cuda the thread fills pinned memory, and a stream of the feed's own copies it to the device while the compute
// stream is still busy with the step before. Events order the copy after the computations that read the same memory two
// steps before, and the computations of the step after its copy. Only the thread that calls next() calls CUDA.
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
  /// Opens the files that --data-path and its relatives name, and builds the sample orders. Throws as IndexedDataset
  /// and open_split do, Error(usage) without a training set, and Error(bad_data) if a single-pass run takes more
  /// samples of a split than it has.
  TrainingData(const TrainOptions& options, const Tokens& tokens);

  /// Null if the split has no weight, or the run takes no samples of it.
  const std::shared_ptr<const BlendedDataset>& dataset(Split split) const { return datasets_[enum_index(split)]; }
  /// The files and their order, as checkpoints record them: data/data_identity.h.
  const Json& identity() const { return identity_; }
  /// Compares probed training samples with the identity `saved`. Describes the first whose place differs, or returns ""
  /// if none does. Megatron's order depends on the length of the run: a longer run can move every sample.
  std::string moved_sample(const Json& saved) const;
  /// The identity as text, one file or flag per line.
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

/// Memory of a feed: one step is read while the step before is computed.
struct StepBatches {
  struct Slot {
    StepBatch read;      // filled by the reader thread
    StepBatch computed;  // on cuda: the copy that operators read; empty on the cpu, where they use `read`
    Event copied, used;  // reached after the copy to `computed`, and after the operators that read it
  };
  std::vector<Slot> slots;         // two
  std::unique_ptr<Stream> copies;  // on cuda
};
StepBatches make_step_batches(const RunShape& shape);

class DataFeed {
 public:
  /// The micro-batches per rank of the step that begins after `consumed` samples.
  using MicroBatches = std::function<std::int64_t(std::int64_t consumed)>;

  /// `shape` describes the largest step. Starts reading into `memory` at once; no other feed may use it meanwhile.
  DataFeed(std::shared_ptr<const BlendedDataset> dataset, SamplerOptions sampler, const RunShape& shape,
           MicroBatches micro_batches, StepBatches& memory);
  ~DataFeed();

  /// Returns the next step's micro-batches, for operators enqueued on `stream` from now on. On the cpu they are valid
  /// until the next call; on cuda until the call after it, for operators that are enqueued before the next call or done
  /// before the one after. Loss weights are mask / (sum of the micro-batch's mask) / (micro-batches of the step on all
  /// data-parallel ranks). Waits for the reader thread, not for the stream. Throws Error(bad_data) at the data's end.
  const StepBatch& next(Stream& stream);
  /// Seconds that next() has waited for data so far.
  double stalled_seconds() const { return stalled_; }

 private:
  /// Sample numbers of a step; fewer micro-batches than `requested` at the end of the data.
  struct Draw {
    std::int64_t consumed = 0;  // by all ranks before it
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
