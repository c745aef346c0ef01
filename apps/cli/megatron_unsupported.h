// Names of Megatron-LM's flags, from version 2.0 to the head of 2026, that ask for what mtl-train does not do and that
// no other list of megatron_flags.cpp has. A family is told by how its names begin.
#pragma once

#include <vector>

namespace mtl {

struct FlagFamily {
  const char* reason;
  std::vector<const char*> beginnings;
};

inline std::vector<FlagFamily> unsupported_families() {
  return {
      {"mixtures of experts are not supported in this version",
       {"--moe-", "--no-moe-", "--disable-moe-", "--overlap-moe-", "--ep-overlap-", "--expert-tensor-"}},
      {"serving a model is not what mtl-train does; see mtl-generate", {"--inference-", "--no-inference-"}},
      {"predicting several tokens ahead is not supported in this version", {"--mtp-", "--no-mtp-"}},
      {"reinforcement learning is not supported in this version", {"--rl-", "--no-rl-", "--grpo-", "--langrl-"}},
      {"is not supported in this version: the model is GPT-2's",
       {"--mamba-", "--hybrid-", "--linear-", "--dsa-", "--no-dsa-", "--disable-dsa-", "--mhc-", "--yarn-",
        "--no-yarn-", "--mup-", "--qk-", "--mrope-", "--mscale", "--heterogeneous-", "--gtp-", "--rope-", "--rotary-"}},
      {"belongs to another task than training a GPT",
       {"--bert-", "--retro-", "--dino-", "--fim-", "--ict-", "--img-", "--mask-", "--vision-", "--biencoder-",
        "--retriever-", "--swin-", "--logits-", "--kd-", "--sft"}},
      {"is not supported in this version, which trains in fp32; leave it out",
       {"--fp8-", "--fp4-", "--no-fp8-", "--disable-fp8-", "--kitchen-", "--te-precision-", "--keep-fp8-"}},
      {"is not supported in this version: the optimizer is AdamW, in fp32",
       {"--muon-", "--lion-", "--optimizer-offload-"}},
      {"is not supported in this version; --use-distributed-optimizer shares out the optimizer's state",
       {"--fsdp-", "--megatron-fsdp-", "--torch-fsdp2-"}},
      {"is not supported in this version",
       {"--tp-comm-", "--no-tp-comm-", "--disable-tp-comm-", "--pytorch-profiler-"}},
      {"is not supported in this version: a checkpoint is weights and moments, written while training waits",
       {"--ckpt-", "--no-ckpt-", "--disable-ckpt-", "--dist-ckpt-", "--async-", "--non-persistent-", "--replication"}},
      {"is not supported in this version; a lost rank ends the job, and the same command goes on",
       {"--inprocess-", "--fault-", "--ft-", "--error-injection-", "--straggler-", "--gdp-", "--flight-",
        "--no-flight-", "--disable-flight-"}},
      {"is not supported in this version; the figures of a run go to --log-jsonl and --tensorboard-dir",
       {"--otel-", "--app-tag-", "--wandb-", "--one-logger-"}},
  };
}

/// Separated by blanks.
inline constexpr const char* kUnsupportedNames =
    "--activation-func-clamp-value --activation-offload-fraction --activations-checkpoint-method "
    "--activations-checkpoint-num-layers --allow-ambiguous-pad-tokens --apply-wd-to-qk-layernorm "
    "--attention-output-gate --batch-invariant-backend --batch-invariant-mode --block-data-path --cache-mla-latents "
    "--calc-ft-timeouts --chat-template --classes-fraction --config-logger-dir --cpu-offloading-num-layers "
    "--cpu-offloading-retain-pinned-cpu-buffers --create-all-gather-group --data-per-class-fraction "
    "--dataloader-inter-document-masking --ddp-param-name-patterns-for-fp32-local-accumulation "
    "--ddp-reduce-scatter-with-fp32-accumulation --decode-only-cuda-graphs --delay-offload-until-cuda-graph "
    "--delay-wgrad-compute --delta-offload-bytes-across-pp-ranks --disable-bf16-reduced-precision-matmul "
    "--disable-chunked-prefill --disable-mamba-mem-eff-path --disable-pad-vocab-size "
    "--disable-save-tokenizer-assets --disable-strict-fsdp-dtensor-load "
    "--disable-tokenizer-sentencepiece-ignore-extra-whitespaces --disable-use-tokenizer-model-from-checkpoint-args "
    "--distrib-optim-fully-reshardable-mem-efficient --dump-param-to-param-group-map --embedding-path "
    "--enable-chunked-prefill --enable-experimental --enable-ft-package --enable-full-sharding-in-hsdp "
    "--enable-mhc-connections --enable-msc --eval-global-batch-size --evidence-data-path --exit-signal "
    "--experimental-attention-variant --faiss-use-gpu --fake-process-group --fine-grained-activation-offloading "
    "--fine-grained-offloading-max-inflight-offloads --flash-decode --freeze-all-layers --fused-residual-rmsnorm "
    "--glu-linear-offset --gpu-sniff-test-interval --head-lr-mult --hierarchical-context-parallel-sizes "
    "--high-priority-a2a-comm-stream --high-priority-stream-groups --indexer-batch-size --indexer-log-interval "
    "--is-hybrid-model --iter-per-epoch --iterations-to-skip --kv-lora-rank --load-main-params-from-ckpt "
    "--load-model-opt-format --log-device-memory-used --log-max-attention-logit --log-memory-interval "
    "--max-seqlen-per-dp-cp-rank --max-tokens-to-oom --mid-level-dataset-surplus --min-offloaded-tensor-size "
    "--mla-down-proj-fusion --mlp-chunks-for-prefill --mlp-chunks-for-training --multiple-validation-sets "
    "--nccl-all-reduce-for-prefill --no-pad-vocab-size --no-pin-cpu-grads --no-pin-cpu-params --no-rope-freq "
    "--no-save-tokenizer-assets --no-strict-fsdp-dtensor-load --no-tokenizer-sentencepiece-ignore-extra-whitespaces "
    "--no-use-layer-wise-param-layout --no-use-tokenizer-model-from-checkpoint-args --no-weight-decay-cond-type "
    "--null-tokenizer-pad-id --num-channels --num-classes --num-layers-at-end-in-bf16 --num-layers-at-start-in-bf16 "
    "--num-speculative-tokens --object-storage-cache-path --offload-modules --optimizer-cuda-graph "
    "--outer-dp-sharding-strategy --output-bert-embeddings --output-logit-dtype --overlap-cpu-optimizer-d2h-h2d "
    "--overlap-dispatch-backward-with-experts-wgrad --overlap-param-gather-with-optimizer-step "
    "--override-ckpt-iteration --padded-vocab-size --patch-dim --per-dataset-sequences-path --perform-rl-step "
    "--persistent-save-interval --phase-transition-iterations --pipeline-model-parallel-layout --q-lora-rank "
    "--query-in-block-prob --quick-geglu --record-shapes --refit-method --relative-attention-max-distance "
    "--relative-attention-num-buckets --renormalize-blend-weights --report-topk-accuracies "
    "--result-rejected-tracker-filename --reuse-grad-buf-for-mxfp8-param-ag --run-workload-inspector-server "
    "--s3-cache-path --sample-rate --save-activations-interval --save-dgrads-interval --save-params-interval "
    "--save-tokens-per-expert-interval --save-wgrads-interval --sharp-enabled-group --short-seq-prob --softmax-type "
    "--start-eval-at-iter --suggested-communication-unit-size --symmetric-ar-type "
    "--tensor-parallel-num-weight-shards --titles-data-path --tokenizer-metadata --use-fused-weighted-squared-relu "
    "--use-grouped-gemm-for-dense-mlp --use-grouped-gemm-for-shared-expert --use-kitchen-attention "
    "--use-legacy-static-engine --use-mp-args-from-checkpoint-args --use-mup --use-one-sent-docs "
    "--use-same-sampling-seed-across-dp-ranks --use-torch-optimizer-for-cpu-offload --v-head-dim "
    "--validation-set-names --verify-integrity --wgrad-deferral-limit --window-attn-skip-freq";

}  // namespace mtl
