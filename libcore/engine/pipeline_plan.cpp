#include "engine/pipeline_plan.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/str.h"
#include "engine/place_durations.h"
#include "layout/layer_layout.h"

namespace mtl {

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

double total_of(const ActionDurations& durations) { return durations.forward + durations.backward + durations.weight; }

}  // namespace

PartFlops part_flops(const GptConfig& config, const DropoutOptions& dropout, RunShape shape) {
  // Every part has a place of its own.
  Layout& layout = shape.layout;
  layout.chunks = static_cast<int>((config.num_layers + 2 + layout.stages() - 1) / layout.stages());
  layout.split = {};
  layout.split.layer_counts.assign(static_cast<std::size_t>(layout.places().count()), 0);
  std::fill_n(layout.split.layer_counts.begin() + 1, config.num_layers, 1);
  const std::vector<ActionDurations> places = place_durations(config, dropout, shape);
  PartFlops out{.embedding = total_of(places.front()), .head = total_of(places.back()), .layers = {}};
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) out.layers.push_back(total_of(places[layer + 1]));
  return out;
}

namespace {

/// Distributes layers over places.
class Balance {
 public:
  Balance(const PartFlops& parts, const Places& pipeline) : pipeline_(pipeline), places_(pipeline.count()), sums_{0} {
    for (double layer : parts.layers) sums_.push_back(sums_.back() + layer);
    fixed_.assign(static_cast<std::size_t>(places_), 0);
    fixed_.front() += parts.embedding;
    fixed_.back() += parts.head;
  }

  std::vector<std::int64_t> counts() const {
    double low = 0, high = sums_.back() + fixed_.front() + fixed_.back();
    for (int i = 0; i < 60; ++i) {
      const double middle = (low + high) / 2;
      (is_possible(middle) ? high : low) = middle;
    }
    const Counts equal_places = most_equal(high);
    return pipeline_.chunks == 1 ? equal_places : with_equal_stages(equal_places);
  }

 private:
  using Counts = std::vector<std::int64_t>;

  std::int64_t layers() const { return std::ssize(sums_) - 1; }
  std::int64_t least(int place) const { return place == 0 || place == places_ - 1 ? 0 : 1; }
  double flops(int place, std::int64_t first, std::int64_t end) const {
    return fixed_[place] + sums_[end] - sums_[first];
  }

  /// Returns true if no place needs more than `most`.
  bool is_possible(double most) const {
    std::int64_t next = 0;
    for (int place = 0; place < places_; ++place) {
      std::int64_t end = next + least(place);
      if (end > layers() || flops(place, next, end) > most) return false;
      while (end < layers() && flops(place, next, end + 1) <= most) ++end;
      next = end;
    }
    return next == layers();
  }

  /// Returns the counts with the least sum of squares if no place needs more than `most`.
  Counts most_equal(double most) const {
    const auto ends = static_cast<std::size_t>(layers() + 1);
    std::vector<double> best(ends, kInfinite);  // by the number of layers in the places so far
    best[0] = 0;
    std::vector<std::vector<std::int64_t>> taken;  // by place and number of layers
    for (int place = 0; place < places_; ++place) {
      std::vector<double> next(ends, kInfinite);
      taken.emplace_back(ends, 0);
      for (std::int64_t first = 0; first <= layers(); ++first) {
        for (std::int64_t end = first + least(place); end <= layers() && flops(place, first, end) <= most; ++end) {
          const double sum = best[first] + flops(place, first, end) * flops(place, first, end);
          if (sum >= next[end]) continue;
          next[end] = sum;
          taken.back()[end] = end - first;
        }
      }
      best = std::move(next);
    }
    Counts out;
    std::int64_t left = layers();
    for (int place = places_; place-- > 0;) {
      out.push_back(taken[place][left]);
      left -= out.back();
    }
    std::reverse(out.begin(), out.end());
    return out;
  }

  /// Returns the FLOPs of the stage with the most, the sum of the stages' squares, and the sum of the places' squares.
  std::array<double, 3> cost(const Counts& counts) const {
    std::vector<double> stages(static_cast<std::size_t>(pipeline_.stages), 0);
    std::array<double, 3> out = {0, 0, 0};
    std::int64_t next = 0;
    for (int place = 0; place < places_; ++place) {
      const double of_place = flops(place, next, next + counts[place]);
      next += counts[place];
      stages[pipeline_.at(place).stage] += of_place;
      out[2] += of_place * of_place;
    }
    for (double stage : stages) out = {std::max(out[0], stage), out[1] + stage * stage, out[2]};
    return out;
  }

  /// Moves single layers between places while that reduces the cost, each time by as much as possible.
  Counts with_equal_stages(Counts counts) const {
    for (std::array<double, 3> least_cost = cost(counts);;) {
      Counts best;
      for (int from = 0; from < places_; ++from) {
        if (counts[from] == least(from)) continue;
        for (int to = 0; to < places_; ++to) {
          Counts moved = counts;
          --moved[from];
          ++moved[to];
          const std::array<double, 3> of_moved = cost(moved);
          if (of_moved >= least_cost) continue;
          least_cost = of_moved;
          best = std::move(moved);
        }
      }
      if (best.empty()) return counts;
      counts = std::move(best);
    }
  }

  Places pipeline_;
  int places_;
  std::vector<double> sums_;   // FLOPs of the first layers, by their number
  std::vector<double> fixed_;  // by place, besides layers
};

}  // namespace

std::vector<std::int64_t> balanced_layer_counts(const PartFlops& parts, const Places& places) {
  require(std::ssize(parts.layers) >= places.count() - 2, "too few layers for ", places.count(), " places");
  return Balance(parts, places).counts();
}

std::vector<std::int64_t> balanced_layer_counts(const GptConfig& config, const DropoutOptions& dropout,
                                                const RunShape& shape) {
  return balanced_layer_counts(part_flops(config, dropout, shape), shape.layout.places());
}

bool PipelinePlan::head_is_too_large() const {
  return head_flops * double(flops.size()) > std::accumulate(flops.begin(), flops.end(), 0.0);
}

std::optional<PipelinePlan> plan_pipeline(const GptConfig& config, const DropoutOptions& dropout,
                                          const RunShape& shape) {
  const Layout& layout = shape.layout;
  if (layout.stages() == 1) return std::nullopt;
  const std::vector<ActionDurations> durations = place_durations(config, dropout, shape);
  const Places places = layout.places();
  PipelinePlan plan{.schedule = std::string(schedule_name(layout.schedule)),
                    .places = places,
                    .micro_batches = shape.micro_batches,
                    .layout = layer_layout_text(layer_counts(layout, config.num_layers)),
                    .layers = split_layers(layout, config.num_layers),
                    .flops = std::vector<double>(static_cast<std::size_t>(places.stages), 0)};
  for (int position = 0; position < places.count(); ++position)
    plan.flops[places.at(position).stage] += total_of(durations[position]);
  if (config.num_layers >= places.stages - 2) plan.head_flops = part_flops(config, dropout, shape).head;
  const double work = std::accumulate(plan.flops.begin(), plan.flops.end(), 0.0) * double(shape.micro_batches),
               total =
                   schedule_times(pipeline_schedule(layout, static_cast<int>(shape.micro_batches)), places, durations)
                       .total;
  plan.busy = work / (places.stages * total);
  return plan;
}

std::string describe_pipeline(const PipelinePlan& plan) {
  const double all = std::accumulate(plan.flops.begin(), plan.flops.end(), 0.0);
  std::vector<std::string> holdings;
  int width = 28;
  for (std::size_t stage = 0; stage < plan.flops.size(); ++stage) {
    std::vector<std::string> holds;
    if (stage == 0) holds.emplace_back("embedding");
    for (const LayerRange& range : plan.layers[stage]) {
      if (range.count > 0) holds.push_back(cat(range.count == 1 ? "layer " : "layers ", range.text()));
    }
    if (static_cast<int>(stage) == plan.places.loss_stage()) holds.emplace_back("output layer");
    holdings.push_back(join(holds, ", "));
    width = std::max(width, static_cast<int>(holdings.back().size()));
  }
  std::string out = cat("Stages, layout ", plan.layout, "\n");
  out += format("  %-5s  %-*s  %12s  %6s\n", "stage", width, "holds", "FLOPs", "share");
  for (std::size_t stage = 0; stage < plan.flops.size(); ++stage)
    out += format("  %-5zu  %-*s  %12.4e  %5.1f%%\n", stage, width, holdings[stage].c_str(), plan.flops[stage],
                  100 * plan.flops[stage] / all);
  out += format("  %s: stages are busy for %.1f%% of a step of %s, apart from messages\n", plan.schedule.c_str(),
                100 * plan.busy,
                cat(plan.micro_batches, plan.micro_batches == 1 ? " micro-batch" : " micro-batches").c_str());
  if (plan.head_is_too_large())
    out += format(
        "  the output layer alone is %.1f%% of the work, more than a stage's share of %.1f%%, so the others "
        "wait for its stage; --tensor-model-parallel-size divides it\n",
        100 * plan.head_flops / all, 100.0 / double(plan.flops.size()));
  return out;
}

Json pipeline_json(const PipelinePlan& plan) {
  return Json::object({{"schedule", plan.schedule},
                       {"micro_batches", plan.micro_batches},
                       {"layout", plan.layout},
                       {"flops_per_micro_batch", Json::Array(plan.flops.begin(), plan.flops.end())},
                       {"output_layer_flops_per_micro_batch", plan.head_flops},
                       {"busy", plan.busy}});
}

}  // namespace mtl
