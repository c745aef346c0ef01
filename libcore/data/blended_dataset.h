// The samples for one split of a run, from a single data set or a blend (data/blend.h):
//
//   not blended       one prefix without a weight. Provides at least as many samples as requested.
//   weighted          each data set is built with 0.5 % more samples than its target. The blend's length is the sum of
//                     all targets. The weights are normalized twice: here and by BlendOrder.
//   without weights   every data set provides one epoch. The blend has as many samples as requested, but at most the
//                     total of these epochs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/blend.h"
#include "data/data_path.h"
#include "data/gpt_dataset.h"
#include "data/indexed_dataset.h"

namespace mtl {

/// Opens token files and keeps them open. Opens each pair only once.
class DataFiles {
 public:
  /// `path` is the prefix, or either file's path. Throws what IndexedDataset's constructor throws.
  std::shared_ptr<const IndexedDataset> open(const std::string& path);
  /// All open files, in the order they were first opened.
  const std::vector<std::shared_ptr<const IndexedDataset>>& all() const { return files_; }

 private:
  std::vector<std::shared_ptr<const IndexedDataset>> files_;
};

class BlendedDataset {
 public:
  /// Wraps a single data set without blending.
  explicit BlendedDataset(std::shared_ptr<const GptDataset> only);
  /// Throws Error(bad_data) if the order needs more samples from a data set than it has.
  BlendedDataset(std::vector<std::shared_ptr<const GptDataset>> datasets, BlendOrder order);

  std::int64_t size() const { return order_ ? order_->size() : datasets_.front()->size(); }
  Sample item(std::int64_t index) const;
  SampleSource describe(std::int64_t index) const;
  std::vector<std::int32_t> read_tokens(std::int64_t index) const;
  void prefetch(std::int64_t index) const;

  const std::vector<std::shared_ptr<const GptDataset>>& datasets() const { return datasets_; }
  /// The blend order, or nullopt for a single data set that is not blended.
  const std::optional<BlendOrder>& order() const { return order_; }

 private:
  /// An item of one of the data sets.
  struct DatasetItem {
    std::int64_t dataset, index;
  };
  DatasetItem locate(std::int64_t index) const;
  const GptDataset& dataset(std::int64_t number) const { return *datasets_[number]; }

  std::vector<std::shared_ptr<const GptDataset>> datasets_;
  std::optional<BlendOrder> order_;
};

/// Opens the data sets in `source`. Ignores the range and the samples of options.order, because both are computed for
/// each data set. Without the argument `samples`, each data set provides one epoch; a weighted blend needs `samples`.
/// Throws everything that IndexedDataset and GptDataset throw. Also throws Error(bad_data) if a data set in a blend
/// without weights has no sample in its range.
std::shared_ptr<const BlendedDataset> open_split(DataFiles& files, const SplitSource& source,
                                                 std::optional<std::int64_t> samples, GptDatasetOptions options);

/// Throws Error(bad_data) if `dataset` has fewer than `needed` samples. This can happen only in a blend without
/// weights, which provides just one epoch.
void require_samples(const SplitSource& source, Split split, const BlendedDataset& dataset, std::int64_t needed);

}  // namespace mtl
