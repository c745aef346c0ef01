// The rank grid and its communication groups, in Megatron-LM's order.
//
// rank = sum over all axes of coordinate * stride. An axis's stride is the product of all preceding axis sizes, so the
// leftmost axis in the grid's order varies fastest. Ranks in a group over a set of axes differ only in their
// coordinates along these axes.
#pragma once

#include <array>
#include <initializer_list>
#include <string>
#include <vector>

#include "base/enum_index.h"

namespace mtl {

enum class Axis { tensor, context, expert, data, pipeline };
inline constexpr std::array kAllAxes = {Axis::tensor, Axis::context, Axis::expert, Axis::data, Axis::pipeline};
/// Returns "tp", "cp", "ep", "dp" or "pp".
const char* short_name(Axis axis);

class AxisSet {
 public:
  constexpr AxisSet() = default;
  constexpr AxisSet(Axis axis) : bits_(1u << static_cast<unsigned>(axis)) {}
  constexpr AxisSet(std::initializer_list<Axis> axes) {
    for (Axis axis : axes) bits_ |= AxisSet(axis).bits_;
  }
  static constexpr AxisSet all() { return from_bits((1u << kAllAxes.size()) - 1); }
  constexpr bool contains(Axis axis) const { return (bits_ & AxisSet(axis).bits_) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr AxisSet operator|(AxisSet other) const { return from_bits(bits_ | other.bits_); }
  constexpr AxisSet operator&(AxisSet other) const { return from_bits(bits_ & other.bits_); }
  constexpr AxisSet operator-(AxisSet other) const { return from_bits(bits_ & ~other.bits_); }
  bool operator==(const AxisSet&) const = default;
  /// Returns a number below kAxisSets, different for each set.
  constexpr unsigned index() const { return bits_; }

 private:
  static constexpr AxisSet from_bits(unsigned bits) {
    AxisSet out;
    out.bits_ = bits;
    return out;
  }
  unsigned bits_ = 0;
};
inline constexpr unsigned kAxisSets = 1u << kAllAxes.size();

using AxisNumbers = std::array<int, kAllAxes.size()>;  // by Axis

/// A number for each axis, by the axis's name.
template <int kDefault>
struct NamedAxisNumbers {
  int tensor = kDefault, context = kDefault, expert = kDefault, data = kDefault, pipeline = kDefault;

  AxisNumbers by_axis() const { return std::to_array({tensor, context, expert, data, pipeline}); }
};
using GridSizes = NamedAxisNumbers<1>;        // ranks along each axis
using GridCoordinates = NamedAxisNumbers<0>;  // of a rank

class RankGrid {
 public:
  /// `order` lists the axes. The leftmost varies fastest. Megatron-LM uses "tp-cp-ep-dp-pp" by default, and
  /// "tp-cp-ep-pp-dp" with --use-tp-pp-dp-mapping. `order` may omit axes of size 1. Throws Error(usage) if a size is
  /// below 1, or if `order` contains an unknown axis, repeats an axis, or omits one whose size is at least 2.
  explicit RankGrid(GridSizes sizes, const std::string& order = "tp-cp-ep-dp-pp");

  int world() const { return size(AxisSet::all()); }
  int size(Axis axis) const { return sizes_[enum_index(axis)]; }
  /// Returns how many ranks are in a group over `axes`.
  int size(AxisSet axes) const;
  int coordinate(int rank, Axis axis) const;
  /// Returns the rank at these coordinates.
  int rank_at(const GridCoordinates& coordinates) const;

  /// Returns all groups over `axes` in Megatron-LM's order. The ranks in each group are in ascending order.
  std::vector<std::vector<int>> groups(AxisSet axes) const;
  /// group_of() returns the group over `axes` that contains `rank`. index_in_group() returns the rank's index there.
  std::vector<int> group_of(int rank, AxisSet axes) const;
  int index_in_group(int rank, AxisSet axes) const;
  /// Returns the groups that share the tied embedding: the first and last rank in each pipeline group.
  std::vector<std::vector<int>> embedding_groups() const;
  /// Returns the embedding group that contains `rank`, or just `rank` if it holds no copy.
  std::vector<int> embedding_group_of(int rank) const;
  /// Returns the groups that hold the position embedding: just the first rank in each pipeline group.
  std::vector<std::vector<int>> position_embedding_groups() const;

 private:
  AxisNumbers sizes_, strides_;
  std::array<Axis, kAllAxes.size()> order_;  // fastest axis first
};

}  // namespace mtl
