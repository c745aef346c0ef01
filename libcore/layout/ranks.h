// The grid of ranks and its communication groups, in Megatron-LM's order.
//
// rank = sum over the axes of coordinate * product of the sizes of the axes before it, in the grid's order, leftmost
// fastest. A group over a set of axes holds the ranks whose coordinates differ only along these axes.
#pragma once

#include <array>
#include <initializer_list>
#include <string>
#include <vector>

#include "base/enum_index.h"

namespace mtl {

enum class Axis { tensor, context, expert, data, pipeline };
inline constexpr int kAxes = 5;
/// "tp", "cp", "ep", "dp", "pp".
const char* short_name(Axis axis);

class AxisSet {
 public:
  constexpr AxisSet() = default;
  constexpr AxisSet(Axis axis) : bits_(1u << static_cast<unsigned>(axis)) {}
  constexpr AxisSet(std::initializer_list<Axis> axes) {
    for (Axis axis : axes) bits_ |= AxisSet(axis).bits_;
  }
  constexpr bool contains(Axis axis) const { return (bits_ & AxisSet(axis).bits_) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr AxisSet operator|(AxisSet other) const { return from_bits(bits_ | other.bits_); }
  constexpr AxisSet operator&(AxisSet other) const { return from_bits(bits_ & other.bits_); }
  constexpr AxisSet operator-(AxisSet other) const { return from_bits(bits_ & ~other.bits_); }
  bool operator==(const AxisSet&) const = default;
  /// A number below kAxisSets, different for each set.
  constexpr unsigned index() const { return bits_; }

 private:
  static constexpr AxisSet from_bits(unsigned bits) {
    AxisSet out;
    out.bits_ = bits;
    return out;
  }
  unsigned bits_ = 0;
};
inline constexpr unsigned kAxisSets = 1u << kAxes;

/// "dp-cp" -> {data, context}. Throws Error(usage) for an unknown or repeated name.
AxisSet parse_axes(const std::string& names);

/// The number of ranks along each axis.
struct GridSizes {
  int tensor = 1, context = 1, expert = 1, data = 1, pipeline = 1;
};

class RankGrid {
 public:
  /// `order` names the axes, leftmost fastest: "tp-cp-ep-dp-pp" is Megatron's default, "tp-cp-ep-pp-dp" its order with
  /// --use-tp-pp-dp-mapping; an axis of size 1 may be omitted. Throws Error(usage) for sizes below 1, and for an order
  /// that names an unknown axis, repeats one, or omits one larger than 1.
  explicit RankGrid(GridSizes sizes, const std::string& order = "tp-cp-ep-dp-pp");

  int world() const;
  int size(Axis axis) const { return sizes_[enum_index(axis)]; }
  /// The number of ranks in a group over `axes`.
  int size(AxisSet axes) const;
  int coordinate(int rank, Axis axis) const;
  /// The rank at these coordinates, one per axis in the order of Axis.
  int rank_at(const std::array<int, kAxes>& coordinates) const;

  /// Returns all groups over `axes` in the order in which Megatron lists them, each with its ranks in ascending order.
  std::vector<std::vector<int>> groups(AxisSet axes) const;
  /// Return the group over `axes` that contains `rank`, and the index of `rank` in it.
  std::vector<int> group_of(int rank, AxisSet axes) const;
  int index_in_group(int rank, AxisSet axes) const;
  /// Returns the groups of ranks that hold a copy of the tied embedding: the first and the last of each pipeline group.
  std::vector<std::vector<int>> embedding_groups() const;
  /// Returns the embedding group that contains `rank`, or `rank` alone if it holds no copy.
  std::vector<int> embedding_group_of(int rank) const;
  /// Returns groups of one rank, which holds the position embedding: the first of each pipeline group.
  std::vector<std::vector<int>> position_embedding_groups() const;

 private:
  std::array<int, kAxes> sizes_;    // by Axis
  std::array<int, kAxes> strides_;  // by Axis
  std::array<Axis, kAxes> order_;   // fastest first
};

}  // namespace mtl
