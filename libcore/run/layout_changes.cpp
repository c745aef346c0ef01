#include "run/layout_changes.h"

#include <algorithm>

#include "base/str.h"
#include "layout/schedule.h"

namespace mtl {

namespace {

bool recomputes(const ParallelOptions& parallel) { return recompute_of(parallel) != Recompute{}; }

/// Collects flags.
class FlagWords {
 public:
  void add(const char* flag) { words_.emplace_back(flag); }
  template <class Value>
  void add(const char* flag, const Value& value) {
    words_.emplace_back(flag);
    words_.push_back(cat(value));
  }
  /// Adds a switch that is on in `to` only.
  void add_switch(const char* flag, bool from, bool to) {
    if (to && !from) add(flag);
  }
  /// Adds a value that differs.
  template <class Value>
  void add_value(const char* flag, const Value& from, const Value& to) {
    if (to != from) add(flag, to);
  }
  template <class Value>
  void add_value(const char* flag, const std::optional<Value>& from, const std::optional<Value>& to) {
    if (to && to != from) add(flag, *to);
  }
  std::vector<std::string> take() { return std::move(words_); }

 private:
  std::vector<std::string> words_;
};

void add_grid(FlagWords& flags, const ParallelOptions& from, const ParallelOptions& to) {
  flags.add_value("--tensor-model-parallel-size", from.tensor, to.tensor);
  flags.add_switch("--sequence-parallel", from.sequence_parallel, to.sequence_parallel);
  flags.add_value("--context-parallel-size", from.context, to.context);
  flags.add_value("--pipeline-model-parallel-size", from.pipeline, to.pipeline);
  flags.add_value("--pipeline-schedule", from.schedule, to.schedule);
  flags.add_value("--num-virtual-stages-per-pipeline-rank", from.virtual_stages, to.virtual_stages);
  flags.add_value("--pipeline-split", from.pipeline_split, to.pipeline_split);
  if (const std::int64_t zero = to.zero(); zero != from.zero()) {
    zero == 1 ? flags.add("--use-distributed-optimizer") : flags.add("--zero-stage", zero);
  }
  flags.add_switch("--overlap-grad-reduce", from.overlap_grad_reduce, to.overlap_grad_reduce);
  flags.add_switch("--overlap-param-gather", from.overlap_param_gather, to.overlap_param_gather);
}

void add_savings(FlagWords& flags, const ParallelOptions& from, const ParallelOptions& to) {
  flags.add_value("--recompute-granularity", from.recompute_granularity, to.recompute_granularity);
  flags.add_value("--recompute-method", from.recompute_method, to.recompute_method);
  flags.add_switch("--cpu-offloading", from.cpu_offloading, to.cpu_offloading);
  flags.add_switch("--optimizer-cpu-offload", from.optimizer_cpu_offload, to.optimizer_cpu_offload);
  if (to.offload_optimizer == from.offload_optimizer) return;
  flags.add("--offload-optimizer", to.offload_optimizer);
  if (from.optimizer_cpu_offload) flags.add("instead of --optimizer-cpu-offload");
}

}  // namespace

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
  switch (saving) {
    case Saving::recompute_attention:
      if (recomputes(parallel)) return false;
      parallel.recompute_granularity = "selective";
      return true;
    case Saving::recompute_layers:
      if (recomputes(parallel) || parallel.cpu_offloading) return false;
      parallel.recompute_granularity = "full";
      parallel.recompute_method = "uniform";
      return true;
    case Saving::offload_optimizer:
      if (!has_host_memory || parallel.optimizer_cpu_offload || !parallel.offload_optimizer.empty()) return false;
      return parallel.optimizer_cpu_offload = true;
    case Saving::offload_activations:
      if (!has_host_memory || parallel.cpu_offloading) return false;
      if (recompute_of(parallel).granularity == Recompute::Granularity::full) return false;
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
  FlagWords flags;
  add_grid(flags, from.parallel, to.parallel);
  add_savings(flags, from.parallel, to.parallel);
  flags.add_value("--micro-batch-size", from.batch.micro_batch_size, to.batch.micro_batch_size);
  // Without the flag, the samples of a step would follow from the micro-batches.
  const bool is_regrouped =
      from.batch.micro_batch_size * from.parallel.data() != to.batch.micro_batch_size * to.parallel.data();
  const bool has_other_size = from.batch.global_batch_size != to.batch.global_batch_size;
  if (!to.batch.varies() && (has_other_size || is_regrouped)) flags.add("--global-batch-size", to.global_batch_size());
  flags.add_switch("--bf16", from.precision.bf16, to.precision.bf16);
  flags.add_switch("--grad-reduce-in-bf16", from.precision.grad_reduce_in_bf16, to.precision.grad_reduce_in_bf16);
  flags.add_value("--seq-length", from.data.seq_length, to.data.seq_length);
  return flags.take();
}

}  // namespace mtl
