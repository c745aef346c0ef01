#include "data/blended_dataset.h"

#include <algorithm>
#include <future>

#include "base/count_of.h"
#include "base/enum_index.h"
#include "base/error.h"

namespace mtl {
namespace {

std::shared_ptr<const GptDataset> open_one(DataFiles& files, const SplitSource& source, const std::string& prefix,
                                           std::optional<std::int64_t> samples, GptDatasetOptions options) {
  auto file = files.open(prefix);
  options.order.range = range_of(source.share, file->sequences());
  options.order.samples = samples;
  return std::make_shared<GptDataset>(std::move(file), options);
}

std::shared_ptr<const BlendedDataset> open_weighted(DataFiles& files, const SplitSource& source, std::int64_t samples,
                                                    const GptDatasetOptions& options) {
  const std::vector<double> weights = normalize_weights(*source.blend.weights);
  std::vector<std::int64_t> targets;
  std::int64_t size = 0;
  for (const double weight : weights) size += targets.emplace_back(blend_target(samples, weight));
  auto order = std::async(std::launch::async, [&] { return BlendOrder::weighted(weights, size); });
  std::vector<std::shared_ptr<const GptDataset>> datasets;
  for (std::size_t d = 0; d < weights.size(); ++d)
    datasets.push_back(open_one(files, source, source.blend.prefixes[d], blend_surplus(targets[d]), options));
  return std::make_shared<BlendedDataset>(std::move(datasets), order.get());
}

std::shared_ptr<const BlendedDataset> open_unweighted(DataFiles& files, const SplitSource& source,
                                                      std::optional<std::int64_t> samples,
                                                      const GptDatasetOptions& options) {
  std::vector<std::shared_ptr<const GptDataset>> datasets;
  std::vector<std::int64_t> sizes;
  std::vector<double> weights;
  std::int64_t all = 0;
  for (const std::string& prefix : source.blend.prefixes) {
    datasets.push_back(open_one(files, source, prefix, std::nullopt, options));
    all += sizes.emplace_back(datasets.back()->size());
    if (sizes.back() == 0) {
      fail(Exit::bad_data, datasets.back()->name(), ": one epoch is shorter than a sample of ",
           options.order.seq_length, " tokens; add weights, or omit this data set");
    }
    weights.push_back(sizes.back());
  }
  BlendOrder order = samples ? BlendOrder::weighted(weights, std::min(*samples, all)) : BlendOrder::exhaustive(sizes);
  return std::make_shared<BlendedDataset>(std::move(datasets), std::move(order));
}

}  // namespace

std::shared_ptr<const IndexedDataset> DataFiles::open(const std::string& path) {
  const std::string prefix = dataset_prefix(path);
  for (const auto& file : files_)
    if (file->prefix() == prefix) return file;
  return files_.emplace_back(std::make_shared<IndexedDataset>(prefix));
}

BlendedDataset::BlendedDataset(std::shared_ptr<const GptDataset> only) : datasets_{std::move(only)} {}

BlendedDataset::BlendedDataset(std::vector<std::shared_ptr<const GptDataset>> datasets, BlendOrder order)
    : datasets_(std::move(datasets)), order_(std::move(order)) {
  require(datasets_.size() == order_->counts().size(), "BlendedDataset: the order is for other data sets");
  for (std::size_t d = 0; d < datasets_.size(); ++d) {
    if (order_->counts()[d] <= datasets_[d]->size()) continue;
    fail(Exit::bad_data, datasets_[d]->name(), " has ", count_of(datasets_[d]->size(), "sample"),
         ", but the blend needs ", order_->counts()[d], "; request more samples in total, or blend fewer data sets");
  }
}

BlendedDataset::DatasetItem BlendedDataset::locate(std::int64_t index) const {
  if (!order_) return {0, index};
  return {order_->dataset(index), order_->sample(index)};
}

Sample BlendedDataset::item(std::int64_t index) const {
  const DatasetItem at = locate(index);
  return dataset(at.dataset).item(at.index);
}

SampleSource BlendedDataset::describe(std::int64_t index) const {
  const DatasetItem at = locate(index);
  SampleSource source = dataset(at.dataset).describe(at.index);
  source.dataset = at.dataset;
  return source;
}

std::vector<std::int32_t> BlendedDataset::read_tokens(std::int64_t index) const {
  const DatasetItem at = locate(index);
  return dataset(at.dataset).read_tokens(at.index);
}

void BlendedDataset::prefetch(std::int64_t index) const {
  const DatasetItem at = locate(index);
  dataset(at.dataset).prefetch(at.index);
}

std::shared_ptr<const BlendedDataset> open_split(DataFiles& files, const SplitSource& source,
                                                 std::optional<std::int64_t> samples, GptDatasetOptions options) {
  if (!source.blend.is_blended())
    return std::make_shared<BlendedDataset>(open_one(files, source, source.blend.prefixes.front(), samples, options));
  if (source.blend.weights && samples) return open_weighted(files, source, *samples, options);
  require(!source.blend.weights, "a weighted blend needs a number of samples");
  return open_unweighted(files, source, samples, options);
}

void require_samples(const SplitSource& source, Split split, const BlendedDataset& dataset, std::int64_t needed) {
  if (dataset.size() >= needed) return;
  fail(Exit::bad_data, source.flag, ": without weights the ", dataset.datasets().size(),
       " data sets provide one epoch, ", dataset.size(), " samples for ", kSplitNames[enum_index(split)],
       ", but the run needs ", needed, "; add weights to read the data more often, or request fewer samples");
}

}  // namespace mtl
