// The flat buckets that hold parameters, and the table of their rows: values, gradients, states, main weights.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "device/space.h"
#include "device/tensor.h"
#include "layout/ranks.h"
#include "nn/param.h"

namespace mtl {

/// The elements of a bucket that a rank holds: all, or only those that it updates.
enum class Extent { whole, owned };

/// A row of a ParamStore's table: one number for every element of every parameter.
struct Storage {
  Role role;
  std::string kind;  // prefix of the parameter's name in checkpoints; empty: not in checkpoints
  DType dtype;
  Extent extent;
  Space space = Space::device;
};

/// Rows of every table: the rows from kFirstState on are the update rule's states, followed by the main weights, if
/// any. In evaluation, without gradients, the table has one row.
inline constexpr std::size_t kValues = 0, kGradients = 1, kFirstState = 2;

/// The range of one parameter in a bucket.
struct Segment {
  int param;           // index into ParamStore::specs()
  std::int64_t begin;  // first element in the bucket
  std::int64_t count;  // elements, padding included
};

/// Properties common to all parameters of a bucket, so that one reduction and one update serve the whole bucket.
struct BucketKey {
  bool tied = false;  // the bucket holds only a tied embedding
  AxisSet summed_over;
  bool decays = true;

  explicit BucketKey(const ParamSpec& spec) : tied(spec.tied), summed_over(spec.summed_over), decays(spec.decays) {}
  bool operator==(const BucketKey&) const = default;
  bool operator<(const BucketKey& other) const {
    return std::tuple(tied, summed_over.index(), decays) <
           std::tuple(other.tied, other.summed_over.index(), other.decays);
  }
};

struct Bucket {
  BucketKey key;
  std::vector<Segment> segments = {};
  int units = 0;                   // units with parameters in this bucket
  std::size_t main_row = kValues;  // the row of the table that updates write
  // By row of the table, flat: `count` elements, or owned_end - owned_begin if the row's extent is `owned`.
  std::vector<Tensor> memory = {};
  std::int64_t count = 0;
  std::int64_t owned_begin = 0, owned_end = 0;

  /// All elements of a row.
  const Tensor& values() const { return memory[kValues]; }
  const Tensor& grads() const { return memory.at(kGradients); }
  /// The owned elements of a row.
  Tensor owned_values() const { return owned(values()); }
  Tensor owned_grads() const { return owned(grads()); }
  std::span<const Tensor> states() const {
    return std::span(memory).subspan(kFirstState, memory.size() - kFirstState - (has_main_weights() ? 1 : 0));
  }
  /// True if updates write the main weights instead of the values.
  bool has_main_weights() const { return main_row != kValues; }
  /// The owned elements of the row that updates write.
  Tensor owned_main() const { return has_main_weights() ? memory[main_row] : owned_values(); }

  struct Range {
    std::int64_t begin, count;
  };
  /// Returns the owned part of a segment, as a range of the bucket; owned_by(): the part that another rank owns, by the
  /// rank's index among those that shard the optimizer's state.
  Range owned(const Segment& segment) const;
  Range owned_by(int index, const Segment& segment) const;

 private:
  Tensor owned(const Tensor& row) const { return row.flat(owned_begin, owned_end - owned_begin); }
};

}  // namespace mtl
