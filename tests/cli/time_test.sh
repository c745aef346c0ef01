#!/bin/bash
# mtl-topo time: one layout's step, with mtl-train's flags for it.
source "$(dirname "$0")/lib.sh" "$1"
cd "$WORK" || exit 1
model=(--num-layers 8 --hidden-size 256 --num-attention-heads 8 --seq-length 512 --max-position-embeddings 512
  --vocab-size 5000 --bf16 --hardware H100 --gpus-per-node 4 --world-size 8)
time=(mtl-topo time "${model[@]}" --global-batch-size 32)
ms() { sed -nE 's/.*"step_ms": ([0-9.e+-]+).*/\1/p' "$1" | head -1; }

# The layouts that a plan lists take as long as it says, and need as much memory.
expect_exit 0 mtl-topo plan "${model[@]}" --global-batch-size 32 --between-gbs 1 --json
grep -oE '"(step_ms|device_bytes)": [0-9.e+-]+' out | head -11 | tail -10 >planned
tr -d '\n' <out | grep -oE '"flags": \[[^]]*' | head -5 | sed 's/"flags": \[//; s/[",]//g' >flags
while read -ra words; do
  expect_exit 0 mtl-topo time "${model[@]}" --between-gbs 1 --json "${words[@]}"
  sed '1,/"layout"/d' out | grep -oE '"(step_ms|device_bytes)": [0-9.e+-]+'
done <flags >timed
[ "$(wc -l <timed)" -eq 10 ] || fail 'not five layouts'
expect_same timed planned

# A table of the stages, whose parts add up to the step, and the memory of all ranks.
expect_exit 0 "${time[@]}" --tensor-model-parallel-size 2 --sequence-parallel --pipeline-model-parallel-size 2 --micro-batch-size 2
expect_text out '^time of 8 ranks on 2 nodes of 4 H100 with 80 GB \(74.5 GiB\)$'
expect_text out '^  tp 2, pp 2, dp 2, not overlapped, 1f1b, micro-batch 2$'
expect_text out '^Memory of each rank.s GPU, in MiB$'
awk '/^step/ { step = $2 } /^  stage/ { inside = 1; next } inside && NF == 0 { exit }
  inside { sum = 0; for (i = 2; i <= NF; ++i) sum += $i; printf "%.4f\n", sum / step }' out >sums
[ "$(wc -l <sums)" -eq 2 ] || fail 'not two stages'
expect_near_lines sums <(sed 's/.*/1/' sums) 'parts of a step' 0.02

# A picture of the step, whose shares of time are those of the table.
expect_exit 0 "${time[@]}" --pipeline-model-parallel-size 4 --micro-batch-size 2 --between-gbs 0.1 --output step.svg
[ "$(grep -c '<g id="stage' step.svg)" -eq 4 ] || fail 'not four stages in the picture'
expect_text step.svg '>messages, between nodes<'
awk '/^step/ { step = $2 } /^  stage/ { inside = 1; next } inside && NF == 0 { exit } inside {
  split($1, range, "-"); for (i = range[1]; i <= (range[2] == "" ? range[1] : range[2]); ++i) printf "%.1f%%\n", 100 * $2 / step }' out >computes
expect_same computes <(grep -A1 '>stage [0-9]*<' step.svg | sed -nE 's/.*>([0-9.]+%)<.*/\1/p')
expect_exit 2 "${time[@]}" --output step.png
expect_text err '--output step.png  is not a drawing; choose a name that ends in .svg'
expect_exit 74 "${time[@]}" --output absent/step.svg
expect_text err '^mtl-topo time: absent/step.svg: there is no folder absent; make it'

# What a layout can have beside its sizes changes its time.
slow=("${time[@]}" --between-gbs 20 --between-us 1 --json --micro-batch-size 1)
expect_exit 0 "${slow[@]}" --ddp-bucket-size 1 && ms out >plain
expect_exit 0 "${slow[@]}" --ddp-bucket-size 1 --overlap-grad-reduce && ms out | paste - plain | awk '{ exit !($1 < 0.99 * $2) }' || fail 'nothing overlaps'
expect_exit 0 "${slow[@]}" --tensor-model-parallel-size 8 && ms out >plain
expect_exit 0 "${slow[@]}" --tensor-model-parallel-size 8 --sequence-parallel && ! ms out | cmp -s - plain || fail 'sequence parallelism'
expect_exit 0 "${slow[@]}" --context-parallel-size 4 && ms out >plain
expect_exit 0 "${slow[@]}" --context-parallel-size 4 --cp-comm-type p2p && ! ms out | cmp -s - plain || fail 'p2p'
expect_exit 0 "${time[@]}" --pipeline-model-parallel-size 4 --pipeline-model-parallel-layout 'Et|ttt|ttt|tL' --micro-batch-size 1
expect_text out '^  pp 4, dp 2, not overlapped, 1f1b Et\|ttt\|ttt\|tL, micro-batch 1$'
expect_exit 0 "${time[@]}" --micro-batch-size 4 --optimizer-cpu-offload --json
grep -q '"host": ' out || fail 'no copies from the host'

expect_exit 0 "${time[@]}" --micro-batch-size 4 --optimizer-cpu-offload --host-gbs 1 --json && ms out >host1
expect_exit 0 "${time[@]}" --micro-batch-size 4 --offload-optimizer DIR --disk-gbs 4 --json && ms out >disk4
expect_near_lines disk4 host1 'four ranks that share a disk, with the rate of a link to the host for each' 1e-6
[ ! -e DIR ] || fail 'DIR exists'
expect_exit 2 "${time[@]}" --offload-optimizer DIR
expect_text err '--offload-optimizer DIR  needs --disk-gbs'

# It need not fit. What mtl-train refuses is refused.
expect_exit 0 "${time[@]}" --device-memory 0.001
expect_text out '^the layout does not fit in a device.s memory$'
expect_exit 2 "${time[@]}" --tensor-model-parallel-size 3
expect_text err 'need a multiple of 3 ranks, but there are 8'
expect_exit 2 "${time[@]}" --pipeline-model-parallel-size 2 --zero-stage 3
expect_text err 'cannot be combined with --pipeline-model-parallel-size 2'
expect_exit 2 mtl-topo time "${model[@]/H100/V9000}" --global-batch-size 32
expect_text err '^  --hardware V9000  is not known'
expect_exit 2 mtl-topo time "${model[@]:0:10}" --hardware H100 --world-size 8 --global-batch-size 32
expect_text err '^  --vocab-size +is required, because'

# Operators of a CPU's profile. Ranks that share nothing take as long as the profiled one.
small=(--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --max-position-embeddings 64 --vocab-size 500)
expect_exit 0 mtl-train "${small[@]}" --tokenizer-type NullTokenizer --mock-data --lr 1e-3 --train-iters 4 --eval-iters 0 \
  --micro-batch-size 2 --threads 1 --profile --profile-step-start 1 --profile-step-end 4
cpu=(mtl-topo time "${small[@]}" --profile profile/rank0.json --inside-gbs 1e6 --inside-us 0 --json --micro-batch-size 2)
expect_exit 0 "${cpu[@]}" --world-size 1 && ms out >plain
expect_exit 0 "${cpu[@]}" --world-size 2 && expect_near_lines <(ms out) plain 'a step over free links' 1e-3
# Stages send as many messages as those of a run.
zero_bubble=(--pipeline-model-parallel-size 4 --pipeline-schedule zb-v --num-layers 8 --global-batch-size 16)
expect_exit 0 mpirun -n 4 --oversubscribe mtl-train "${small[@]:2}" "${zero_bubble[@]}" --tokenizer-type NullTokenizer \
  --mock-data --lr 1e-3 --train-iters 1 --eval-iters 0 --micro-batch-size 2 --threads 1 --profile --profile-dir stages \
  --profile-step-start 0 --profile-step-end 1 --profile-ranks 0 1 2 3
expect_exit 0 "${cpu[@]}" "${zero_bubble[@]}" --world-size 4
expect_same <(grep -oE '"messages_sent": [0-9]+' out | awk '{ sum += $2 } END { print sum }') <(grep -c '"name": "send ' stages/trace.json)
expect_exit 0 "${cpu[@]}" --world-size 2 --optimizer-cpu-offload
expect_text err '--optimizer-cpu-offload has no effect on the CPU'
# Plans of published runs: a line for each row of the table, and two layouts of two GPUs.
expect_exit 0 bash "$SHARE/bench/plan.sh" "$BIN"
[ "$(grep -cE ' (tok/s|ms|TFLOP/s) +[-+][0-9.]+% ' out)" -eq "$(grep -cE '^[^#]' "$SHARE/bench/published.txt")" ] || fail 'not a line for each published run'
! grep -q 'does not fit' out || fail 'a published run does not fit'
awk '/, tensor 2 / { memory = $4; sent = $6 } /, pipeline 2 / { ++pairs; if (!(memory < $4 && sent > $6)) exit 1 } END { exit pairs != 2 }' out ||
  fail 'tensor parallelism does not save more memory, or the pipeline does not send less'
finish
