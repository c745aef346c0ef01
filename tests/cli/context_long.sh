#!/bin/bash
# A step with a sequence of 32,768 tokens, of a Llama with 29 million parameters: one process needs more memory than a
# limit allows, and each of eight context-parallel ranks needs less.
source "$(dirname "$0")/lib.sh" "$1"
cd "$WORK" || exit 1
export OMP_WAIT_POLICY=passive OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
run=(mtl-train --model llama-30m --mock-data --tokenizer-type NullTokenizer --vocab-size 50257 --seq-length 32768
  --max-position-embeddings 32768 --micro-batch-size 1 --train-iters 1 --lr 1e-4 --eval-iters 0 --log-interval 1
  --peak-tflops 0.1 --threads 1)
# One process plans 5.2 GiB. A rank plans 1.1 GiB, and maps 1.7 GB with programs, libraries and MPI.
ulimit -v $((3 << 20))
timeout 300 "${run[@]}" >out 2>err
[ $? -ne 0 ] || fail 'one process fits the limit'
expect_text err '[mM]emory'
start=$SECONDS
for exchange in all_gather p2p; do
  expect_exit 0 mpirun -n 8 --oversubscribe "${run[@]}" --context-parallel-size 8 --cp-comm-type $exchange \
    --distributed-timeout-minutes 30 --log-jsonl $exchange.jsonl
  echo "$exchange: $((SECONDS - start)) s"
  start=$SECONDS
done
losses() { grep -oE '"lm_loss": *[0-9.e+-]+' "$1" | sed 's/.*: */loss /'; }
losses all_gather.jsonl >all_gather.loss
losses p2p.jsonl >p2p.loss
mtl_compare near all_gather.loss p2p.loss --relative 1e-7 --count 1 || fail 'the losses differ'
finish
