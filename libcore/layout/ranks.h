// Who sits where in a grid of ranks, and who talks to whom: Megatron-LM's order of ranks and its groups.
//
// rank = sum over the axes of coordinate * product of the sizes of the axes before it, in the grid's order, leftmost
// fastest. A group over some axes holds the ranks that differ in these axes alone.
#pragma once

#include <array>
#include <string>
#include <vector>

namespace mtl {

enum class Axis { tensor, context, expert, data, pipeline };
inline constexpr int kAxes = 5;
/// "tp", "cp", "ep", "dp", "pp".
const char* short_name(Axis axis);

/// How many ranks there are along each axis.
struct GridSizes {
  int tensor = 1, context = 1, expert = 1, data = 1, pipeline = 1;
};

class RankGrid {
 public:
  /// `order` names the axes, leftmost fastest: "tp-cp-ep-dp-pp" is Megatron's default, "tp-cp-ep-pp-dp" what
  /// --use-tp-pp-dp-mapping gives; an axis of one may be left out. Throws Error(usage) for sizes below 1 and for an
  /// order that names an axis twice, or leaves out one that has ranks.
  explicit RankGrid(GridSizes sizes, const std::string& order = "tp-cp-ep-dp-pp");

  int world() const;
  int size(Axis axis) const { return sizes_[static_cast<std::size_t>(axis)]; }
  int coordinate(int rank, Axis axis) const;
  /// The rank that sits at these coordinates, one for each axis in the order of the enumeration.
  int rank_at(const std::array<int, kAxes>& coordinates) const;

  /// All groups over the axes named by a token ("tp", "dp-cp", ...), members in rising rank order, in the order in
  /// which Megatron lists them.
  std::vector<std::vector<int>> groups(const std::string& token) const;
  /// The one of these that `rank` is in.
  std::vector<int> group_of(int rank, const std::string& token) const;
  /// The ranks that hold a copy of the tied table: of each pipeline group the first and the last.
  std::vector<std::vector<int>> embedding_groups() const;
  /// The ranks that hold the position table: of each pipeline group the first.
  std::vector<std::vector<int>> position_embedding_groups() const;

 private:
  std::array<int, kAxes> sizes_;    // by Axis
  std::array<int, kAxes> strides_;  // by Axis
  std::array<Axis, kAxes> order_;   // fastest first
};

}  // namespace mtl
