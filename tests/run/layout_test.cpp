// resolve_layout(): the whole layout of a rank, from a run's options.
#include <doctest/doctest.h>

#include "base/error.h"
#include "base/str.h"
#include "layout/stages.h"
#include "run/options.h"
#include "run/stage_checks.h"

using namespace mtl;

namespace {

ParallelOptions sixteen_ranks() {
  ParallelOptions options;
  options.world = 16;
  options.tensor = 2;
  options.pipeline = 2;
  return options;
}

}  // namespace

TEST_CASE("layout: sizes, order, and optimizer shards follow from the options") {
  ParallelOptions options = sixteen_ranks();
  Layout layout = resolve_layout(options, 8, 9);
  CHECK(layout.rank == 9);
  CHECK(layout.size(Axis::data) == 4);
  CHECK(layout.stage() == 1);  // the default order numbers stages last
  CHECK(layout.owners().empty());
  CHECK(!layout.expert_grid);
  options.tp_pp_dp_mapping = options.distributed_optimizer = true;
  layout = resolve_layout(options, 8, 9);
  CHECK(layout.stage() == 0);
  CHECK(layout.grid.group_of(9, Axis::pipeline) == std::vector<int>{9, 11});
  CHECK(layout.owners() == kReplicaAxes);
  options.tp_pp_dp_mapping = false;
  options.rank_order = "pp-tp-cp-ep-dp";
  CHECK(resolve_layout(options, 8, 9).grid.group_of(9, Axis::pipeline) == std::vector<int>{8, 9});
  options.world = 15;
  CHECK_THROWS_AS(resolve_layout(options, 8, 9), Error);
}

TEST_CASE("layout: recomputation by Megatron-LM's newer and older flags, the exchange of contexts") {
  using Granularity = Recompute::Granularity;
  using Method = Recompute::Method;
  struct Case {
    void (*give)(ParallelOptions&);
    Granularity granularity;
    Method method;
    std::int64_t layers;
  };
  const ParallelOptions plain = sixteen_ranks();
  const Recompute none = recompute_of(plain);
  const Case cases[] = {
      {[](ParallelOptions&) {}, none.granularity, none.method, 1},
      {[](ParallelOptions& o) { o.recompute_granularity = "full"; }, Granularity::full, none.method, 1},
      {[](ParallelOptions& o) { o.checkpoint_activations = true; }, Granularity::full, none.method, 1},
      {[](ParallelOptions& o) { o.checkpoint_method = "uniform"; }, Granularity::full, Method::uniform, 1},
      {[](ParallelOptions& o) { o.checkpoint_method = "block", o.recompute_num_layers = 3; }, Granularity::full,
       Method::block, 3},
      {[](ParallelOptions& o) { o.recompute_granularity = "full", o.recompute_method = "block"; }, Granularity::full,
       Method::block, 1},
      {[](ParallelOptions& o) { o.recompute_granularity = "selective"; }, Granularity::selective, none.method, 1},
      {[](ParallelOptions& o) { o.recompute_activations = true; }, Granularity::selective, none.method, 1},
  };
  for (const Case& each : cases) {
    const std::ptrdiff_t row = &each - cases;
    CAPTURE(row);
    ParallelOptions options = plain;
    each.give(options);
    const Recompute found = recompute_of(options);
    CHECK(found.granularity == each.granularity);
    CHECK(found.method == each.method);
    CHECK(found.num_layers == each.layers);
  }
  ParallelOptions options = plain;
  for (std::size_t at = 0; at < kContextExchangeNames.size(); ++at) {
    options.cp_comm_type = kContextExchangeNames[at];
    CHECK(resolve_layout(options, 8, 0).context_exchange == static_cast<ContextExchange>(at));
  }
  options.cp_comm_type = "none";
  CHECK_THROWS(resolve_layout(options, 8, 0));
  CHECK(options.chunks({}) == 1);
  options.layers_per_virtual_stage = 2;
  CHECK(options.chunks({}) == 1);
  CHECK(options.chunks(8) == 2);
  options.split.layer_counts = {2, 2, 2, 1, 1};
  CHECK(options.chunks(8) == 3);
}

TEST_CASE("layout: several chunks per stage interleave unless the options name a schedule") {
  ParallelOptions options = sixteen_ranks();
  CHECK(resolve_stages(options, {}).schedule == ScheduleKind::one_forward_one_backward);
  options.schedule = "gpipe";
  CHECK(resolve_stages(options, {}).schedule == ScheduleKind::gpipe);
  options.schedule.reset();
  options.layers_per_virtual_stage = 2;
  options.group = 6;
  Layout layout = resolve_stages(options, 12);
  CHECK(layout.schedule == ScheduleKind::interleaved);
  CHECK(layout.chunks == 3);
  CHECK(layout.group == 6);
  CHECK(split_layers(layout, 12)[1] == std::vector<LayerRange>{{2, 2}, {6, 2}, {10, 2}});
  options.virtual_stages = 4;
  CHECK(resolve_stages(options, {}).chunks == 4);
}

TEST_CASE("layout: a V schedule has two chunks per stage, from the first stage to the last and back") {
  ParallelOptions options = sixteen_ranks();
  options.schedule = "zb-v";
  const Layout layout = resolve_stages(options, 16);
  CHECK(layout.chunks == 2);
  CHECK(layout.places().loss_stage() == 0);
  CHECK(split_layers(layout, 16).front() == std::vector<LayerRange>{{0, 4}, {12, 4}});
  CHECK(split_layers(layout, 16).back() == std::vector<LayerRange>{{4, 4}, {8, 4}});

  const auto problems = [&] {
    std::vector<std::string> out;
    const bool is_valid = check_schedule_kind(
        options, 16, "--schedule",
        [&](const std::string& where, const std::string& what) { out.push_back(where + ": " + what); });
    CHECK(is_valid == out.empty());
    return join(out, "\n");
  };
  CHECK(problems().empty());
  options.group = 4;
  CHECK(problems() == "--microbatch-group-size-per-virtual-pipeline-stage: needs --schedule interleaved");
  options.group.reset();
  options.virtual_stages = 4;
  CHECK(problems() ==
        "--schedule zb-v: divides every stage into 2 chunks, not 4; leave out the flags for several chunks, or divide "
        "the "
        "layers into 4 parts");
}

TEST_CASE("layout: the experts' grid divides the context and data ranks") {
  ParallelOptions options = sixteen_ranks();
  options.context = 2;
  options.expert = 4;
  const Layout layout = resolve_layout(options, {}, 0);
  CHECK(layout.size(Axis::context) == 2);
  CHECK(layout.size(Axis::data) == 2);
  CHECK(layout.size(Axis::expert) == 1);
  REQUIRE(layout.expert_grid);
  CHECK(layout.expert_grid->size(Axis::expert) == 4);
  CHECK(layout.expert_grid->size(Axis::data) == 1);
  CHECK(layout.expert_grid->group_of(0, Axis::expert) == std::vector<int>{0, 2, 4, 6});
}

TEST_CASE("layout: balanced stages need as many layers as there are stages, but the first and the last need none") {
  ParallelOptions options = sixteen_ranks();
  options.pipeline = 4;
  options.pipeline_split = "balanced";
  std::string problem;
  const auto is_possible = [&](std::int64_t layers) {
    return check_stages(options, layers, false, [&](const std::string&, const std::string& what) { problem = what; });
  };
  CHECK(is_possible(2));
  CHECK_FALSE(is_possible(1));
  CHECK(problem == "needs at least 2 layers for 4 stages, but the model has 1; use fewer stages or chunks");
  options.virtual_stages = 2;
  CHECK(is_possible(6));
  CHECK_FALSE(is_possible(5));
  CHECK(problem == "needs at least 6 layers for 4 stages of 2 chunks, but the model has 5; use fewer stages or chunks");
}
