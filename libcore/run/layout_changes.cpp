#include "run/layout_changes.h"

#include "base/str.h"
#include "layout/schedule.h"

namespace mtl {

bool can_run(const TrainOptions& options, const GptConfig& config) {
  bool out = true;
  const ReportProblem refuse = [&](const std::string&, const std::string&) { out = false; };
  check_options(options, refuse);
  if (out) check_division(options, config, false, refuse);
  return out;
}

std::vector<std::int64_t> zero_stages(const ParallelOptions& parallel) {
  if (parallel.replicas() == 1) return {0};
  std::vector<std::int64_t> out = {0, 1};
  if (defers_weights(parallel.schedule_kind({}))) return out;
  out.push_back(2);
  if (parallel.pipeline == 1) out.push_back(3);
  return out;
}

void set_zero_stage(ParallelOptions& parallel, std::int64_t stage) {
  parallel.zero_stage = stage;
  parallel.distributed_optimizer = stage > 0;
}

bool save(TrainOptions& options, Saving saving) {
  ParallelOptions& parallel = options.parallel;
  const bool has_host_memory = options.device == Device::cuda;  // besides the memory of the device
  const Recompute own = recompute_of(parallel);
  const bool recomputes_layers = own.granularity == Recompute::Granularity::full;
  switch (saving) {
    case Saving::recompute_attention:
      if (own != Recompute{}) return false;
      parallel.recompute_granularity = "selective";
      return true;
    case Saving::recompute_layers:
      if (recomputes_layers && own.method == Recompute::Method::uniform) return false;
      if (parallel.checkpoint_method || parallel.cpu_offloading) return false;
      parallel.recompute_activations = false;
      parallel.recompute_granularity = "full";
      parallel.recompute_method = "uniform";
      if (parallel.recompute_num_layers) parallel.recompute_num_layers = 1;
      return true;
    case Saving::offload_optimizer:
      if (!has_host_memory || parallel.optimizer_cpu_offload || !parallel.offload_optimizer.empty()) return false;
      return parallel.optimizer_cpu_offload = true;
    case Saving::offload_activations:
      if (!has_host_memory || parallel.cpu_offloading || recomputes_layers) return false;
      return parallel.cpu_offloading = true;
    case Saving::offload_to_files:
      if (!parallel.offload_optimizer.empty()) return false;
      parallel.optimizer_cpu_offload = false;
      parallel.offload_optimizer = "DIR";
      return true;
  }
  return false;
}

std::vector<std::string> changed_flags(const TrainOptions& from, const TrainOptions& to) {
  std::vector<std::string> words, dropped;
  const auto add = [&](const char* flag, const auto&... value) {
    words.emplace_back(flag);
    (words.push_back(cat(value)), ...);
  };
  // Adds a switch that is on in `to` only, or a value that differs.
  const auto change = [&]<class Value>(const char* flag, const Value& was, const Value& is) {
    if (is == was) return;
    if constexpr (std::is_same_v<Value, bool>) {
      if (is) add(flag);
    } else if constexpr (requires { is.has_value(); }) {
      if (is) add(flag, *is);
    } else {
      add(flag, is);
    }
  };
  const ParallelOptions &before = from.parallel, &now = to.parallel;
  change("--tensor-model-parallel-size", before.tensor, now.tensor);
  change("--sequence-parallel", before.sequence_parallel, now.sequence_parallel);
  change("--context-parallel-size", before.context, now.context);
  change("--pipeline-model-parallel-size", before.pipeline, now.pipeline);
  change("--pipeline-schedule", before.schedule, now.schedule);
  change("--num-virtual-stages-per-pipeline-rank", before.virtual_stages, now.virtual_stages);
  const auto drop = [&](const char* flag, bool was, bool is) {
    if (was && !is) dropped.emplace_back(flag);
  };
  drop("--pipeline-schedule", before.schedule.has_value(), now.schedule.has_value());
  drop("--num-virtual-stages-per-pipeline-rank", before.virtual_stages.has_value(), now.virtual_stages.has_value());
  drop("--num-layers-per-virtual-pipeline-stage", before.layers_per_virtual_stage.has_value(),
       now.layers_per_virtual_stage.has_value());
  drop("--pipeline-model-parallel-layout", before.layer_layout.has_value(), now.layer_layout.has_value());
  change("--pipeline-split", before.pipeline_split, now.pipeline_split);
  if (now.zero() == 1)
    change("--use-distributed-optimizer", before.zero() == 1, true);
  else
    change("--zero-stage", before.zero(), now.zero());
  drop("--data-parallel-sharding-strategy", before.sharding_strategy.has_value(), now.zero() == before.zero());
  drop("--fsdp", before.fsdp.has_value(), now.zero() == before.zero());
  drop("--use-torch-fsdp2", before.torch_fsdp2, now.zero() == before.zero());
  change("--overlap-grad-reduce", before.overlap_grad_reduce, now.overlap_grad_reduce);
  change("--overlap-param-gather", before.overlap_param_gather, now.overlap_param_gather);
  change("--recompute-granularity", before.recompute_granularity, now.recompute_granularity);
  change("--recompute-method", before.recompute_method, now.recompute_method);
  change("--recompute-num-layers", before.recompute_num_layers, now.recompute_num_layers);
  drop("--recompute-activations", before.recompute_activations, now.recompute_activations);
  change("--cpu-offloading", before.cpu_offloading, now.cpu_offloading);
  change("--optimizer-cpu-offload", before.optimizer_cpu_offload, now.optimizer_cpu_offload);
  change("--offload-optimizer", before.offload_optimizer, now.offload_optimizer);
  drop("--optimizer-cpu-offload", before.optimizer_cpu_offload, now.optimizer_cpu_offload);
  change("--micro-batch-size", from.batch.micro_batch_size, to.batch.micro_batch_size);
  // Without the flag, the samples of a step would follow from the micro-batches.
  const std::int64_t samples = from.batch.global_batch_size.value_or(to.batch.micro_batch_size * to.parallel.data());
  if (!to.batch.varies()) change("--global-batch-size", samples, to.global_batch_size());
  change("--bf16", from.precision.bf16, to.precision.bf16);
  change("--grad-reduce-in-bf16", from.precision.grad_reduce_in_bf16, to.precision.grad_reduce_in_bf16);
  change("--seq-length", from.data.seq_length, to.data.seq_length);
  drop("--async-save", from.checkpoint.async_save, to.checkpoint.async_save);
  if (!dropped.empty()) add("without", join(dropped, " and "));
  return words;
}

}  // namespace mtl
