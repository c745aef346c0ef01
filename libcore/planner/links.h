// How long operations between ranks take, by the links that their group uses.
#pragma once

#include <string>

#include "base/setting.h"
#include "comm/operation_label.h"
#include "layout/layout.h"

namespace mtl {

/// What a plan takes as rates and sizes (GB/s, TFLOP/s, GB) and as latencies (us): with others, times overflow.
inline constexpr Bounds kRateBounds{.least = 1e-6, .most = 1e9}, kLatencyBounds{.least = 0, .most = 1e9};

/// Rates of one rank's links in one direction, and the time until the first byte arrives.
struct Links {
  double inside_gbs = 450, between_gbs = 50;  // GB/s inside a node, and between nodes
  double inside_us = 5, between_us = 10;
  double host_gbs = 64;  // between a device and its host's memory
  /// Ranks copy what they send inside a node with the core that computes, as ranks on CPUs do, so it overlaps nothing.
  bool by_core = false;
  double disk_gbs = 0;  // a rank's share of the disk with its optimizer's state, read and written at once; 0: no disk
};

/// Where a group's ranks are.
struct GroupPlace {
  int size = 1;      // ranks
  int nodes = 1;     // that have a rank of the group
  int per_node = 1;  // ranks of the group on the node that has the fewest

  bool crosses_nodes() const { return nodes > 1; }
};

/// Returns the place of the groups with this name (comm/groups.h), if consecutive ranks share nodes of `node_size`. Of
/// groups that lie differently, takes the slowest.
GroupPlace place_of_group(const Layout& layout, const std::string& name, int node_size);

/// Returns the milliseconds of an operation in which every rank sends `bytes`. The parts pass around a ring of all
/// ranks, in an all-reduce twice, and pay the latency of every link on it. Between nodes, all ranks of the group on a
/// node send at the same time, over a link each.
double operation_ms(OperationKind kind, double bytes, const GroupPlace& place, const Links& links);
/// Returns the milliseconds of a message between two ranks.
double message_ms(double bytes, bool crosses_nodes, const Links& links);

}  // namespace mtl
