// The bounds on memory and time by which the search for layouts leaves candidates out: none is above what it bounds,
// and they are close to it.
#include "planner/step_bound.h"

#include <doctest/doctest.h>

#include <cmath>

#include "base/str.h"
#include "layout/schedule.h"
#include "planner/layout_report.h"
#include "tests/planner/plan_fixtures.h"

using namespace mtl;
using namespace mtl::test;

namespace {

/// Tells `bounds` the plans of a choice.
void learn(StepBounds& bounds, const LayoutChoice& choice, const PlanRequest& request) {
  const TrainOptions options = choice.options(request.run);
  const RunShape shape = run_shape(options, request.config, 0);
  const auto schedule = pipeline_schedule(shape.layout, static_cast<int>(shape.micro_batches));
  bounds.learn(choice, plan_largest_ranks(request.config, run_dropout(options), shape, schedule));
}

/// How close bounds are to what they bound.
class Tightness {
 public:
  void add(double bound, double value) {
    sum_ += bound / value;
    ++count_;
  }
  double mean() const { return sum_ / count_; }

 private:
  double sum_ = 0, count_ = 0;
};

}  // namespace

TEST_CASE("bounds: no candidate of random requests needs less memory or takes less time") {
  Tightness memory, host, time;
  for (const TriedRequest& tried : tried_requests()) {
    const PlanRequest& request = tried.request;
    StepBounds bounds(request);
    for (std::size_t i = 0; i < tried.choices.size(); ++i) {
      CAPTURE(i);
      const LayoutChoice& choice = tried.choices[i];
      const RunBytes& bytes = tried.bytes[i];
      CHECK(bounds.least_bytes(choice) <= double(bytes.scarce));
      CHECK(bounds.least_host_bytes(choice) <= double(bytes.host));
      if (bytes.host > 0) host.add(bounds.least_host_bytes(choice), double(bytes.host));
      if (choice.savings == 0) learn(bounds, choice, request);
    }
    for (std::size_t i = 0; i < tried.choices.size(); ++i) {
      CAPTURE(i);
      const double least = bounds.least_bytes(tried.choices[i]);
      CHECK(least <= double(tried.bytes[i].scarce));
      memory.add(least, double(tried.bytes[i].scarce));
    }
    for (const auto& [choice, ms] : tried.ms) {
      const std::size_t i = choice;
      CAPTURE(i);
      const double least = bounds.least_ms(tried.choices[i]);
      CHECK(least <= ms);
      time.add(least, ms);
    }
  }
  // The closer the bounds, the less is planned. With CUDA, operators need more memory that no bound knows.
  CHECK(memory.mean() > 0.45);
  CHECK(host.mean() > 0.62);
  CHECK(time.mean() > 0.76);
}

TEST_CASE("bounds: they hold where links between nodes are the faster ones") {
  PlanRequest request = request_for(6, 80);
  request.config.num_layers = 3;
  request.run.batch.global_batch_size = 6;
  request.machine.links = {.inside_gbs = 1, .between_gbs = 50, .inside_us = 1000, .between_us = 0};
  Tightness time;
  for (int node_size : {1, 2, 3}) {
    request.node_size = node_size;
    StepBounds bounds(request);
    double best = INFINITY;
    for (const LayoutChoice& choice : layout_choices(request)) {
      if (choice.savings != 0) continue;
      CAPTURE(join(candidate_flags({.options = choice.options(request.run)}), " "));
      const double ms = ms_of(choice.options(request.run), request);
      CHECK(bounds.least_ms(choice) <= ms);
      time.add(bounds.least_ms(choice), ms);
      best = std::min(best, ms);
    }
    CHECK(plan_layouts(request, 1).best[0].time->ms == best);
  }
  CHECK(time.mean() > 0.804);
}

TEST_CASE("bounds: they hold where stages are cheaper than a model without replicas, on one node, shows") {
  struct Row {
    const char* why;
    std::int64_t world, layers, hidden;
    int node_size;
    double gbs;
    double least;             // the mean bound, as a share of the time
    std::int64_t bucket = 0;  // elements; 0: the default
    bool is_tied = true;
    std::int64_t window = 0;  // of all layers; 0: none
  };
  for (const Row& row : std::initializer_list<Row>{
           {"a tensor-parallel group on two nodes overlaps copies, which cores make within a node", 4, 3, 256, 3, 50,
            0.780},
           {"gradients in the ring are overwritten by each micro-batch", 6, 4, 1024, 6, 1000, 0.858},
           {"the ring holds parameters from one pass to the next", 6, 2, 1024, 6, 3, 0.780},
           {"the ring holds groups of several layers", 4, 6, 256, 4, 0.3, 0.770, 1'000'000, false},
           {"layers in the group of a tied embedding are reduced once a step", 4, 6, 256, 4, 3, 0.737, 1'000'000},
           {"a layer with a window is the largest unit", 6, 2, 1024, 6, 3, 0.780, 0, true, 64},
       }) {
    PlanRequest request = request_for(row.world, 80);
    request.config =
        gpt_of_size({.vocab = 100, .layers = row.layers, .hidden = row.hidden, .heads = 4, .positions = 512});
    request.config.tied_embeddings = row.is_tied;
    request.config.sliding_window = row.window;
    request.config.first_window_layer = 0;
    request.run.batch.global_batch_size = 12;
    request.run.data.seq_length = 512;
    if (row.bucket > 0) request.run.parallel.bucket_elements = row.bucket;
    request.machine.links = {.inside_gbs = row.gbs, .between_gbs = row.gbs, .inside_us = 0, .between_us = 0};
    request.machine.links.by_core = row.node_size < row.world;
    request.node_size = row.node_size;
    StepBounds bounds(request);
    Tightness time;
    for (const LayoutChoice& choice : layout_choices(request)) {
      if (choice.savings != 0) continue;
      CAPTURE(std::string(row.why));
      CAPTURE(join(candidate_flags({.options = choice.options(request.run)}), " "));
      const double ms = ms_of(choice.options(request.run), request);
      CHECK(bounds.least_ms(choice) <= ms);
      time.add(bounds.least_ms(choice), ms);
    }
    CHECK(time.mean() > row.least);
  }
}

TEST_CASE("bounds: they are close to the step's time where only FLOPs, only bytes or only links take time") {
  Machine bytes = links_machine();
  bytes.links = kFreeLinks;
  bytes.device.dram_gbs = 1;
  struct Row {
    const char* what;
    Machine machine;
    bool is_tied;
    double one_stage, in_ring, several;  // the least bound as a share of the time; in_ring: of ZeRO stages 2 and 3
    double mean;
  };
  for (const Row& row : {Row{"FLOPs", arithmetic_machine(), true, 1, 1, 1, 0.962},
                         {"bytes", bytes, true, 0.9996, 0.707, 0.629, 0.868},
                         {"links", links_machine(), true, 0.9249, 0.775, 0.012, 0.566},
                         {"links, untied", links_machine(), false, 0.926, 0.811, 0.018, 0.643}}) {
    PlanRequest request = request_for(4, 80);
    request.machine = row.machine;
    request.config.tied_embeddings = row.is_tied;
    StepBounds bounds(request);
    Tightness all;
    for (const LayoutChoice& choice : layout_choices(request)) {
      if (choice.savings > 3) continue;  // with offloading
      CAPTURE(std::string(row.what));
      CAPTURE(join(candidate_flags({.options = choice.options(request.run)}), " "));
      const double least = bounds.least_ms(choice), ms = ms_of(choice.options(request.run), request);
      CHECK(least <= ms);
      all.add(least, ms);
      if (defers_weights(choice.schedule)) continue;
      const double share = choice.pipeline > 1 ? row.several : choice.zero < 2 ? row.one_stage : row.in_ring;
      CHECK(least >= share * ms * (1 - 1e-6));
    }
    CAPTURE(std::string(row.what));
    CHECK(all.mean() > row.mean);
  }
}

TEST_CASE("bounds: they hold for models so small that the work beside their parameters counts") {
  std::mt19937 random(11);
  Tightness time;
  for (int round = 0; round < 6; ++round) {
    const auto one_of = [&](std::initializer_list<std::int64_t> values) {
      return *(values.begin() + random() % values.size());
    };
    PlanRequest request = request_for(one_of({1, 2, 4}), 80);
    const GptSizes sizes{.vocab = one_of({100, 1000}),
                         .layers = one_of({4, 8, 24}),
                         .hidden = one_of({16, 64, 128}),
                         .heads = 4,
                         .positions = 64};
    request.config = round % 2 == 0 ? gpt_of_size(sizes) : llama_of_size(sizes);
    request.machine = *find_machine(round % 3 == 0 ? "H100" : "A100");
    request.run.data.seq_length = 64;
    request.run.batch.global_batch_size = 8;
    request.run.hidden_dropout = request.run.attention_dropout = 0;
    StepBounds bounds(request);
    for (const LayoutChoice& choice : layout_choices(request)) {
      CAPTURE(round);
      CAPTURE(join(candidate_flags({.options = choice.options(request.run)}), " "));
      const double ms = ms_of(choice.options(request.run), request);
      CHECK(bounds.least_ms(choice) <= ms);
      time.add(bounds.least_ms(choice), ms);
    }
  }
  CHECK(time.mean() > 0.503);
}
