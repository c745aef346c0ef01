// Lower bounds of a layout's step time and memory, from the units of the model.
//
// A unit's passes are traced and replayed alone on its tensor-parallel and context-parallel ranks, once for all layouts
// that give it the same work. A step then takes at least
//   - as long as a stage computes its micro-batches and updates its part of the parameters,
//   - as long as the first micro-batch takes to come to a stage, the stage for all forwards and backwards, and the last
//     gradient from there to the first stage,
//   - as long as its gradients and parameters are on the links between replicas.
// A rank needs at least the memory of its parameters with their states, of its layers' activations in as many
// micro-batches as the schedule keeps there at least, and of its batches.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "engine/memory_plan.h"
#include "engine/pipeline_plan.h"
#include "planner/plan_devices.h"

namespace mtl {

/// Bounds are multiplied by this, because sums in another order than the simulation's may be larger by rounding.
constexpr double kRounding = 1 - 1e-9;

class StepBounds {
 public:
  explicit StepBounds(const PlanRequest& request) : request_(request) {}

  /// Returns a number of bytes of device memory that a rank needs at least.
  double least_bytes(const LayoutChoice& choice);
  /// Returns a number of bytes of host memory that a rank on a GPU needs at least.
  double least_host_bytes(const LayoutChoice& choice);
  /// Learns from the plans of a choice's largest ranks what memory the ranks of choices need whose ZeRO stage is
  /// another, or that keep the optimizer's state elsewhere.
  void learn(const LayoutChoice& choice, const std::vector<MemoryPlan>& plans);
  /// Returns milliseconds that a step takes at least.
  double least_ms(const LayoutChoice& choice);
  /// Returns the place of a group of the choice's grid.
  const GroupPlace& place_of(const LayoutChoice& choice, const std::string& group);
  /// Returns true if the layers are split by their work, and evenly is the same.
  bool repeats_even(const LayoutChoice& choice);

 private:
  /// Milliseconds of a micro-batch. The first overwrites gradients, the later ones add to them, but not where gradients
  /// are in the ring (param_memory.h), which each micro-batch overwrites.
  struct PassMs {
    double first = 0, later = 0;

    double least() const { return std::min(first, later); }
    double of(std::int64_t micro_batches, bool in_ring) const {
      return in_ring ? double(micro_batches) * least() : first + double(micro_batches - 1) * later;
    }
    void add(const PassMs& other, double times) {
      first += times * other.first;
      later += times * other.later;
    }
  };
  /// Of one unit, or of what a place holds.
  struct UnitCost {
    PassMs forward, backward, weight;
    double elements = 0;  // of the parameters on a rank
    double layers = 0;

    void add(const UnitCost& other, double times = 1) {
      forward.add(other.forward, times);
      backward.add(other.backward, times);
      weight.add(other.weight, times);
      elements += times * other.elements;
      layers += times * other.layers;
    }
  };
  struct ModelCosts {
    UnitCost embedding, head;
    std::array<UnitCost, 2> layer;  // without and with a window
    double table_elements = 0;      // of the token embedding on a rank
    double largest_elements = 0;    // of the largest parameter on a rank
    double update_bytes = 0;        // that the update reads and writes, by element
    double slot_bytes = 0;          // that a layer keeps for backward
    double message_bytes = 0;       // between stages
    double batch_bytes = 0;         // of a micro-batch of tokens, in all sets
    PartFlops flops;
  };
  /// The memory of a rank for activations and messages, and the number of its parameters.
  struct RankMemory {
    double bytes, elements;
  };
  /// What the host memory for a rank's parameters and their states depends on.
  using HostKey = std::tuple<int, int, int, ScheduleKind, std::vector<std::int64_t>, bool, bool>;

  HostKey host_key_of(const LayoutChoice& choice);
  double micro_batches_kept(const LayoutChoice& choice, int stage, int chunk);
  const ModelCosts& costs_of(const LayoutChoice& choice);
  ModelCosts measure(const LayoutChoice& alone) const;
  const std::vector<std::int64_t>& counts_of(const LayoutChoice& choice);
  /// Returns what the stages hold, by position.
  std::vector<UnitCost> place_costs(const LayoutChoice& choice);
  std::int64_t micro_batches(const LayoutChoice& choice) const;
  double traffic_ms(const LayoutChoice& choice, const std::vector<double>& elements);

  const PlanRequest& request_;
  std::map<std::tuple<int, int, int, std::string>, GroupPlace> places_;  // by sizes of the grid and name
  std::map<LayoutChoice, ModelCosts> costs_;                             // by work_of()
  std::map<std::tuple<int, int, bool, bool, LayoutChoice>, std::vector<std::int64_t>> counts_;
  std::map<LayoutChoice, std::vector<RankMemory>> learned_;  // by activations_of()
  std::map<HostKey, double> learned_host_;                   // bytes, without batches and activations
  double host_of_all_ = 0;                                   // of these, what every layout needs
  /// By stages, chunks and micro-batches of interleaved schedules: how many are kept, by stage and chunk.
  std::map<std::tuple<int, int, std::int64_t>, std::vector<std::vector<int>>> interleaved_;
};

}  // namespace mtl
