#include "cli/megatron_flags.h"

#include "base/str.h"

namespace mtl {

namespace {

void refuse_numerics(ForeignFlags& foreign) {
  const char* fp8 = "is not supported in this version: precisions are fp32, bf16 and fp16; leave it out";
  const char* memory = "is not supported in this version; --recompute-granularity saves activations";
  const char* model = "is not supported in this version, which builds models without it";
  const char* adam = "is not supported in this version: the optimizer is AdamW";
  foreign.refuse(0, fp8, "--fp8-hybrid --fp8-e4m3 --first-last-layers-bf16 --fp8-param-gather");
  foreign.refuse(1, fp8,
                 "--fp8-format --fp8-recipe --fp8-margin --fp8-interval --fp8-amax-history-len "
                 "--fp8-amax-compute-algo --fp4-format");
  foreign.refuse(0, "is not supported in this version: losses are computed in fp32, in every precision; leave it out",
                 "--fp16-lm-cross-entropy");
  foreign.refuse(0, memory,
                 "--distribute-saved-activations --distribute-checkpointed-activations --partition-activations "
                 "--contigious-checkpointing --checkpoint-in-cpu");
  foreign.acknowledge(0, "has no effect: --checkpoint-activations alone recomputes",
                      "--deepspeed-activation-checkpointing");
  foreign.refuse(-1, memory, "--recompute-modules");
  foreign.refuse(0, model,
                 "--apply-layernorm-1p --apply-residual-connection-post-layernorm --no-position-embedding "
                 "--multi-latent-attention --embed-layernorm --onnx-safe --init-method-xavier-uniform");
  foreign.refuse(1, model,
                 "--embedding-init-method-std --mlp-type --topk --moe-router-topk --moe-router-load-balancing-type "
                 "--moe-aux-loss-coeff --window-attn-skip-freq");
  foreign.refuse(-1, model, "--num-experts --spec");
  foreign.refuse(0, adam, "--cpu_torch_adam");
  foreign.refuse(0, "is --optimizer-cpu-offload here", "--cpu-optimizer");
  foreign.refuse(1, adam, "--sgd-momentum --decoupled-lr --decoupled-min-lr");
  foreign.refuse(0, "is not supported in this version: the loss is a mean over micro-batches",
                 "--calculate-per-token-loss");
  foreign.refuse(
      0, "is not supported in this version: samples keep their length over the run",
      "--curriculum-learning --curriculum-learning-legacy --random-ltd --data-efficiency-curriculum-learning");
}

void refuse_parallelism(ForeignFlags& foreign) {
  const char* deepspeed =
      "DeepSpeed's engine is not supported; give its settings as --micro-batch-size, --global-batch-size, --lr, "
      "--clip-grad, --zero-stage";
  foreign.refuse(1, "is not supported in this version: a pipeline stage has one chunk of layers; leave it out",
                 "--num-layers-per-virtual-pipeline-stage --num-virtual-stages-per-pipeline-rank");
  foreign.refuse(0, "is not supported in this version; --use-distributed-optimizer shards the optimizer's state",
                 "--use-torch-fsdp2 --use-custom-fsdp --use-megatron-fsdp");
  foreign.refuse(1, "is not supported in this version; --use-distributed-optimizer shards the optimizer's state",
                 "--data-parallel-sharding-strategy --num-distributed-optimizer-instances");
  foreign.refuse(0, deepspeed,
                 "--deepspeed --deepscale --deepspeed_mpi --deepspeed-mpi --universal-checkpoint --use-tutel "
                 "--memory-centric-tiled-linear --split-transformers --scattered-embeddings --synchronize-each-layer "
                 "--profile-backward --zero-contigious-gradients --zero-reduce-scatter");
  foreign.refuse(1, deepspeed,
                 "--deepspeed_config --deepspeed-config --deepscale_config --remote-device --tile-factor "
                 "--zero-reduce-bucket-size --zero-allgather-bucket-size");
}

void refuse_services(ForeignFlags& foreign) {
  const char* figures =
      "is not supported in this version; the figures of a run go to --log-jsonl and --tensorboard-dir";
  const char* saves =
      "is not supported in this version: a checkpoint is weights and moments, written while training waits";
  foreign.refuse(
      1, figures,
      "--wandb-project --wandb-exp-name --wandb-save-dir --wandb-entity --one-logger-project --one-logger-run-name");
  foreign.refuse(
      0, figures,
      "--enable-one-logger --one-logger-async --log-params-norm --log-num-zeros-in-grad --log-memory-to-tensorboard "
      "--log-optimizer-states-to-tensorboard --log-progress --log-energy --log-straggler");
  foreign.refuse(0, "is not supported in this version: these figures are always written; leave it out",
                 "--no-log-loss-scale-to-tensorboard --disable-log-loss-scale-to-tensorboard "
                 "--no-log-learnig-rate-to-tensorboard");
  foreign.refuse(0, "is not supported in this version; --profile writes tables and a trace", "--use-pytorch-profiler");
  foreign.refuse(0, "is not supported in this version; --dry-run lists the memory of a run", "--record-memory-history");
  foreign.refuse(1, "is not supported in this version; --dry-run lists the memory of a run", "--memory-snapshot-path");
  foreign.refuse(0, saves, "--no-save-optim --async-save --use-persistent-ckpt-worker");
  foreign.refuse(1, "is not supported in this version; --keep-last deletes old checkpoints", "--save-retain-interval");
  foreign.refuse(1, saves,
                 "--non-persistent-save-interval --non-persistent-ckpt-type --non-persistent-global-ckpt-dir");
  foreign.refuse(1, "is not supported in this version; --ckpt-step N names an iteration", "--load-tag");
  foreign.refuse(1, "is not supported in this version; give --load PATH --finetune", "--pretrained-checkpoint");
  foreign.refuse(
      0, "is not supported in this version: the schedule comes from the flags",
      "--use-checkpoint-opt_param-scheduler --use-checkpoint-opt-param-scheduler --use-checkpoint-lr-scheduler "
      "--no-load-lr-state");
  foreign.refuse(0, "is not supported in this version: without --load weights are initialized", "--no-initialization");
  foreign.refuse(0, "is not supported in this version: a step whose gradient is not finite is skipped and counted",
                 "--check-for-nan-in-loss-and-grad --check-for-spiky-loss --check-for-large-grads");
  foreign.refuse(0, "is not supported in this version; --eval-iters sets the number of validation batches",
                 "--full-validation");
}

/// Refuses flags that mtl-train spells differently.
void refuse_spellings(ForeignFlags& foreign) {
  foreign.refuse(
      -1,
      "is not supported in this version; name the data with --train-data-path, --valid-data-path and --test-data-path",
      "--train-weighted-split-paths --valid-weighted-split-paths --test-weighted-split-paths");
  foreign.refuse(1, "is --micro-batch-size now", "--batch-size");
  foreign.refuse(1, "is --tensor-model-parallel-size now", "--model-parallel-size");
  foreign.refuse(1, "is --lr-warmup-fraction now", "--warmup");
  foreign.refuse(1, "is --seq-length here", "--encoder-seq-length --decoder-seq-length");
  foreign.refuse(1, "is --num-layers here", "--encoder-num-layers --decoder-num-layers");
  foreign.refuse(
      1, "is a flag of torchrun, which cannot start this program; start its ranks with mpirun -n N or srun",
      "--nproc_per_node --nproc-per-node --nnodes --node_rank --node-rank --master_addr --master-addr --master_port "
      "--master-port");
  foreign.refuse(1, "is --legacy-tokenizer here", "--tokenizer-sentencepiece-legacy");
  foreign.refuse(1, "is --config here, one `name = value` per line", "--yaml-cfg");
  foreign.refuse(1, "is not supported in this version; count in iterations or samples",
                 "--train-tokens --lr-decay-tokens --lr-warmup-tokens");
}

/// Refuses entire families of flags, each with one reason.
void refuse_families(ForeignFlags& foreign) {
  foreign.refuse(-1, "mixtures of experts are not supported in this version",
                 "--moe-* --no-moe-* --disable-moe-* --overlap-moe-* --ep-overlap-* --expert-tensor-*");
  foreign.refuse(-1, "mtl-train does not serve models; see mtl-generate", "--inference-* --no-inference-*");
  foreign.refuse(-1, "predicting several tokens ahead is not supported in this version", "--mtp-* --no-mtp-*");
  foreign.refuse(-1, "reinforcement learning is not supported in this version", "--rl-* --no-rl-* --grpo-* --langrl-*");
  foreign.refuse(
      -1, "is not supported in this version, which builds models without it",
      "--mamba-* --hybrid-* --linear-* --dsa-* --no-dsa-* --disable-dsa-* --mhc-* --yarn-* --no-yarn-* --mup-* --qk-* "
      "--mrope-* --mscale* --heterogeneous-* --gtp-* --rope-* --rotary-*");
  foreign.refuse(
      -1, "is for a task other than training a GPT",
      "--bert-* --retro-* --dino-* --fim-* --ict-* --img-* --mask-* --vision-* --biencoder-* --retriever-* --swin-* "
      "--logits-* --kd-* --sft*");
  foreign.refuse(-1, "is not supported in this version: precisions are fp32, bf16 and fp16; leave it out",
                 "--fp8-* --fp4-* --no-fp8-* --disable-fp8-* --kitchen-* --te-precision-* --keep-fp8-*");
  foreign.refuse(-1, "is not supported in this version: the optimizer is AdamW", "--muon-* --lion-*");
  foreign.refuse(-1, "is not supported in this version: --optimizer-cpu-offload takes the whole state",
                 "--optimizer-offload-*");
  foreign.acknowledge(0, "has no effect: --optimizer-cpu-offload always overlaps its copies",
                      "--overlap-cpu-optimizer-d2h-h2d");
  foreign.refuse(-1, "is not supported in this version; --use-distributed-optimizer shards the optimizer's state",
                 "--fsdp-* --megatron-fsdp-* --torch-fsdp2-*");
  foreign.refuse(-1,
                 "is not supported in this version: a checkpoint is weights and moments, written while training waits",
                 "--ckpt-* --no-ckpt-* --disable-ckpt-* --dist-ckpt-* --async-* --non-persistent-* --replication*");
  foreign.refuse(-1, "is not supported in this version; a lost rank ends the job, and the same command resumes",
                 "--inprocess-* --fault-* --ft-* --error-injection-* --straggler-* --gdp-* --flight-* --no-flight-* "
                 "--disable-flight-*");
  foreign.refuse(-1, "is not supported in this version; --log-jsonl and --tensorboard-dir write a run's metrics",
                 "--otel-* --app-tag-* --wandb-* --one-logger-*");
}

void acknowledge_flags(ForeignFlags& foreign) {
  const char* no_effect = "has no effect";
  const char* launch = "has no effect: mpirun or srun starts the ranks, and there is one way to communicate";
  const char* always = "has no effect: mtl-train always does this";
  foreign.acknowledge(
      1, no_effect,
      "--data-impl --num-workers --transformer-impl --ckpt-format --dist-ckpt-format --data-cache-path "
      "--num-dataset-builder-threads --empty-unused-memory-level --manual-gc-interval "
      "--tensorboard-queue-size --logging-level --train-sync-interval --cuda-graph-impl --cuda-graph-warmup-steps "
      "--cuda-graph-scope --scaled-upper-triang-masked-softmax-fusion --flash-attention-version "
      "--cross-entropy-fusion-impl");
  foreign.acknowledge(
      0, no_effect,
      "--use-mcore-models --use-legacy-models --no-masked-softmax-fusion --no-bias-dropout-fusion "
      "--no-bias-swiglu-fusion --no-rope-fusion --no-persist-layer-norm --cross-entropy-loss-fusion --use-flash-attn "
      "--use-flash-attn-v1 --use-flash-attn-v2 --use-flash-attn-triton --no-gradient-accumulation-fusion --manual-gc "
      "--no-manual-gc-eval --mmap-warmup --no-mmap-bin-files --no-create-attention-mask-in-dataloader --use-dist-ckpt "
      "--auto-detect-ckpt-format --ckpt-fully-parallel-save --no-ckpt-fully-parallel-save --ckpt-fully-parallel-load "
      "--ckpt-assume-constant-structure --enable-cuda-graph --external-cuda-graph --te-rng-tracker --no-one-logger "
      "--trust-remote-code --barrier-with-L1-time --disable-jit-fuser --disable-clone-scatter-output-in-embedding "
      "--no-clone-scatter-output-in-embedding --disable-msc --dataloader-fast-cache-load "
      "--dataloader-defer-npy-index-mmap --disable-manual-gc-eval --exit-signal-handler-for-dataloader "
      "--no-scaled-masked-softmax-fusion --no-gradient-reduce-div-fusion --tokenizer-hf-use-fast "
      "--tokenizer-hf-no-use-fast --use-gigatoken --nvtx-ranges --use-te-activation-func "
      "--use-transformer-engine-op-fuser --disable-symmetric-registration --no-barrier-with-level-1-timing");
  foreign.acknowledge(1, launch,
                      "--distributed-backend --DDP-impl --local_rank --local-rank --lazy-mpu-init --ddp-num-buckets "
                      "--nccl-communicator-config-path --pipeline-model-parallel-comm-backend");
  foreign.acknowledge(
      0, launch,
      "--no-async-tensor-model-parallel-allreduce --async-tensor-model-parallel-allreduce "
      "--no-scatter-gather-tensors-in-pipeline --scatter-gather-tensors-in-pipeline "
      "--no-contiguous-buffers-in-local-ddp --use-contiguous-buffers-in-local-ddp --no-overlap-p2p-communication "
      "--overlap-p2p-communication --use-ring-exchange-p2p --delay-grad-reduce --no-delay-grad-reduce "
      "--no-align-grad-reduce --no-align-param-gather --disable-gloo-process-groups --enable-gloo-process-groups "
      "--delay-param-gather --disable-align-grad-reduce --use-contiguous-buffers-in-ddp "
      "--overlap-p2p-communication-warmup-flush --use-nccl-ub --ddp-pad-buckets-for-high-nccl-busbw "
      "--init-model-with-meta-device");
  foreign.acknowledge(
      0, always,
      "--log-throughput --exit-signal-handler --exit-signal-handler-for-training --disable-straggler-on-startup "
      "--use-cpu-initialization --deterministic-mode --log-timers-to-tensorboard --log-validation-ppl-to-tensorboard "
      "--log-batch-size-to-tensorboard --log-learning-rate-to-tensorboard --log-loss-scale-to-tensorboard "
      "--log-world-size-to-tensorboard");
  foreign.acknowledge(1, "has no effect: loading is always strict", "--dist-ckpt-strictness");
  foreign.acknowledge(0, "has no effect: arithmetic is fp32 in every precision",
                      "--attention-softmax-in-fp32 --apply-query-key-layer-scaling --no-query-key-layer-scaling "
                      "--disable-bf16-reduced-precision-matmul");
  foreign.acknowledge(
      0, "has no effect: checkpoints contain no random state; dropout depends on --seed and the sample's number",
      "--no-load-rng --no-save-rng");
  foreign.acknowledge(0, "has no effect: the schedule always comes from the flags",
                      "--override-opt_param-scheduler --override-opt-param-scheduler --override-lr-scheduler");
  foreign.acknowledge(0, "has no effect: a loaded model always brings its architecture and tokenizer",
                      "--use-checkpoint-args");
  foreign.acknowledge(0, "has no effect: a step whose gradient is not finite is always skipped and counted",
                      "--no-check-for-nan-in-loss-and-grad");
  foreign.acknowledge(1, "has no effect at --timing-log-level 0", "--timing-log-option");
}

/// Adds flags with a single supported value. --help omits them, because there is nothing to choose.
void add_single_valued(Flags& flags, FixedOptions& fixed) {
  auto only = [&](const char* name, auto& target, const char* why) {
    auto supported = target;
    Flags::Flag& flag = flags.add(name, &target, "VALUE", "");
    if constexpr (std::is_same_v<decltype(supported), std::int64_t>) flag.within({0, 1 << 16});
    flags.check([&flags, name, &target, supported, why] {
      if (target != supported)
        flags.problem(cat(name, " ", target),
                      cat("is not supported in this version, ", why, "; only ", supported, " is"));
    });
  };
  only("--optimizer", fixed.optimizer, "which trains with AdamW");
  only("--rerun-mode", fixed.rerun_mode, "which does not repeat steps");
  only("--timing-log-level", fixed.timing_log_level, "which prints no timers");
  only("--expert-model-parallel-size", fixed.expert_parallel, "whose model has no experts");
  only("--ds-sequence-parallel-size", fixed.ds_sequence_parallel, "which does not split sequences");
}

/// Adds flags whose meaning depends on another flag.
void add_related(Flags& flags, TrainOptions& options) {
  FixedOptions& fixed = options.fixed;
  flags.add("--tensorboard-log-interval", &fixed.tensorboard_log_interval, "N", "").at_least(1);
  flags.add("--zero-stage", &fixed.zero_stage, "N", "").within({0, 3});
  flags.add_switch("--no-pipeline-parallel", fixed.no_pipeline_parallel, "")
      .only_with("on one stage, which is the default", [&options] { return options.parallel.pipeline > 1; });
  // With this flag, Megatron-LM uses --distributed-timeout-minutes only at the start. mtl has one timeout for start and
  // training.
  const auto seconds = std::make_shared<std::optional<double>>();
  flags.add("--distributed-timeout-seconds-after-init", seconds.get(), "S", "")
      .above(0)
      .at_most(31536000)
      .only_with("on one rank", [&options] { return options.parallel.world > 1; });
  flags.check([&flags, &options, seconds] {
    if (*seconds) options.parallel.timeout_minutes = **seconds / 60;
    const FixedOptions& given = options.fixed;
    if (given.zero_stage == 1) options.parallel.distributed_optimizer = true;  // DeepSpeed's name for the same
    if (given.no_pipeline_parallel && options.parallel.pipeline > 1)
      flags.problem("--no-pipeline-parallel",
                    cat("contradicts --pipeline-model-parallel-size ", options.parallel.pipeline));
    if (given.zero_stage > 1) {
      flags.problem(cat("--zero-stage ", given.zero_stage),
                    "is not supported in this version; 0 shards nothing, 1 the optimizer's state");
    }
    if (given.tensorboard_log_interval && *given.tensorboard_log_interval != options.logging.log_interval) {
      flags.problem(cat("--tensorboard-log-interval ", *given.tensorboard_log_interval),
                    cat("differs from --log-interval ", options.logging.log_interval,
                        ": TensorBoard is written with every log line; leave it out"));
    }
  });
}

}  // namespace

void add_megatron_flags(Flags& flags, TrainOptions& options) {
  add_single_valued(flags, options.fixed);
  add_related(flags, options);
  refuse_numerics(flags.foreign);
  refuse_parallelism(flags.foreign);
  refuse_services(flags.foreign);
  refuse_spellings(flags.foreign);
  refuse_families(flags.foreign);
  acknowledge_flags(flags.foreign);
  flags.foreign.suggest("--learning-rate", "--lr");
  flags.foreign.suggest("--nlayers --n-layers", "--num-layers");
  flags.foreign.suggest("--nheads", "--num-attention-heads");
  flags.foreign.suggest("--sequence-length", "--seq-length");
}

}  // namespace mtl
