// Flat buckets that hold parameters, and the table of what is stored for each parameter. The table's rows are values,
// gradients, the update rule's states, and main weights.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "device/space.h"
#include "device/tensor.h"
#include "layout/ranks.h"
#include "nn/param.h"
#include "optim/update_rule.h"

namespace mtl {

/// What a row of a ParamMemory's table stores. An update rule keeps one or more states. If the values are a narrower
/// copy of the main weights, the update rule updates the main weights.
enum class StorageRole { values, gradients, states, main_weights };

/// The elements of a bucket that a rank holds: all of them, or only those it updates.
enum class Extent { whole, owned };

/// A row of a ParamMemory's table. It stores one number per parameter element.
struct Storage {
  StorageRole role;
  std::string kind;  // prefix of the parameter's name in checkpoints; empty if not saved
  DType dtype;
  Extent extent;
  Space space = Space::device;
  int rule = -1;  // of states: the rule that keeps them, as UpdateTraits::rule
};

/// Row indices, the same in every table. Rows from kFirstState on hold the update rules' states, then the main weights
/// if there are any. In evaluation, the table has only the values row.
inline constexpr std::size_t kValues = 0, kGradients = 1, kFirstState = 2;

/// One parameter's range in a bucket.
struct Segment {
  int param;           // index into ParamMemory::specs()
  std::int64_t begin;  // index in the bucket of the parameter's first element
  std::int64_t count;  // number of elements, including padding
};

/// Properties that all parameters in a bucket share, so that one reduction and one update can handle the entire bucket.
/// A tied embedding has a bucket of its own.
struct BucketKey {
  Ownership ownership;  // without shards: a bucket holds this rank's parts
  UpdateTraits traits;

  BucketKey(const ParamSpec& spec, const UpdateTraits& of) : ownership(spec.ownership), traits(of) {
    ownership.shards.clear();
  }
  bool operator==(const BucketKey& other) const { return order() == other.order(); }
  bool operator<(const BucketKey& other) const { return order() < other.order(); }

 private:
  std::tuple<bool, unsigned, unsigned, unsigned, UpdateTraits> order() const {
    return {ownership.on_end_stages, ownership.replicas.index(), ownership.partial.index(), ownership.owners.index(),
            traits};
  }
};

struct Bucket {
  BucketKey key;
  std::vector<Segment> segments = {};
  std::size_t group = 0;           // index into BucketLayout::groups
  int units = 0;                   // number of units that backward must finish before this bucket is reduced
  std::size_t main_row = kValues;  // the table row that the optimizer updates
  std::size_t first_state = kFirstState, state_rows = 0;  // the rows of its rule's states
  // One flat tensor per table row. It has `count` elements, or owned_end - owned_begin if the row's extent is `owned`,
  // or none if it is a state of another rule.
  std::vector<Tensor> memory = {};
  std::int64_t count = 0;
  std::int64_t owned_begin = 0, owned_end = 0;
  // Where layers read this rank's values, and where backward adds up its gradients: the row, if that is whole, or
  // working memory.
  Tensor whole_values = {}, whole_grads = {};
  // Set if values are gathered for leases, to this buffer of working memory.
  std::optional<int> value_buffer = {};
  // Set if backward writes to this buffer of a ring: then the sum of every micro-batch leaves it for the owned row.
  std::optional<int> gradient_buffer = {};
  // If set, this bucket has no parameters, only the gradient of the head's use of a tied embedding. It is added to the
  // gradient in the bucket with this index. All other rows are empty.
  std::optional<std::size_t> added_to = {};

  /// All values, or all gradients.
  const Tensor& values() const { return whole_values; }
  const Tensor& grads() const { return whole_grads; }
  /// The values or gradients that this rank owns.
  Tensor owned_values() const { return owned_part(memory[kValues]); }
  Tensor owned_grads() const { return owned_part(memory.at(kGradients)); }
  /// In a bucket with a buffer in the ring for gradients: this rank's part of the buffer.
  Tensor owned_in_ring() const { return owned(whole_grads); }
  std::span<const Tensor> states() const { return std::span(memory).subspan(first_state, state_rows); }
  /// True if the optimizer updates the main weights instead of the values.
  bool has_main_weights() const { return main_row != kValues; }
  /// The owned part of the row that the optimizer updates.
  Tensor owned_main() const { return has_main_weights() ? memory[main_row] : owned_values(); }

  struct Range {
    std::int64_t begin, count;
  };
  /// owned() returns the part of a segment that this rank owns, as a range of the bucket. owned_by() returns the part
  /// that another rank owns. `index` is that rank's index among the ranks that shard the optimizer state.
  Range owned(const Segment& segment) const;
  Range owned_by(int index, const Segment& segment) const;
  /// Returns the owned ranges without the gaps that alignment leaves between parameters and at the end: a single range
  /// if there is no gap.
  std::vector<Range> owned_without_gaps() const;

 private:
  Tensor owned(const Tensor& whole) const { return whole.flat(owned_begin, owned_end - owned_begin); }
  Tensor owned_part(const Tensor& row) const { return row.numel() == count ? owned(row) : row; }
};

}  // namespace mtl
