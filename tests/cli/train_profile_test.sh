#!/bin/bash
# --profile: tables and a trace for the requested iterations and ranks. --roofline: a step's bound.
source "$(dirname "$0")/lib.sh" "$1"
source "$(dirname "$0")/metrics.sh"
export OMP_WAIT_POLICY=passive OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
cd "$WORK" || exit 1
expect_exit 0 mtl-preprocess --input "$TESTS/golden/end_to_end/corpus.jsonl" --output-prefix a --tokenizer-type NullTokenizer \
  --vocab-size 512 --append-eod
model=(--num-layers 2 --hidden-size 32 --num-attention-heads 4 --max-position-embeddings 32 --seq-length 32
  --tokenizer-type NullTokenizer --vocab-size 512)
run=("${model[@]}" --data-path a_text_document --split 90,8,2 --micro-batch-size 2 --global-batch-size 4 --train-iters 4 --lr 0.001
  --eval-iters 0 --log-interval 1 --threads 1 --peak-tflops 0.05)

# once FILE PATTERN: exactly one line matches.
once() { [ "$(grep -cE -- "$2" "$1")" -eq 1 ] || { fail "not one line like '$2' in $1"; sed 's/^/    /' "$1" >&2; }; }
# number FILE KEY: prints KEY's first value in indented JSON.
number() { sed -nE "s/^ *\"$2\": ([-+.0-9eE]+),?$/\1/p" "$1" | head -n 1; }
losses() { awk "$VALUE"'{ text = value("lm_loss"); if (text != "") print text }' "$1"; }

# The requested iterations. The losses do not change.
expect_exit 0 mtl-train "${run[@]}" --log-jsonl plain.jsonl
expect_exit 0 mtl-train "${run[@]}" --log-jsonl profiled.jsonl --profile --profile-step-start 1 --profile-step-end 3 --profile-dir prof/first
once err '^mtl-train: profile of iterations 2 to 3: prof/first/rank\*\.txt, rank\*\.json and trace\.json$'
! grep 'no step was profiled' err || fail 'a run that wrote its profile warns of none'
[ "$(losses plain.jsonl | wc -l)" -eq 4 ] || fail 'not four losses'
[ "$(losses plain.jsonl)" = "$(losses profiled.jsonl)" ] || fail '--profile changes the losses'
[ "$(number prof/first/rank0.json first_step) $(number prof/first/rank0.json steps)" = "2 2" ] ||
  fail 'the profile does not begin at iteration 2 or does not have two iterations'
for dtype in 16 tf32 f32; do once prof/first/rank0.json "^ +\"tflops_$dtype\": 0\\.05,\$"; done
once prof/first/rank0.json '^ +"name": "CPU, 1 thread",$'
for name in gemm attention_forward attention_backward layernorm_backward cross_entropy_forward_backward adamw_step; do
  grep -qE "^$name +[0-9.]+ +[0-9.]+ +[0-9.]+% " prof/first/rank0.txt || fail "$name is not in the table: $(cat prof/first/rank0.txt)"
done
for phase in data forward backward optimizer report other; do
  grep -qE "^$phase +[0-9.]+ +[0-9.]+%" prof/first/rank0.txt || fail "no phase $phase: $(head -n 15 prof/first/rank0.txt)"
done
# Twelve GEMMs in each of two layers and three in the head, times two micro-batches and two iterations.
calls=$(grep -A1 '"operator": "gemm"' prof/first/rank0.json | number /dev/stdin calls)
[ "$calls" = 108.0 ] || [ "$calls" = 108 ] || fail "$calls calls of gemm instead of 108"
for title in 'step 2' 'step 3' 'forward 0' 'backward 1' embedding 'layer 0' 'layer 1' head gemm; do
  grep -q "\"name\": \"$title\"" prof/first/trace.json || fail "no $title in the trace"
done
grep -q '"name": "step 4"' prof/first/trace.json && fail "iteration 4 is in the trace"
if python3 -c '' 2>/dev/null; then  # as a viewer reads it
  expect_exit 0 python3 -c 'import json; events = json.load(open("prof/first/trace.json"))["traceEvents"]
assert len(events) > 100 and all(e["dur"] >= 0 for e in events if e["ph"] == "X")'
fi

# A run that ends during the profile, and a run that never reaches it.
expect_exit 0 mtl-train "${run[@]}" --profile --profile-step-start 2 --profile-step-end 9 --profile-dir short
[ "$(number short/rank0.json first_step) $(number short/rank0.json steps)" = "3 2" ] || fail "not the last two iterations"
expect_exit 0 mtl-train "${run[@]}" --profile --profile-step-start 0 --profile-step-end 9 --profile-dir early --exit-interval 2
[ "$(number early/rank0.json first_step) $(number early/rank0.json steps)" = "1 2" ] || fail "not the iterations before an early end"
expect_exit 0 mtl-train "${run[@]}" --profile
once err '^mtl-train: warning: no step was profiled: this session ran none of the iterations 11 to 12; .*--profile-step-start and --profile-step-end'
[ ! -e profile ] || fail 'a profile was written without iterations'
# If a folder cannot be created, the run does not end.
touch file
expect_exit 0 mtl-train "${run[@]}" --profile --profile-step-start 1 --profile-step-end 2 --profile-dir file/below
once err '^mtl-train: warning: the profile could not be written: .*file/below'

# Profiles rank 0 by default, or the requested ranks in one trace.
ranks=(mpirun -n 2 --oversubscribe mtl-train "${run[@]}" --profile --profile-step-start 1 --profile-step-end 2)
expect_exit 0 "${ranks[@]}" --profile-dir one
[ "$(cd one && echo *)" = 'rank0.json rank0.txt trace.json' ] || fail "not only rank 0 by default: $(ls one)"
expect_exit 0 "${ranks[@]}" --profile-dir both --profile-ranks 0 1
for rank in 0 1; do
  grep -q "^profile of rank $rank " both/rank$rank.txt || fail "no table of rank $rank"
  grep -q "\"name\": \"step 2\", .*\"pid\": $rank" both/trace.json || fail "no trace of rank $rank"
done
grep -qE '^communication +[0-9.]+' both/rank1.txt || fail 'rank 1 reports no communication'

# Invalid requests.
expect_exit 2 mtl-train "${run[@]}" --profile --profile-step-start 5 --profile-step-end 5 --profile-ranks 0 1 x
once err '^  --profile-step-end 5  is not after --profile-step-start 5, '
once err '^  --profile-ranks 1 +is not a rank of this run, '
once err '^  --profile-ranks x +is not a rank of this run, '

# --roofline: computes a bound from all operators' FLOP and bytes. It is at least the time for the FLOP alone.
expect_exit 0 mtl-train "${model[@]}" --micro-batch-size 2 --global-batch-size 6 --lr 1e-3 --dry-run --roofline H100
once out '^roofline of H100: a bound, not a measurement$'
grep -qE '^  step, rank 0: at least [0-9.]+ ms; at most [0-9,]+ tokens/s' out || fail "no bound: $(cat out)"
grep -qE '^  adamw_step +3 +[0-9.]+ .* memory$' out || fail "no adamw_step: $(cat out)"
expect_exit 0 mtl-train --model gpt2-124m --micro-batch-size 8 --seq-length 1024 --tokenizer-type NullTokenizer --vocab-size 50257 \
  --bf16 --lr 1e-3 --dry-run --json --roofline H100
bound=$(sed -nE 's/^ {4}"bound_ms": ([-+.0-9eE]+),$/\1/p' out)  # of the step, not of one of its operators
awk -v bound="$bound" -v flops="$(number out counted_flops_per_step)" \
  'BEGIN { least = flops / 989.4e9; exit !(least > 0 && bound >= least && bound < 2.5 * least) }' ||
  fail "a bound of $bound ms for $(number out counted_flops_per_step) FLOP is not plausible"
# The output layer's products are bound by their FLOPs, with the pieces that a GPU uses, on a machine without one, too.
gpt2=(--model gpt2-124m --micro-batch-size 32 --seq-length 1024 --tokenizer-type NullTokenizer --vocab-size 50257 --bf16
  --lr 1e-3 --dry-run --roofline H100)
expect_exit 0 mtl-train "${gpt2[@]}" --device cpu
once out '^  output layer: pieces of 3,648 rows, whose fp32 logits take 734,035,968 bytes$'
[ "$(grep -cE '^  backward +gemm .*50304.* compute$' out)" -ge 3 ] || fail "the output layer: $(grep 50304 out)"
! grep -E '^  backward +gemm .*50304.* memory$' out || fail "the output layer is bound by its bytes"
expect_exit 0 mtl-train "${gpt2[@]}" --json
[ "$(number out logits_rows)" = 3648 ] && [ "$(number out logits_bytes)" = 734035968 ] || fail "pieces: $(cat out)"
awk -v rate="$(number out tokens_per_second)" 'BEGIN { exit !(rate > 850000 && rate < 1100000) }' ||
  fail "a bound of $(number out tokens_per_second) tokens/s"
# The bound of an interleaved schedule, which needs more micro-batches than are profiled on their own.
expect_exit 0 mtl-train "${model[@]}" --micro-batch-size 1 --global-batch-size 6 --lr 1e-3 --dry-run --roofline H100 \
  --world-size 3 --pipeline-model-parallel-size 3 --num-layers 6 --num-virtual-stages-per-pipeline-rank 2
once out '^roofline of H100: a bound, not a measurement$'
expect_exit 2 mtl-train "${model[@]}" --lr 1e-3 --dry-run --roofline V100
grep -q -- '--roofline V100' err || fail "the error does not name --roofline V100: $(cat err)"
# A pipeline's trace has the actions that mtl-topo draws for the same model, in the same order. With zb-h1 and zb-v,
# weight gradients are actions of their own.
sizes=(--num-layers 4 --hidden-size 32 --num-attention-heads 4 --max-position-embeddings 32 --seq-length 32 --vocab-size 512
  --micro-batch-size 2 --global-batch-size 12 --pipeline-model-parallel-size 2)
for schedule in 1f1b zb-h1 zb-v; do
  expect_exit 0 mpirun -n 2 --oversubscribe mtl-train "${sizes[@]}" --pipeline-schedule $schedule --tokenizer-type NullTokenizer \
    --mock-data --train-iters 2 --lr 0.001 --eval-iters 0 --threads 1 --peak-tflops 0.05 --profile --profile-step-start 1 \
    --profile-step-end 2 --profile-ranks 0 1 --profile-dir $schedule
  sed -nE 's/.*"name": "(forward|backward|weight)[a-z ]* ([0-9]+)", "cat": "phase", "pid": ([0-9]+), .*"ts": ([-+.0-9e]+),.*/\3 \4 \1 \2/p' \
    $schedule/trace.json | sort -k1,1n -k2,2g | cut -d' ' -f1,3,4 >traced
  expect_exit 0 mtl-topo "${sizes[@]}" --world-size 2 --schedule $schedule --format json
  grep -oE '"in_flight"|"kind": "[a-z]+", "micro_batch": [0-9]+' out | tr -d '",:' |
    awk '/in_flight/ { ++stages; next } { print stages - 1, $2, $4 }' >planned
  case $schedule in 1f1b) actions=24 ;; zb-h1) actions=36 ;; zb-v) actions=72 ;; esac
  [ "$(wc -l <planned)" -eq $actions ] || fail "$schedule: $(wc -l <planned) actions"
  expect_same traced planned
done
finish
