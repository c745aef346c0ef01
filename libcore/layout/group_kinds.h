// All groups of a layout by kind, with what they are for and what they exchange.
#pragma once

#include <string>
#include <vector>

#include "layout/layout.h"

namespace mtl {

/// All groups of one kind.
struct GroupKind {
  std::string name;     // "tp", "dp-cp", "embedding"
  std::string purpose;  // "tensor parallel: share every matrix"
  std::string traffic;  // "activations, all-reduced, each layer and micro-batch"
  std::vector<std::vector<int>> groups;
  int crossing = 0;      // number of groups that span nodes
  bool repeats = false;  // an earlier kind has the same groups

  bool is_idle() const { return groups.front().size() < 2; }  // groups of one rank; all groups are equally large
};

/// Returns all kinds of groups that Megatron-LM makes: those of experts only with an expert grid. Consecutive ranks
/// share a node of `node_size` ranks.
std::vector<GroupKind> group_kinds(const Layout& layout, int node_size);
/// Returns the kinds whose groups have at least two ranks. Omits kinds with the same groups as an earlier kind.
std::vector<GroupKind> shown_kinds(std::vector<GroupKind> kinds);
/// Returns the names of all kinds whose groups have one rank. Omits kinds with the same groups as an earlier kind.
std::vector<std::string> idle_kinds(const std::vector<GroupKind>& kinds);

}  // namespace mtl
