#!/bin/bash
# A process's peak memory falls from ZeRO stage to stage by as much as the plan says: 29 M parameters on four ranks.
source "$(dirname "$0")/lib.sh" "$1"
export OMP_WAIT_POLICY=passive OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
cd "$WORK" || exit 1

run=(mtl-train --num-layers 8 --hidden-size 512 --num-attention-heads 8 --vocab-size 8000 --tokenizer-type NullTokenizer
  --mock-data --seq-length 32 --max-position-embeddings 32 --micro-batch-size 1 --global-batch-size 4 --train-iters 2
  --lr 0.001 --eval-iters 0 --threads 1)
# Runs a rank and writes its peak resident memory, in KiB, to peak.RANK. The kernel keeps the peak until the process ends.
cat >rank.sh <<'END'
"$@" >"log.$OMPI_COMM_WORLD_RANK" 2>&1 </dev/null &
while kb=$(awk '/^VmHWM/ {print $2}' "/proc/$!/status" 2>/dev/null) && [ -n "$kb" ]; do
  echo "$kb" >"peak.$OMPI_COMM_WORLD_RANK"
  sleep 0.01
done
wait $!
END

for stage in 0 1 2 3; do
  expect_exit 0 "${run[@]}" --zero-stage $stage --world-size 4 --dry-run --json
  planned[stage]=$(sed -n 's/^    "total": \([0-9]*\),*$/\1/p' out)
  expect_exit 0 mpirun -n 4 --oversubscribe bash rank.sh "${run[@]}" --zero-stage $stage
  measured[stage]=$(sort -n peak.* | tail -1)
done
echo "stage 0: planned $((planned[0] >> 20)) MiB, measured $((measured[0] >> 10))"
for stage in 1 2 3; do
  saved=$((planned[stage - 1] - planned[stage])) fell=$(((measured[stage - 1] - measured[stage]) * 1024))
  echo "stage $stage: planned $((planned[stage] >> 20)) MiB, $((saved >> 20)) less than before; measured $((measured[stage] >> 10)), $((fell >> 20)) less"
  [ "$saved" -gt $((20 << 20)) ] || fail "the plan for stage $stage is only $saved bytes smaller"
  expect_near "$fell" "$saved" 0.1
done
finish
