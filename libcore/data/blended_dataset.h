// The samples of one split of a run: those of one data set, or of several that are blended (data/blend.h).
//
//   not blended       one prefix without a weight: as many samples as are wanted
//   weighted          weights are normalized, and again by the order; of `samples` each data set gives its target,
//                     is built with half a percent more; the blend has as many samples as all targets together
//   without weights   every data set gives one epoch; as many samples as are wanted, at most all of them
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/blend.h"
#include "data/data_path.h"
#include "data/gpt_dataset.h"

namespace mtl {

/// Open token files, each opened once.
class DataFiles {
 public:
  std::shared_ptr<const IndexedDataset> open(const std::string& path);
  /// In the order of their first use.
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
  /// Empty if nothing is blended.
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

/// `options` with range and samples filled in. `samples` is empty for everything once. Throws as GptDataset does, and
/// Error(bad_data) for a share of a data set that rounds to none of its sequences.
std::shared_ptr<const BlendedDataset> open_split(DataFiles& files, const SplitSource& source,
                                                 std::optional<std::int64_t> samples, GptDatasetOptions options);

/// Throws Error(bad_data) when a sampler that goes through `dataset` once cannot take `wanted` samples. Only a blend
/// without weights, which gives one epoch, can have too few.
void require_samples(const SplitSource& source, Split split, const BlendedDataset& dataset, std::int64_t wanted);

}  // namespace mtl
