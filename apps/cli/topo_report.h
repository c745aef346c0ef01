// A layout of ranks: placement, groups that communicate, parts of the model. The drawings and files of mtl-topo show
// it.
//
// The picture of a layout is a grid: a row for each pipeline stage, a column for each other place (tensor within
// context within data), so that a replica of the model is a run of columns. Nodes are boxes around ranks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/topo_options.h"
#include "engine/rank_plans.h"
#include "layout/rank_list.h"
#include "layout/schedule_times.h"

namespace mtl {

/// All groups of one kind.
struct GroupKind {
  std::string name;     // "tp", "dp-cp", "embedding"
  std::string purpose;  // "share each layer"
  std::string traffic;  // "activations: 4 all-reduces per layer and micro-batch"
  std::vector<std::vector<int>> groups;
  int crossing = 0;      // groups with ranks on several nodes
  bool repeats = false;  // an earlier kind has the same groups

  bool is_idle() const { return groups.front().size() < 2; }  // each rank is alone; all groups have one size
};

struct TopoSchedule {
  Layout layout;
  int micro_batches = 1;
  std::vector<std::vector<Action>> stages;
  ScheduleTimes times;  // in forwards of a chunk; a backward is two
};

/// Memory and work of the ranks in a training step.
struct TopoMemory {
  TrainOptions run;
  std::string unsupported_reason;  // why mtl-train cannot run the layout; then there are no plans
  std::vector<RankPlan> plans;
};

struct TopoReport {
  TopoReport(const TopoOptions& options);

  int node_of(int rank) const { return rank / node_size; }
  int local_rank(int rank) const { return rank % node_size; }
  /// "4 ranks = 2 tensor x 2 pipeline, on 2 nodes of 2".
  std::string size() const;
  /// "node 0", or the host's name.
  std::string node_name(int node) const;
  /// Kinds with groups of at least two ranks, without repeats.
  std::vector<GroupKind> shown_kinds() const;
  /// Names of the kinds with groups of one rank, without repeats.
  std::vector<std::string> idle_kinds() const;
  int rank_in_grid(int stage, int column) const;
  int columns() const { return world / stages; }
  int columns_of_replica() const { return grid.size(Axis::tensor) * grid.size(Axis::context); }
  /// "layers 0-11, embedding": what a stage holds.
  std::string holdings(int stage) const;
  /// First row and number of rows of the vocabulary that a tensor rank holds, padding included.
  LayerRange vocab_rows(int tensor_rank) const;
  /// "Vocabulary: 50,257 tokens, padded to 50,432 = 2 x 25,216 rows".
  std::string vocab_summary() const;
  std::string schedule_name() const;
  /// "Schedule: interleaved, 8 micro-batches, 2 chunks per stage".
  std::string schedule_title() const;

  RankGrid grid;
  int world, stages, node_size, nodes;
  std::string order;
  std::optional<RankGrid> experts;  // when there are any
  std::vector<std::string> hosts;
  int cores_per_rank;
  std::vector<GroupKind> kinds;
  std::optional<std::vector<std::vector<LayerRange>>> layers;  // [stage][chunk]
  std::int64_t vocab_size = 0, padded_vocab = 0;               // 0 when not given
  std::optional<std::int64_t> micro_batches;                   // of a step, when that is given
  std::optional<TopoSchedule> schedule;                        // absent, too, when its chart would be too large
  std::optional<TopoMemory> memory;                            // when the model has sizes
};

/// All stages; if there are more than `most`, the first three, -1, and the last two.
std::vector<int> shown_stages(const TopoReport& report, int most);

/// A node's ranks in a part of the picture: rows and columns are indexes into the shown ones, ends included.
struct NodeBox {
  int node;
  std::size_t first_row, last_row, first_column, last_column;
};

/// The boxes of nodes around the shown stages and columns (-1: left out, belongs to no node). Rows in which the same
/// nodes have the same columns share their boxes.
std::vector<NodeBox> node_boxes(const TopoReport& report, const std::vector<int>& stages,
                                const std::vector<int>& columns);

}  // namespace mtl
