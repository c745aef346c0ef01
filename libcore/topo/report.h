// A rank layout, as mtl-topo draws and writes it: where ranks are placed, which groups communicate, and which part of
// the model each rank has.
//
// The picture is a grid with a row for each pipeline stage and a column for each combination of the other coordinates
// (tensor varies fastest, then context, then data), so that a model replica is a range of columns. Nodes are boxes
// around ranks.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "base/str.h"
#include "engine/pipeline_plan.h"
#include "engine/rank_plans.h"
#include "layout/group_kinds.h"
#include "layout/rank_list.h"
#include "layout/schedule_times.h"
#include "topo/options.h"

namespace mtl {

/// The axes of Layout::grid, in the order of tables and files. That of the experts follows, if they have a grid.
inline constexpr std::array kShownAxes = {Axis::tensor, Axis::context, Axis::data, Axis::pipeline};

struct TopoSchedule {
  int micro_batches = 1;
  std::vector<std::vector<Action>> stages;
  ScheduleTimes times;  // in units of a chunk's forward pass (the average, if durations are known)
};

/// Ranks' memory and work in a training step.
struct TopoMemory {
  TrainOptions run;
  std::string unsupported_reason;        // why mtl-train cannot run the layout; empty if it can
  std::vector<RankPlan> plans;           // empty with an unsupported_reason
  std::optional<PipelinePlan> pipeline;  // of several stages that mtl-train can run
};

struct TopoReport {
  TopoReport(const TopoOptions& options);

  int node_of(int rank) const { return rank / node_size; }
  int local_rank(int rank) const { return rank % node_size; }
  /// Returns "4 ranks = 2 tensor x 2 pipeline, on 2 nodes of 2".
  std::string size() const;
  /// Returns "node 0", or the host's name.
  std::string node_name(int node) const;
  int rank_in_grid(int stage, int column) const;
  int columns() const { return world / stages; }
  int columns_of_replica() const { return layout.grid.size({Axis::tensor, Axis::context}); }
  /// Returns "sub_model_2", or "model" for a single stage.
  std::string stage_name(int stage) const { return stages == 1 ? "model" : cat("sub_model_", stage); }
  /// Returns what a stage contains: "embedding, layers 0-11".
  std::string holdings(int stage) const;
  /// Returns true if the stage has rows of the vocabulary, and their number is known.
  bool holds_vocabulary(int stage) const;
  /// Returns a tensor rank's first vocabulary row and number of rows, including padding.
  LayerRange vocab_rows(int tensor_rank) const;
  /// Returns "Vocabulary: 50,257 tokens, padded to 50,432 = 2 x 25,216 rows".
  std::string vocab_summary() const;
  /// Returns "Schedule: interleaved, 8 micro-batches, 2 chunks per stage".
  std::string schedule_title() const;

  Layout layout;  // of rank 0
  int world, stages, node_size, nodes;
  std::string order;
  std::vector<std::string> hosts;
  int cores_per_rank;
  std::vector<GroupKind> kinds;
  std::optional<std::vector<std::vector<LayerRange>>> layers;  // [stage][chunk]
  std::int64_t vocab_size = 0, padded_vocab = 0;               // 0: not given
  std::optional<std::int64_t> micro_batches;                   // per step; empty: not given
  std::optional<TopoSchedule> schedule;  // empty without micro_batches or if the chart is too large
  std::optional<TopoMemory> memory;      // empty unless TopoOptions::wants_memory()
};

/// Returns all stages, or the first three, -1 and the last two if there are more than `most`.
std::vector<int> shown_stages(const TopoReport& report, int most);

/// A node's ranks within part of the picture. Rows and columns are indices into those shown; both bounds are inclusive.
struct NodeBox {
  int node;
  std::size_t first_row, last_row, first_column, last_column;
};

/// A part of the picture: some columns of some stages. -1 stands for omitted ranks, which belong to no box.
struct GridPart {
  GridPart(const TopoReport& of, std::vector<int> shown_stages, std::vector<int> shown_columns);

  /// True if columns i and i + 1 are of the same replica, or of the same tensor-parallel group.
  bool same_replica(std::size_t i) const { return same_group(i, report.columns_of_replica()); }
  bool same_tensor_group(std::size_t i) const {
    return same_replica(i) && same_group(i, report.layout.grid.size(Axis::tensor));
  }
  /// True if column i is the first of its replica.
  bool begins_replica(std::size_t i) const {
    return columns[i] >= 0 && (i == 0 || (columns[i - 1] >= 0 && !same_replica(i - 1)));
  }
  bool node_ends_after(std::size_t i) const {
    return std::ranges::find(boxes, i, &NodeBox::last_column) != boxes.end();
  }

  const TopoReport& report;
  std::vector<int> stages, columns;
  std::vector<NodeBox> boxes;  // one per node; consecutive rows whose columns belong to the same nodes share a box

 private:
  bool same_group(std::size_t i, int size) const {
    return i + 1 < columns.size() && columns[i] >= 0 && columns[i + 1] >= 0 &&
           columns[i] / size == columns[i + 1] / size;
  }
};
/// Returns the integers from `begin` to `end` - 1.
std::vector<int> column_range(int begin, int end);

}  // namespace mtl
