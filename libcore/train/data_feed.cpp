#include "train/data_feed.h"

#include <algorithm>

#include "base/console.h"

namespace mtl {

TrainingData::TrainingData(const TrainOptions& options, std::int64_t vocab_size, std::int32_t eod)
    : files_(std::make_shared<IndexedDataset>(options.data.data_path.front())) {
  RunLength run{options.train_iters(), options.global_batch_size(), options.batch.eval_interval,
                options.batch.eval_iters, options.batch.train_samples};
  GptDatasetOptions dataset;
  dataset.seq_length = options.data.seq_length;
  dataset.seed = options.seed;
  dataset.vocab_size = vocab_size;
  dataset.eod = eod;
  dataset.eod_mask_loss = options.data.eod_mask_loss;
  dataset.reset_position_ids = options.data.reset_position_ids;
  dataset.reset_attention_mask = options.data.reset_attention_mask;
  auto shares = parse_split(options.data.split);
  for (Split split : {Split::train, Split::valid, Split::test}) {
    bool has_weight = shares[static_cast<std::size_t>(split)].has_value();
    if ((!has_weight || options.batch.eval_iters == 0) && split != Split::train)
      continue;  // 100,0,0 is how one asks for no validation and no test
    datasets_[static_cast<std::size_t>(split)] = open_split(files_, options.data.split, split, run, dataset);
  }
}

Json TrainingData::identity() const {
  return Json::object({{"path", files_->prefix()},
                       {"bin_bytes", files_->bin_bytes()},
                       {"idx_bytes", files_->idx_bytes()},
                       {"idx_hash", hash_text(files_->idx_hash())}});
}

std::string data_difference(const Json& saved, const Json& now) {
  for (const char* key : {"bin_bytes", "idx_bytes", "idx_hash"}) {
    const Json *before = saved.find(key), *after = now.find(key);
    if (before == nullptr || after == nullptr || before->dump() == after->dump()) continue;
    return cat(now.string_or("path", "the data"), ": ", key, " is ", after->dump(), ", it was ", before->dump(), " (",
               saved.string_or("path", ""), ")");
  }
  return "";
}

DataFeed::DataFeed(std::shared_ptr<const GptDataset> dataset, SamplerOptions sampler, const RunShape& shape)
    : dataset_(std::move(dataset)), sampler_(sampler), shape_(shape) {
  for (StepBatch& step : steps_) {
    step.buffers = std::make_unique<BatchBuffers>(Device::cpu, shape_);
    step.unmasked.resize(static_cast<std::size_t>(shape_.micro_batches));
  }
  reading_ = std::async(std::launch::async, [this] { fill(steps_[0]); });
}

DataFeed::~DataFeed() {
  if (reading_.valid()) reading_.wait();
}

const StepBatch& DataFeed::next() {
  double begin = now_seconds();
  reading_.get();  // throws what the reader met
  stalled_ += now_seconds() - begin;
  const StepBatch& ready = steps_[static_cast<std::size_t>(filling_)];
  filling_ = 1 - filling_;
  reading_ = std::async(std::launch::async, [this] { fill(steps_[static_cast<std::size_t>(filling_)]); });
  return ready;
}

void DataFeed::fill(StepBatch& step) {
  for (int m = 0; m < shape_.micro_batches; ++m) {
    std::vector<std::int64_t> samples = sampler_.next();
    if (samples.empty())
      fail(Exit::bad_data, "the data is used up after ", sampler_.consumed(),
           " samples; ask for fewer, or give more data");
    const Batch& batch = step.buffers->batch(m);
    double unmasked = 0;
    for (std::size_t row = 0; row < samples.size(); ++row)
      fill_sample(batch, static_cast<std::int64_t>(row), samples[row], &unmasked);
    step.unmasked[static_cast<std::size_t>(m)] = unmasked;
    float* weights = batch.loss_weights.data<float>();
    // A mean over the micro-batches of all data-parallel ranks, whose gradients are summed.
    double denominator =
        std::max(unmasked, 1.0) * static_cast<double>(shape_.micro_batches * shape_.placement.size(Axis::data));
    for (std::int64_t i = 0; i < batch.loss_weights.numel(); ++i)
      weights[i] = static_cast<float>(weights[i] / denominator);
  }
}

/// Writes one sample; loss_weights first holds the mask.
void DataFeed::fill_sample(const Batch& batch, std::int64_t row, std::int64_t index, double* unmasked) {
  Sample sample = dataset_->item(index);
  auto store = [&](const Tensor& to, const auto& from) {
    std::copy(from.begin(), from.end(),
              to.data<typename std::decay_t<decltype(from)>::value_type>() + row * shape_.seq_length);
  };
  store(batch.tokens, sample.tokens);
  store(batch.labels, sample.labels);
  store(batch.positions, sample.position_ids);
  store(batch.loss_weights, sample.loss_mask);
  if (batch.document_start.exists()) store(batch.document_start, sample.document_start);
  for (float mask : sample.loss_mask) *unmasked += double{mask};
}

}  // namespace mtl
