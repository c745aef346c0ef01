// The samples of one split of a run, from one data set or a blend of several (data/blend.h).
//
//   not blended       one prefix without a weight: at least as many samples as requested
//   weighted          weights are normalized here and again by BlendOrder; each data set is built with 0.5 % more than
//                     its target; the blend has as many samples as all targets together
//   without weights   every data set provides one epoch; as many samples as requested, at most all of them
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/blend.h"
#include "data/data_path.h"
#include "data/gpt_dataset.h"

namespace mtl {

/// Holds open token files; opens each only once.
class DataFiles {
 public:
  std::shared_ptr<const IndexedDataset> open(const std::string& path);
  /// In order of first use.
  const std::vector<std::shared_ptr<const IndexedDataset>>& all() const { return files_; }

 private:
  std::vector<std::shared_ptr<const IndexedDataset>> files_;
};

class BlendedDataset {
 public:
  /// A single data set, not blended.
  explicit BlendedDataset(std::shared_ptr<const GptDataset> only);
  /// Throws Error(bad_data) if the order needs more samples of a data set than it has.
  BlendedDataset(std::vector<std::shared_ptr<const GptDataset>> datasets, BlendOrder order);

  std::int64_t size() const { return order_ ? order_->size() : datasets_.front()->size(); }
  Sample item(std::int64_t index) const;
  SampleSource describe(std::int64_t index) const;
  std::vector<std::int32_t> read_tokens(std::int64_t index) const;
  void prefetch(std::int64_t index) const;

  const std::vector<std::shared_ptr<const GptDataset>>& datasets() const { return datasets_; }
  /// Empty for a single data set, not blended.
  const std::optional<BlendOrder>& order() const { return order_; }

 private:
  struct Place {
    std::int64_t dataset, index;
  };
  Place place(std::int64_t index) const;
  const GptDataset& dataset(std::int64_t number) const { return *datasets_[number]; }

  std::vector<std::shared_ptr<const GptDataset>> datasets_;
  std::optional<BlendOrder> order_;
};

/// Opens the data sets of `source`; replaces the `range` and `samples` of `options`. Without `samples` each data set
/// provides one epoch; a weighted blend needs `samples`. Throws as IndexedDataset and GptDataset do, and
/// Error(bad_data) if a data set of a blend without weights has no sample in its range.
std::shared_ptr<const BlendedDataset> open_split(DataFiles& files, const SplitSource& source,
                                                 std::optional<std::int64_t> samples, GptDatasetOptions options);

/// Throws Error(bad_data) if `dataset` has fewer than the `needed` samples. Only a blend without weights, which
/// provides one epoch, can have too few.
void require_samples(const SplitSource& source, Split split, const BlendedDataset& dataset, std::int64_t needed);

}  // namespace mtl
