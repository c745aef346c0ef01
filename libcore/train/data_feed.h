// Reads token files and assembles each step's micro-batches.
//
// TrainingData opens the files and divides them into the three splits. A DataFeed reads one split's samples in the
// sampler's order and fills batch buffers in a separate thread, one step ahead, so that training does not wait for the
// disk. The following step's samples are prefetched.
//
// On cuda, the reader thread fills pinned memory. A separate stream copies it to the device while the compute stream is
// still busy with the previous step. Events order the copy after the computations from two steps earlier, which read
// the same memory, and order a step's computations after its copy. Only the thread that calls next() calls CUDA.
#pragma once

#include <array>
#include <functional>
#include <future>
#include <memory>

#include "base/enum_index.h"
#include "base/json.h"
#include "data/blended_dataset.h"
#include "data/sampler.h"
#include "device/event.h"
#include "engine/batch_buffers.h"
#include "run/options.h"

namespace mtl {

class TrainingData {
 public:
  /// The data's vocabulary. Token ids >= `vocab_size` are an error. `eod` and `pad` are -1 if absent.
  struct Tokens {
    std::int64_t vocab_size;
    std::int32_t eod = -1, pad = -1;
  };
  /// Opens the files given by --data-path and related flags, or generates tokens (--mock-data), and builds the sample
  /// orders. Throws whatever IndexedDataset and open_split() throw, Error(usage) if there is no training data, and
  /// Error(bad_data) if a single-pass run needs more samples than a split has.
  TrainingData(const TrainOptions& options, const Tokens& tokens);

  /// Returns null if the split has no data, or if the run does not use it.
  const std::shared_ptr<const BlendedDataset>& dataset(Split split) const { return datasets_[enum_index(split)]; }
  /// Returns the data sets whose losses are reported apart: dataset(Split::valid), or with --multiple-validation-sets
  /// one or several. Empty if a run has no validation data.
  const std::vector<std::shared_ptr<const BlendedDataset>>& validation_sets() const { return validation_sets_; }
  /// Returns the files and their order in the form that checkpoints record (data/data_identity.h).
  const Json& identity() const { return identity_; }
  /// Returns where a training sample starts, with an offset in tokens: "data set 1, document 17 + 3".
  std::string place_of_sample(std::int64_t index) const;
  /// Compares where a few training samples start with the record in `saved`. Describes the first sample that has moved,
  /// or returns "". In Megatron-LM's order, samples depend on the length of the run: a longer run can move every
  /// sample.
  std::string moved_sample(const Json& saved) const;
  /// Returns the identity as text, with one file or flag per line.
  std::string identity_lines() const;

 private:
  void open_whole(const SplitSource& source, const GptDatasetOptions& options, bool apart);
  void generate(const TrainOptions& options, const Tokens& tokens);
  void identify(const TrainOptions& options, const SplitSources& sources);

  DataFiles files_;
  std::array<std::shared_ptr<const BlendedDataset>, 3> datasets_;
  std::vector<std::shared_ptr<const BlendedDataset>> validation_sets_;
  Json identity_;
};

/// The micro-batches of one step.
struct StepBatch {
  std::unique_ptr<BatchBuffers> buffers;
  int micro_batches = 0;         // in this step; buffers may hold more
  std::vector<double> unmasked;  // per micro-batch: the sum of its loss mask, over whole samples
};

/// A DataFeed's memory. One step is read while the previous step is computed.
struct StepBatches {
  struct Slot {
    StepBatch read;      // filled by the reader thread
    StepBatch computed;  // on cuda: the copy that operators read; empty on the cpu, where they read `read`
    Event copied, used;  // reached after the copy to `computed`, and after the operators that read it
  };
  std::vector<Slot> slots;         // two
  std::unique_ptr<Stream> copies;  // for copies to the device; null on the cpu
};
StepBatches make_step_batches(const RunShape& shape);

class DataFeed {
 public:
  /// Returns the number of micro-batches per rank in the step that starts after `consumed` samples.
  using MicroBatches = std::function<std::int64_t(std::int64_t consumed)>;

  /// `shape` describes the largest step. Immediately starts reading into `memory`, which no other feed may use while
  /// this one exists.
  DataFeed(std::shared_ptr<const BlendedDataset> dataset, SamplerOptions sampler, const RunShape& shape,
           MicroBatches micro_batches, StepBatches& memory);
  ~DataFeed();

  /// Returns the next step's micro-batches, for operators that are enqueued on `stream` from now on. On the cpu, they
  /// are valid until the next call. On cuda, they are valid for operators that are enqueued before the next call, and
  /// for operators that finish before the call after that. Loss weights are mask / max(1, sum of the micro-batch's
  /// mask) / (the step's micro-batches on all data-parallel ranks). Context-parallel ranks get parts of the same
  /// samples, and divide by the masks of whole samples. Waits for the reader thread, but not for the stream. Rethrows
  /// the reader's exception, such as Error(bad_data) at the end of the data.
  const StepBatch& next(Stream& stream);
  /// Returns how many seconds next() has waited for data so far.
  double stalled_seconds() const { return stalled_; }

 private:
  /// A step's sample indices. At the end of the data, there are fewer micro-batches than `requested`.
  struct Draw {
    std::int64_t consumed = 0;  // samples on all ranks before this step
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
  Draw ahead_;  // the next step to read; its samples are being prefetched
  StepBatches& memory_;
  int filling_ = 0;  // the slot that the reader is filling
  std::future<void> reading_;
  double stalled_ = 0;
};

/// Returns a feed of a split's data set that starts after `consumed` samples. A step of training is as large as the
/// batch sizes say, any other as large as `shape`. With --full-validation, the last step of a validation has only the
/// micro-batches that the remaining samples need; rows beyond the last sample are masked.
std::unique_ptr<DataFeed> open_feed(std::shared_ptr<const BlendedDataset> dataset, Split split, std::int64_t consumed,
                                    const TrainOptions& options, const RunShape& shape, StepBatches& memory);

}  // namespace mtl
