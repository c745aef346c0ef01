#!/bin/bash
# Every flag that divides a run among ranks, in each of its spellings and with each of its choices: all ranks make the
# same groups, and train as one process does.
source "$(dirname "$0")/lib.sh" "$1"
source "$(dirname "$0")/metrics.sh"
export OMP_WAIT_POLICY=passive OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0  # MPI keeps its allocations
cd "$WORK" || exit 1
mkdir state

SIZES=(--num-layers 4 --hidden-size 32 --num-attention-heads 4 --max-position-embeddings 16)
used=' --distributed-timeout-minutes '
# train RANKS NAME FLAG...: trains two iterations, and writes NAME.metrics.
train() {
  local ranks=$1 name=$2
  shift 2
  used+="$* "
  expect_exit 0 timeout -s KILL 60 mpirun --oversubscribe -n "$ranks" mtl-train --seq-length 16 --mock-data \
    --tokenizer-type NullTokenizer --vocab-size 100 --micro-batch-size 1 --global-batch-size 8 --train-iters 2 \
    --lr 0.001 --eval-iters 0 --log-interval 1 --peak-tflops 1 --threads 1 --distributed-timeout-minutes 0.2 \
    --log-jsonl "$name.jsonl" "$@" </dev/null
  metrics "$name.jsonl" >"$name.metrics"
}
# trains_as_one RANKS FLAG...: with these flags, the losses and norms are those of one process.
trains_as_one() {
  rm -f other.jsonl
  train "$1" other "${SIZES[@]}" "${@:2}"
  mtl_compare near other.metrics one.metrics --relative 1e-6 --relative norm=1e-5 --count 4 || fail "other metrics: $*"
}
train 1 one "${SIZES[@]}" --save one

# Two stages.
PP=(--pipeline-model-parallel-size 2)
trains_as_one 2 "${PP[@]}" --num-layers-per-virtual-pipeline-stage 1 --pipeline-schedule zb-v
trains_as_one 2 "${PP[@]}" --num-layers-per-virtual-pipeline-stage 1
trains_as_one 2 "${PP[@]}" --num-layers-per-virtual-pipeline-stage 2 --pipeline-schedule 1f1b
trains_as_one 2 "${PP[@]}" --num-virtual-stages-per-pipeline-rank 2 --pipeline-schedule zb-v
trains_as_one 2 "${PP[@]}" --num-virtual-stages-per-pipeline-rank 2 --pipeline-schedule interleaved \
  --microbatch-group-size-per-virtual-pipeline-stage 4
trains_as_one 2 "${PP[@]}" --pipeline-model-parallel-layout 'Et|t|t|tL' --pipeline-schedule zb-v
trains_as_one 2 "${PP[@]}" --pipeline-model-parallel-layout 'Et|t||ttL'
trains_as_one 2 "${PP[@]}" --pipeline-schedule zb-v --pipeline-split balanced
trains_as_one 2 "${PP[@]}" --pipeline-schedule zb-h1 --pipeline-split even --expert-model-parallel-size 1
trains_as_one 2 "${PP[@]}" --pipeline-schedule zb-h2 --num-layers-in-first-pipeline-stage 3 \
  --recompute-granularity selective
trains_as_one 2 "${PP[@]}" --pipeline-schedule gpipe --num-layers-in-last-pipeline-stage 3 --recompute-activations
trains_as_one 2 "${PP[@]}" --decoder-first-pipeline-num-layers 1 --recompute-granularity full \
  --recompute-method uniform --recompute-num-layers 2
trains_as_one 2 "${PP[@]}" --decoder-last-pipeline-num-layers 1 --recompute-granularity full \
  --recompute-method block --activations-checkpoint-num-layers 1
trains_as_one 2 "${PP[@]}" --account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split \
  --checkpoint-activations --checkpoint-num-layers 1
# The model of --load decides the number of layers. CPUs do not use NCCL.
NCCL_IB_HCA=mlx5 train 2 loaded "${PP[@]}" --num-layers-per-virtual-pipeline-stage 1 --pipeline-schedule zb-v --load one --finetune
expect_text err '^mtl-train: warning: NCCL_IB_HCA has no effect, because ranks on CPUs communicate by MPI alone$'

# Ranks that share layers, sequences or batches. (Some flags have no effect on CPUs.)
trains_as_one 2 --tensor-model-parallel-size 2 --sequence-parallel --activations-checkpoint-method block
trains_as_one 2 --context-parallel-size 2 --cp-comm-type all_gather --use-distributed-optimizer \
  --activations-checkpoint-method uniform
trains_as_one 2 --context-parallel-size 2 --cp-comm-type p2p --zero-stage 0 --optimizer-cpu-offload --cpu-offloading
trains_as_one 4 "${PP[@]}" --use-tp-pp-dp-mapping --zero-stage 1 --overlap-grad-reduce --overlap-param-gather \
  --ddp-bucket-size 2000
trains_as_one 4 "${PP[@]}" --num-layers-per-virtual-pipeline-stage 1 --zero-stage 2 --cpu-offloading-num-layers 1
trains_as_one 2 --zero-stage 3 --offload-optimizer state
for strategy in no_shard optim optim_grads optim_grads_params; do
  trains_as_one 2 --use-megatron-fsdp --data-parallel-sharding-strategy $strategy
done
trains_as_one 2 --use-torch-fsdp2
for strategy in no_shard shard_grad_op full_shard; do trains_as_one 2 --fsdp $strategy; done

# A new flag, spelling or choice in this section of --help needs a run.
mtl-train --help | sed -n '/^Parallelism:/,/^$/p' | grep -E '^  --' | grep -oE -- '--[a-z0-9-]+' >flags
[ "$(wc -l <flags)" -ge 40 ] || fail "--help lists only $(wc -l <flags) flags for parallelism"
while read -r flag; do
  [[ $used == *" $flag "* ]] || fail "no run with $flag"
  for choice in $(mtl-train "$flag" none 2>&1 | sed -n 's/.* choose one of //p' | tr -d ,); do
    [[ $used == *" $flag $choice "* ]] || fail "no run with $flag $choice"
  done
done <flags
finish
