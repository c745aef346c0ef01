#include "train/data_feed.h"

#include <algorithm>
#include <numeric>

#include "base/console.h"
#include "base/count_of.h"
#include "base/mapped_faults.h"
#include "data/data_identity.h"
#include "data/mock_tokens.h"

namespace mtl {

namespace {

GptDatasetOptions dataset_options(const TrainOptions& options, const TrainingData::Tokens& tokens) {
  return {.order = {.kind = options.data.order_kind(), .seq_length = options.data.seq_length, .seed = options.seed},
          .eod = tokens.eod,
          .pad = tokens.pad,
          .vocab_size = tokens.vocab_size,
          .eod_mask_loss = options.data.eod_mask_loss,
          .reset_position_ids = options.data.reset_position_ids,
          .reset_attention_mask = options.data.reset_attention_mask};
}

/// Returns the number of samples that the run reads of a split; nullopt: all, once.
std::optional<std::int64_t> samples_of(const TrainOptions& options, Split split) {
  if (split == Split::valid && options.batch.full_validation) return std::nullopt;
  return count_samples(options.batch.run_length(options.train_iters(), options.parallel.data()))[enum_index(split)];
}

/// Returns where a sample starts, with an offset in tokens: "data set 1, document 17 + 3".
std::string place_of(const BlendedDataset& dataset, std::int64_t index) {
  const SampleSource source = dataset.describe(index);
  return cat("data set ", source.dataset, ", document ", source.documents.front(), " + ", source.first_offset);
}

/// Returns where up to 32 evenly spaced samples start: {"0": "data set 0, document 5 + 0", ...}.
Json probe_order(const BlendedDataset& dataset) {
  const std::int64_t count = std::min<std::int64_t>(32, dataset.size());
  Json probes = Json::object();
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t index = i * (dataset.size() - 1) / std::max<std::int64_t>(1, count - 1);
    probes.set(cat(index), place_of(dataset, index));
  }
  return probes;
}

}  // namespace

TrainingData::TrainingData(const TrainOptions& options, const Tokens& tokens) {
  if (options.data.mock) {
    generate(options, tokens);
    return;
  }
  SplitSources sources = read_split_sources(
      options.data.paths, [](const std::string& flag, const std::string& what) { fail_at(Exit::usage, flag, what); });
  for (Split split : {Split::train, Split::valid, Split::test}) {
    const std::size_t i = enum_index(split);
    const std::optional<std::int64_t> count = samples_of(options, split);
    if (!sources[i] || count == 0) continue;  // --split 100,0,0 does not request validation or test data
    if (!count) {
      open_whole(*sources[i], dataset_options(options, tokens), options.data.multiple_validation_sets);
      continue;
    }
    datasets_[i] = open_split(files_, *sources[i], *count, dataset_options(options, tokens));
    if (options.data.sampler_kind() == SamplerKind::single) require_samples(*sources[i], split, *datasets_[i], *count);
  }
  if (!dataset(Split::train))
    fail(Exit::usage, "--split ", options.data.paths.split,
         " leaves nothing to train on; set the first weight above 0");
  if (validation_sets_.empty() && dataset(Split::valid)) validation_sets_ = {dataset(Split::valid)};
  identify(options, sources);
}

/// Opens all samples for validation, as one data set or each prefix `apart`. Weights do not count: with them, training
/// may read the same data sets.
void TrainingData::open_whole(const SplitSource& source, const GptDatasetOptions& options, bool apart) {
  std::vector<std::shared_ptr<const GptDataset>> parts;
  std::vector<std::int64_t> sizes;
  for (const std::string& prefix : source.blend.prefixes) {
    const SplitSource set = {source.flag, {.prefixes = {prefix}, .weights = {}}, source.share};
    const auto& dataset = validation_sets_.emplace_back(open_split(files_, set, std::nullopt, options));
    parts.push_back(dataset->datasets().front());
    if (sizes.emplace_back(dataset->size()) > 0) continue;
    fail(Exit::bad_data, parts.back()->name(), ": the part for validation is shorter than a sample of ",
         options.order.seq_length, " tokens; use more data, or a smaller --seq-length");
  }
  if (!apart && parts.size() > 1)
    validation_sets_ = {std::make_shared<BlendedDataset>(std::move(parts), BlendOrder::exhaustive(sizes))};
  datasets_[enum_index(Split::valid)] = validation_sets_.front();
}

void TrainingData::generate(const TrainOptions& options, const Tokens& tokens) {
  const auto eod = static_cast<std::int32_t>(tokens.eod >= 0 ? tokens.eod : tokens.vocab_size - 1);
  const auto source = std::make_shared<MockTokens>(eod, tokens.vocab_size);
  for (Split split : {Split::train, Split::valid, Split::test}) {
    const std::size_t i = enum_index(split);
    const std::optional<std::int64_t> count = samples_of(options, split);
    if (count == 0) continue;
    GptDatasetOptions dataset = dataset_options(options, tokens);
    dataset.eod = eod;
    dataset.order.range = {0, source->lengths().size()};
    dataset.order.samples = count;
    // Otherwise, validation would repeat the training samples.
    dataset.order.seed = static_cast<std::uint32_t>(dataset.order.seed + std::int64_t(i));
    datasets_[i] = std::make_shared<BlendedDataset>(std::make_shared<GptDataset>(source, dataset));
  }
  if (dataset(Split::valid)) validation_sets_ = {dataset(Split::valid)};
  identify(options, {});
}

void TrainingData::identify(const TrainOptions& options, const SplitSources& sources) {
  Json files = Json::array(), order = Json::object();
  for (const auto& file : files_.all()) files.push(file_identity(*file));
  const DataOptions& data = options.data;
  order.set("--seed", options.seed).set("--seq-length", data.seq_length).set("--data-order", data.order);
  order.set("--dataloader-type", data.dataloader_type).set("--no-data-sharding", !data.data_sharding);
  if (data.sampler_kind() == SamplerKind::cyclic && data.data_sharding) {  // each rank shuffles its own part
    order.set("--micro-batch-size times data-parallel size", options.batch.micro_batch_size * options.parallel.data());
  }
  if (data.mock) order.set("--mock-data", true);
  if (!data.mock && !data.paths.is_per_split()) order.set("--split", data.paths.split);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (!sources[i] || !datasets_[i]) continue;
    Json weights = Json::array(), numbers = Json::array();
    for (double weight : sources[i]->blend.weights.value_or(std::vector<double>{})) weights.push(weight);
    for (const std::string& prefix : sources[i]->blend.prefixes) {
      const auto& all = files_.all();
      numbers.push(std::ranges::find(all, dataset_prefix(prefix), &IndexedDataset::prefix) - all.begin());
    }
    order.set(cat("weights of ", kSplitNames[i]), weights).set(cat("data sets of ", kSplitNames[i]), numbers);
  }
  identity_ = Json::object({{"files", files}, {"order", order}, {"probes", probe_order(*dataset(Split::train))}});
}

std::string TrainingData::place_of_sample(std::int64_t index) const { return place_of(*dataset(Split::train), index); }

std::string TrainingData::moved_sample(const Json& saved) const {
  const Json* probes = saved.find("probes");
  if (probes == nullptr) return "";
  const BlendedDataset& train = *dataset(Split::train);
  for (const auto& [number, place] : probes->as_object()) {
    const std::int64_t index = parse_int(number).value_or(-1);
    if (index < 0 || index >= train.size() || place_of(train, index) == place.as_string()) continue;
    return cat("sample ", number, " is ", place_of(train, index), ", but was ", place.as_string());
  }
  return "";
}

std::string TrainingData::identity_lines() const {
  std::vector<std::string> lines;
  for (const Json& file : identity_.at("files").as_array()) lines.push_back(file.dump());
  for (const auto& [flag, value] : identity_.at("order").as_object()) lines.push_back(cat(flag, " ", value.dump()));
  return join(lines, "\n");
}

StepBatches make_step_batches(const RunShape& shape) {
  StepBatches steps;
  const bool has_copies = shape.device != Device::cpu;
  if (has_copies) steps.copies = std::make_unique<Stream>(shape.device);
  for (int slot = 0; slot < 2; ++slot) {
    const auto make_batch = [&](Space space) {
      StepBatch batch;
      batch.buffers = std::make_unique<BatchBuffers>(shape.device, shape, space);
      batch.unmasked.resize(shape.micro_batches);
      return batch;
    };
    steps.slots.push_back({.read = make_batch(has_copies ? Space::host : Space::device),
                           .computed = has_copies ? make_batch(Space::device) : StepBatch{},
                           .copied = Event(shape.device),
                           .used = Event(shape.device)});
  }
  return steps;
}

DataFeed::DataFeed(std::shared_ptr<const BlendedDataset> dataset, SamplerOptions sampler, const RunShape& shape,
                   MicroBatches micro_batches, StepBatches& memory)
    : dataset_(std::move(dataset)),
      sampler_(sampler),
      shape_(shape),
      micro_batches_(std::move(micro_batches)),
      memory_(memory) {
  ahead_ = draw();
  start_reading();
}

DataFeed::~DataFeed() {
  if (reading_.valid()) reading_.wait();
}

/// Starts reading the next step in a separate thread.
void DataFeed::start_reading() {
  StepBatches::Slot& slot = memory_.slots[filling_];
  slot.copied.wait();  // the copy from two steps ago, long finished
  reading_ = std::async(std::launch::async, [this, &slot] { read_mapped([&] { fill(slot.read); }); });
}

const StepBatch& DataFeed::next(Stream& stream) {
  double begin = now_seconds();
  reading_.get();  // rethrows the reader's exception
  stalled_ += now_seconds() - begin;
  StepBatches::Slot &ready = memory_.slots[filling_], &before = memory_.slots[1 - filling_];
  filling_ = 1 - filling_;
  if (memory_.copies) {
    before.used.record(stream);  // all operators that read this slot have been enqueued
    copy(ready, stream);
  }
  start_reading();
  return memory_.copies ? ready.computed : ready.read;
}

void DataFeed::copy(StepBatches::Slot& slot, Stream& stream) {
  slot.used.order(*memory_.copies);
  slot.computed.buffers->copy_from_pinned(*memory_.copies, *slot.read.buffers);
  slot.copied.record(*memory_.copies);
  slot.copied.order(stream);
  slot.computed.micro_batches = slot.read.micro_batches;
  slot.computed.unmasked = slot.read.unmasked;
}

DataFeed::Draw DataFeed::draw() {
  Draw draw;
  draw.consumed = sampler_.consumed();
  draw.requested = micro_batches_(draw.consumed);
  for (std::int64_t m = 0; m < draw.requested; ++m) {
    std::vector<std::int64_t> samples = sampler_.next();
    if (samples.empty()) break;
    draw.micro_batches.push_back(std::move(samples));
  }
  return draw;
}

void DataFeed::fill(StepBatch& step) {
  Draw now = std::exchange(ahead_, draw());
  for (const auto& samples : ahead_.micro_batches)
    for (std::int64_t sample : samples) dataset_->prefetch(std::max<std::int64_t>(0, sample));
  step.micro_batches = static_cast<int>(now.requested);
  if (std::ssize(now.micro_batches) < now.requested)
    fail(Exit::bad_data, "the data is exhausted after ", count_of(sampler_.consumed(), "sample"),
         "; train on fewer samples, or add data");
  for (int m = 0; m < step.micro_batches; ++m) fill_micro_batch(step, m, now);
}

void DataFeed::fill_micro_batch(StepBatch& step, int number, const Draw& draw) {
  const Batch& batch = step.buffers->batch(number);
  const std::vector<std::int64_t>& samples = draw.micro_batches[number];
  // Within a micro-batch, data-parallel ranks hold consecutive samples in rank order.
  const Layout& layout = shape_.layout;
  const std::int64_t place = number * layout.size(Axis::data) + layout.coordinate(Axis::data);
  std::int64_t* numbers = batch.samples.data<std::int64_t>();
  std::iota(numbers, numbers + shape_.micro_batch, draw.consumed + place * shape_.micro_batch);
  double unmasked = 0;
  for (std::size_t row = 0; row < samples.size(); ++row) fill_sample(batch, row, samples[row], &unmasked);
  step.unmasked[number] = unmasked;
  float* weights = batch.loss_weights.data<float>();
  // Scaled so that gradient sums over micro-batches and data-parallel ranks are means.
  const double tokens =
      shape_.per_token_loss ? double(shape_.micro_batch * shape_.seq_length) : std::max(unmasked, 1.0);
  const double denominator = tokens * double(step.micro_batches * shape_.layout.size(Axis::data));
  for (std::int64_t i = 0; i < batch.loss_weights.numel(); ++i) weights[i] = float(weights[i] / denominator);
}

/// Writes this rank's part of a sample, with its mask in loss_weights, and adds the mask of the whole sample to
/// `unmasked`. The caller scales loss_weights.
void DataFeed::fill_sample(const Batch& batch, std::int64_t row, std::int64_t index, double* unmasked) {
  Sample sample = dataset_->item(std::max<std::int64_t>(0, index));
  if (index == kNoSample) std::ranges::fill(sample.loss_mask, 0.0F);  // any valid tokens, which do not count
  const std::int64_t rows = shape_.rows_per_sequence(), chunk = std::max<std::int64_t>(1, rows / 2);
  const SequencePart part = shape_.part();
  auto store = [&](const Tensor& to, const auto& from) {
    auto* out = to.data<typename std::decay_t<decltype(from)>::value_type>() + row * rows;
    for (std::int64_t begin = 0, end = 0; begin < rows; begin = end) {  // runs of consecutive positions
      end = part.is_whole() ? rows : begin + chunk;
      std::copy_n(from.begin() + part.position(begin, rows), end - begin, out + begin);
    }
  };
  store(batch.tokens, sample.tokens);
  store(batch.labels, sample.labels);
  store(batch.positions, sample.position_ids);
  store(batch.loss_weights, sample.loss_mask);
  if (batch.document_start.exists()) store(batch.document_start, sample.document_start);
  for (float mask : sample.loss_mask) *unmasked += double{mask};
}

std::unique_ptr<DataFeed> open_feed(std::shared_ptr<const BlendedDataset> dataset, Split split, std::int64_t consumed,
                                    const TrainOptions& options, const RunShape& shape, StepBatches& memory) {
  SamplerOptions sampler = {.kind = options.data.sampler_kind(),
                            .total = dataset->size(),
                            .consumed = consumed,
                            .micro_batch_size = options.batch.micro_batch_size,
                            .dp_size = shape.layout.size(Axis::data),
                            .dp_rank = shape.layout.coordinate(Axis::data),
                            .data_sharding = options.data.data_sharding};
  DataFeed::MicroBatches micro_batches = [largest = shape.micro_batches](std::int64_t) { return largest; };
  if (split == Split::train)
    micro_batches = [sizes = options.batch_sizes()](std::int64_t at) { return sizes.micro_batches(at); };
  if (split == Split::valid && options.batch.full_validation) {
    sampler.kind = SamplerKind::single;
    sampler.fills_up = true;
    const std::int64_t pass = sampler.micro_batch_size * sampler.dp_size;  // samples of a micro-batch on all ranks
    micro_batches = [=, total = sampler.total, largest = shape.micro_batches](std::int64_t at) {
      return std::min(largest, (total - at + pass - 1) / pass);
    };
  }
  return std::make_unique<DataFeed>(std::move(dataset), sampler, shape, std::move(micro_batches), memory);
}

}  // namespace mtl
