#include "topo/options.h"

#include <algorithm>

#include "base/str.h"

namespace mtl {

std::int64_t TopoOptions::node_size() const {
  return run.parallel.gpus_per_node.value_or(std::min<std::int64_t>(run.parallel.world, 8));
}

std::vector<std::string> TopoOptions::host_names() const {
  return hosts ? split(*hosts, ',') : std::vector<std::string>();
}

std::int64_t TopoOptions::chunks() const { return run.parallel.chunks(run.architecture.num_layers); }

Layout TopoOptions::layout() const { return resolve_layout(run.parallel, run.architecture.num_layers, 0); }

bool TopoOptions::wants_memory() const {
  const ArchitectureOptions& model = run.architecture;
  return model.hidden_size || model.num_attention_heads || model.ffn_hidden_size || model.max_position_embeddings ||
         run.data.seq_length != 0;
}

std::optional<std::int64_t> TopoOptions::step_micro_batches() const {
  if (micro_batches || !run.batch.global_batch_size) return micro_batches;
  return run.micro_batches();
}

bool TopoOptions::fits_chart() const {
  return run.parallel.pipeline <= kMostChartStages &&
         run.parallel.pipeline * step_micro_batches().value_or(1) * chunks() <= kMostChartForwards;
}

std::string TopoOptions::unsupported_reason() const {
  const ParallelOptions& parallel = run.parallel;
  if (parallel.expert > 1) return "mtl-train does not support experts yet";
  // With --rank-order, an order is supported if it numbers the ranks as one of mtl-train's two orders does.
  const RankGrid drawn = rank_grid(parallel);
  for (bool tp_pp_dp_mapping : {false, true}) {
    ParallelOptions trained = parallel;
    trained.rank_order.reset();
    trained.tp_pp_dp_mapping = tp_pp_dp_mapping;
    const RankGrid grid = rank_grid(trained);
    if (std::ranges::all_of(kAllAxes, [&](Axis axis) { return grid.groups(axis) == drawn.groups(axis); })) return "";
  }
  return "mtl-train does not support this rank order, only tp-cp-ep-dp-pp and tp-cp-ep-pp-dp";
}

TrainOptions TopoOptions::train_options() const {
  TrainOptions out = run;
  if (!out.batch.global_batch_size)
    out.batch.global_batch_size = out.batch.micro_batch_size * out.parallel.data() * micro_batches.value_or(1);
  out.dry_run = true;
  return out;
}

}  // namespace mtl
