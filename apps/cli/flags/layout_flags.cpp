#include "cli/flags/layout_flags.h"

#include <algorithm>

#include "base/error.h"
#include "base/str.h"
#include "layout/layer_layout.h"
#include "layout/schedule.h"

namespace mtl {

namespace {

/// Megatron-LM's names for ZeRO stages 0 to 3.
const std::vector<std::string> kShardingStrategies = {"no_shard", "optim", "optim_grads", "optim_grads_params"};
constexpr const char* kOneReplica = "on one data-parallel rank";  // or one of data and context
std::function<bool()> has_replicas(const ParallelOptions& options) {
  return [&options] { return options.replicas() > 1; };
}

/// Adds communication during computation.
void add_overlap_flags(Flags& flags, ParallelOptions& options) {
  flags.add_switch("--overlap-grad-reduce", options.overlap_grad_reduce, "sum gradients during backward");
  flags.add_switch(
      "--overlap-param-gather", options.overlap_param_gather, "gather updated weights during the next forward",
      needs("--use-distributed-optimizer, because otherwise nothing is gathered",
            [&options] { return options.distributed_optimizer; }),
      needs("--overlap-grad-reduce, as in Megatron-LM", [&options] { return options.overlap_grad_reduce; }));
}

}  // namespace

void add_world_size_flag(Flags& flags, ParallelOptions& options, const std::string& help, const Flags::Rule& rule) {
  flags.add("--world-size", &options.plan_world, "N", help, within({1, kLargestWorld}), rule);
}

void add_node_size_flag(Flags& flags, ParallelOptions& options, const std::string& help, const Flags::Rule& rule) {
  flags.add("--gpus-per-node", &options.gpus_per_node, "N", help, within({1, kLargestWorld}), rule);
}

void add_grid_flags(Flags& flags, ParallelOptions& options) {
  flags.add("--tensor-model-parallel-size", &options.tensor, "N", "ranks that share each layer",
            within({1, kLargestWorld}));
  flags.add("--pipeline-model-parallel-size", &options.pipeline, "N", "pipeline stages, each with consecutive layers",
            within({1, kLargestWorld}));
  flags.add("--context-parallel-size", &options.context, "N", "ranks that share each sequence, in 2 N equal chunks",
            within({1, kLargestWorld}));
  flags.add("--cp-comm-type", &options.cp_comm_type, "NAME",
            "how context-parallel ranks exchange keys and values in all layers",
            one_of({kContextExchangeNames.begin(), kContextExchangeNames.end()}),
            only_with("on one context-parallel rank", [&options] { return options.context > 1; }));
  flags.add("--expert-model-parallel-size", &options.expert, "N",
            "ranks that share the experts; mtl-train supports only 1", within({1, kLargestWorld}));
  flags.add_switch("--use-tp-pp-dp-mapping", options.tp_pp_dp_mapping,
                   "number ranks along the pipeline before data parallelism",
                   only_with("on one stage or one data-parallel rank",
                             [&options] { return options.pipeline > 1 && options.data() > 1; }));
}

void add_stage_flags(Flags& flags, ParallelOptions& options) {
  flags.add("--num-layers-in-first-pipeline-stage,--decoder-first-pipeline-num-layers",
            &options.split.first_stage_layers, "N", "layers of the first stage", within({1, kMostLayers}));
  flags.add("--num-layers-in-last-pipeline-stage,--decoder-last-pipeline-num-layers", &options.split.last_stage_layers,
            "N", "layers of the last stage", within({1, kMostLayers}));
  const auto has_stages = [&options] { return options.pipeline > 1; };
  flags.only_with("on one stage", has_stages, [&] {
    flags.add_switch("--account-for-embedding-in-pipeline-split", options.split.account_for_embedding,
                     "count the embedding as a layer of the first stage");
    flags.add_switch("--account-for-loss-in-pipeline-split", options.split.account_for_loss,
                     "count the output layer as a layer of the last stage");
    flags.add("--pipeline-split", &options.pipeline_split, "NAME",
              "layers of each stage: even, or balanced by the work of layers, embedding and output layer",
              one_of({"even", "balanced"}));
  });
  flags.add("--pipeline-model-parallel-layout", &options.layer_layout, "TEXT",
            "layers of each stage, such as Ett|ttt|tL: E is the embedding, t a layer, L the output layer");
  flags.check([&flags, &options] {
    if (!options.layer_layout) return;
    try {
      options.split.layer_counts = parse_layer_layout(*options.layer_layout);
    } catch (const Error& error) {
      flags.problem(cat("--pipeline-model-parallel-layout ", *options.layer_layout), error.what());
    }
  });
}

void add_schedule_flag(Flags& flags, ParallelOptions& options, const std::string& names, const Flags::Rule& rule) {
  flags.add(names, &options.schedule, "NAME",
            "order of micro-batches within a stage (default: 1f1b, or interleaved with several chunks per stage)",
            one_of(texts_of(kSchedules, &ScheduleTraits::name)), rule);
}

void add_interleaving_flags(Flags& flags, ParallelOptions& options) {
  flags.add("--num-layers-per-virtual-pipeline-stage", &options.layers_per_virtual_stage, "N",
            "layers per chunk, for stages of several chunks", within({1, kMostLayers}));
  flags.add("--num-virtual-stages-per-pipeline-rank", &options.virtual_stages, "N", "chunks per stage",
            within({1, kMostLayers}));
  flags.add("--microbatch-group-size-per-virtual-pipeline-stage", &options.group, "N",
            "consecutive micro-batches of a chunk before the next chunk's turn (default: as many as stages)",
            within({1, INT32_MAX}));
}

/// Sets the ZeRO stage, which has several names. They must agree.
void resolve_zero_stage(Flags& flags, ParallelOptions& options) {
  struct Name {
    std::string flag;
    std::int64_t stage;
  };
  std::vector<Name> names;
  if (options.zero_stage > 0) names.push_back({cat("--zero-stage ", options.zero_stage), options.zero_stage});
  if (options.sharding_strategy)
    names.push_back({"--data-parallel-sharding-strategy " + *options.sharding_strategy,
                     std::find(kShardingStrategies.begin(), kShardingStrategies.end(), *options.sharding_strategy) -
                         kShardingStrategies.begin()});
  if (options.torch_fsdp2) names.push_back({"--use-torch-fsdp2", 3});
  if (options.fsdp)
    names.push_back({"--fsdp " + *options.fsdp, *options.fsdp == "no_shard"     ? 0
                                                : *options.fsdp == "full_shard" ? 3
                                                                                : 2});
  if (names.empty()) return;
  const Name& first = names.front();
  options.zero_stage = first.stage;
  if (options.zero_stage > 0) options.distributed_optimizer = true;
  for (const Name& name : names)
    if (name.stage != first.stage)
      flags.problem(first.flag,
                    cat("is not ", name.flag, ", which is --zero-stage ", name.stage, "; give one of them"));
  if (options.zero_stage == 3 && options.pipeline > 1)
    flags.problem(first.flag, cat("cannot be combined with --pipeline-model-parallel-size ", options.pipeline,
                                  ": each of the many micro-batches would gather the stage's weights twice; use "
                                  "--zero-stage ",
                                  defers_weights(options.schedule_kind({})) ? 1 : 2,
                                  ", or one stage and --tensor-model-parallel-size"));
}

void add_sharing_flags(Flags& flags, ParallelOptions& options) {
  flags.add_switch("--sequence-parallel", options.sequence_parallel,
                   "shard the rows of activations between tensor-parallel layers, too",
                   only_with("on one tensor-parallel rank", [&options] { return options.tensor > 1; }));
  flags.add_switch("--use-distributed-optimizer", options.distributed_optimizer,
                   "shard the optimizer's state over data-parallel ranks",
                   only_with(kOneReplica, has_replicas(options)));
  flags.add("--zero-stage", &options.zero_stage, "N",
            "what data-parallel ranks shard: 1: the optimizer's state, as --use-distributed-optimizer; 2: gradients, "
            "too; 3: weights, too",
            within({0, 3}),
            only_with(kOneReplica, [&options] { return options.zero_stage == 0 || options.replicas() > 1; }));
  flags.add_switch("--use-megatron-fsdp", options.megatron_fsdp, "shard as --data-parallel-sharding-strategy says");
  flags.check([&flags, &options] { resolve_zero_stage(flags, options); });
  flags.only_with(kOneReplica, has_replicas(options), [&] {
    flags.add("--data-parallel-sharding-strategy", &options.sharding_strategy, "NAME",
              "Megatron's names for --zero-stage 0 to 3", one_of(kShardingStrategies),
              needs("--use-megatron-fsdp", [&options] { return options.megatron_fsdp; }));
    flags.add_switch("--use-torch-fsdp2", options.torch_fsdp2, "Megatron's name for --zero-stage 3");
    flags.add("--fsdp", &options.fsdp, "NAME", "FSDP's names for --zero-stage 0, 2 and 3",
              one_of({"no_shard", "shard_grad_op", "full_shard"}));
    flags.add("--ddp-bucket-size", &options.bucket_elements, "N",
              "sum gradients in buckets of consecutive layers with at least N parameters (default: 40 M, or 1 M x "
              "data-parallel ranks if more; 1 with --zero-stage 2 and 3)",
              within({1, 1e15}));
    add_overlap_flags(flags, options);
  });
}

void add_recompute_flags(Flags& flags, ParallelOptions& options) {
  const auto is_full = [&options] { return recompute_of(options).granularity == Recompute::Granularity::full; };
  const char* full = "--recompute-granularity full";
  flags.add("--recompute-granularity", &options.recompute_granularity, "NAME",
            "recompute attention, or whole layers, in backward instead of keeping activations",
            one_of({"selective", "full"}));
  flags.add("--recompute-method", &options.recompute_method, "NAME",
            "layers to recompute: all in groups, or the first ones of each chunk one by one",
            one_of({"uniform", "block"}), only_with(full, is_full));
  flags.add("--recompute-num-layers,--activations-checkpoint-num-layers,--checkpoint-num-layers",
            &options.recompute_num_layers, "N",
            "layers per group (uniform), or layers of each chunk to recompute (block) (default: 1)",
            within({1, kMostLayers}), only_with(full, is_full));
  flags.add_switch("--recompute-activations", options.recompute_activations,
                   "same as --recompute-granularity selective");
  flags.add_switch("--checkpoint-activations", options.checkpoint_activations,
                   "same as --recompute-granularity full --recompute-method uniform");
  flags.add("--activations-checkpoint-method", &options.checkpoint_method, "NAME",
            "same as --recompute-granularity full --recompute-method NAME", one_of({"uniform", "block"}));
  flags.check([&flags, &options] {
    const bool is_full = recompute_of(options).granularity == Recompute::Granularity::full;
    if (options.recompute_activations && is_full)
      flags.problem(
          "--recompute-activations",
          "requests selective recomputation, which contradicts recomputing whole layers; use only one of them");
    else if (options.recompute_granularity == "full" && !options.recompute_method)
      flags.problem("--recompute-granularity full", "needs --recompute-method uniform or block");
  });
}

void add_file_offload_flag(Flags& flags, ParallelOptions& options) {
  flags.add("--offload-optimizer", &options.offload_optimizer, "DIR",
            "keep main weights and the optimizer's states in files in DIR, and update them in pieces");
  flags.check([&flags, &options] {
    if (options.optimizer_cpu_offload && !options.offload_optimizer.empty())
      flags.problem("--optimizer-cpu-offload",
                    "keeps in host memory what --offload-optimizer keeps in files; use only one of them");
  });
}

void add_offload_flags(Flags& flags, ParallelOptions& options, const std::function<bool()>& on_gpu) {
  flags.only_with("on the CPU, whose memory is the host's", on_gpu, [&] {
    flags.add_switch("--optimizer-cpu-offload", options.optimizer_cpu_offload,
                     "keep main weights and the optimizer's states in host memory; the GPU updates them in pieces");
    flags.add_switch("--cpu-offloading", options.cpu_offloading,
                     "keep activations of all layers of a stage but two in host memory from forward to backward");
    flags.add("--cpu-offloading-num-layers", &options.offloaded_layers, "N",
              "--cpu-offloading for the first N layers of each stage", within({1, kMostLayers}));
  });
  add_file_offload_flag(flags, options);
  flags.check([&flags, &options] {
    options.cpu_offloading = options.cpu_offloading || options.offloaded_layers.has_value();
    if (options.cpu_offloading && recompute_of(options).granularity == Recompute::Granularity::full)
      flags.problem(
          "--cpu-offloading",
          "cannot be combined with recomputing whole layers, which leaves nothing to offload; use only one of them");
  });
}

void add_batch_size_flags(Flags& flags, BatchOptions& options) {
  flags.add("--micro-batch-size", &options.micro_batch_size, "N", "samples per forward and backward pass",
            within(kBatchSizes));
  flags.add("--global-batch-size", &options.global_batch_size, "N",
            "samples per update (default: one micro-batch per data-parallel rank)", within(kBatchSizes));
}

}  // namespace mtl
