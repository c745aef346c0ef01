#!/bin/bash
# A run's data: blends, separate paths for each split, both orders, samplers, growing batch sizes. Interrupted runs
# continue bit for bit. Different or reordered data is rejected.
source "$(dirname "$0")/lib.sh" "$1"
source "$(dirname "$0")/train_runs.sh"
cd "$WORK" || exit 1
head -n 250 "$CORPUS" >a.jsonl
tail -n +251 "$CORPUS" >b.jsonl
preprocess a.jsonl a
preprocess b.jsonl b
preprocess "$CORPUS" c
A=a_text_document B=b_text_document C=c_text_document
# shellcheck disable=SC2054  # the comma belongs to a flag's value
MODEL=(--num-layers 1 --hidden-size 16 --num-attention-heads 2 --max-position-embeddings 32
  --tokenizer-type NullTokenizer --vocab-size 512 --seq-length 32 --micro-batch-size 2 --lr 0.002
  --hidden-dropout 0.1 --attention-dropout 0.1 --eval-iters 1 --eval-interval 4 --peak-tflops 0.1 --log-interval 1)
LENGTH=()
SHARED=(--split 80,10,10 --global-batch-size 4 --train-iters 8)

# last_weights NAME: prints the path of its last weights.
last_weights() { printf '%s/save/iter_%07d/shard_00000.safetensors' "$1" "$(cat "$1/save/latest_checkpointed_iteration.txt")"; }
# resumes_alike NAME FLAG...: with three sessions, the run ends with the same weights and metrics as with one.
resumes_alike() {
  local name=$1
  shift
  expect_exit 0 run_in "$name" "$@"
  expect_exit 0 run_in "$name-cut" "$@" --exit-interval 3
  expect_exit 0 run_in "$name-cut" "$@" --exit-interval 3
  expect_text err 'resuming .*/iter_0000003 at iteration 3'
  expect_exit 0 run_in "$name-cut" "$@"
  expect_same "$(last_weights "$name")" "$(last_weights "$name-cut")"
  expect_metrics "$name"
  diff <(metrics_of "$name") <(metrics_of "$name-cut") >difference || fail "$name: different metrics when interrupted"
}
# expect_different NAME OTHER: the runs end with different weights.
expect_different() {
  cmp -s "$(last_weights "$1")" "$(last_weights "$2")" && fail "the runs $1 and $2 end with the same weights"
}

# Blends.
resumes_alike plain "${SHARED[@]}" --data-path $C
resumes_alike blend "${SHARED[@]}" --data-path 0.3 $A 0.7 $B
resumes_alike lengths "${SHARED[@]}" --data-path $A $B
expect_different blend lengths
echo "0.3 $A 0.7 $B" >words.txt
expect_exit 0 run_in words "${SHARED[@]}" --data-args-path words.txt
expect_same "$(last_weights blend)" "$(last_weights words)"
resumes_alike each --global-batch-size 4 --train-iters 8 --train-data-path $A --valid-data-path 1 $B 2 $C
[ "$(metrics_of each | grep -c '"type": "test"')" -eq 0 ] || fail 'tested without test data'
[ "$(metrics_of each | grep -c '"type": "validation"')" -eq 3 ] || fail 'not three validations'
printf '{"train": ["%s"], "valid": "1 %s 2 %s"}' $A $B $C >splits.json
expect_exit 0 run_in file --global-batch-size 4 --train-iters 8 --per-split-data-args-path splits.json
expect_same "$(last_weights each)" "$(last_weights file)"

# If no more files can be opened, says so once, with the remedy.
for name in many{1..60}; do for end in bin idx; do ln -s $A.$end "$name.$end"; done; done
(ulimit -n 100 && run_in many "${SHARED[@]}" --data-path many{1..60}) >out 2>err
[ $? -eq 74 ] || fail "not exit 74 without open files"
[ "$(grep -c 'Too many open files; raise the limit on open files (ulimit -n' err)" -eq 1 ] || fail "$(cat err)"

# The other order; the other sampler, with and without sharding.
resumes_alike feistel "${SHARED[@]}" --data-path 0.3 $A 0.7 $B --data-order feistel
expect_different feistel blend
resumes_alike cyclic "${SHARED[@]}" --data-path $A --dataloader-type cyclic
resumes_alike shared "${SHARED[@]}" --data-path $A --dataloader-type cyclic --no-data-sharding
expect_different cyclic plain

# Growing batch sizes: 2, 4, 6, then 8 samples, with as many updates as the samples allow.
ramp=(--split 80,10,10 --data-path 0.3 $A 0.7 $B --global-batch-size 8 --rampup-batch-size 2 2 24 --train-samples 61 --lr-decay-samples 60)
resumes_alike ramp "${ramp[@]}"
sizes_of() { sed -nE 's/.*"type": "step".*"global_batch_size": ([0-9]+).*/\1/p' "$1/log.jsonl" | tr '\n' ' '; }
[ "$(sizes_of ramp)" = '2 2 2 2 4 4 6 6 8 8 8 8 ' ] || fail "batch sizes of the ramp: $(sizes_of ramp)"
expect_text ramp/log.jsonl '"type": "step", "iteration": 12, "consumed_samples": 60,'
expect_exit 0 run_in ramp "${ramp[@]}"
expect_text err 'already complete: 12 of 12 iterations are done'
resumes_alike steps "${ramp[@]:0:7}" --step-batch-size-schedule '0:2 256:6,1K:8' --train-samples 61 --lr-decay-samples 60
[ "$(sizes_of steps)" = '2 2 2 2 6 6 6 6 8 8 8 ' ] || fail "batch sizes of the schedule: $(sizes_of steps)"
# The same losses on two ranks, and in two pipeline stages.
expect_exit 0 mpirun -n 2 --oversubscribe mtl-train "${MODEL[@]}" "${ramp[@]}" --micro-batch-size 1 --log-jsonl ranks.jsonl
expect_text err '^mtl-train: training [0-9,]+ parameters on 2 CPU processes of [0-9]+ threads?: iterations 1 to 12, each of up to 8 x 32 tokens; '
expect_text ranks.jsonl '"world_size": 2, "tensor_parallel": 1, "pipeline_parallel": 1, "data_parallel": 2, .*"global_batch_size": 8,'
expect_exit 0 mtl-train "${MODEL[@]}" "${ramp[@]}" --micro-batch-size 1 --log-jsonl one.jsonl
# losses_of NAME: writes NAME.losses.
losses_of() {
  sed -nE 's/.*"consumed_samples": ([0-9]+).*"lm_loss": ([^,}]+).*/\1 \2/p' "$1.jsonl" >"$1.losses"
}
losses_of ranks
losses_of one
expect_near_lines ranks.losses one.losses 'two ranks with growing batch sizes' 1e-6 12
# rates_of NAME RANKS: writes NAME.rates, what RANKS compute in each iteration by its rates. Only several ranks wait.
rates_of() {
  awk -v ranks="$2" "$VALUE"'/"type": "step"/ {
      ms = value("elapsed_ms_per_iteration")
      printf "%.4g %.4g", value("global_batch_size"), value("tokens_per_second") * ms
      printf " %.4g %.4g", ranks * value("tflops_per_device") * ms, ranks * value("mfu_a") * ms
      print (value("communication_wait_ms") == "") == (ranks == 1) ? "" : " wait"
    }' "$1.jsonl" >"$1.rates"
}
rates_of ranks 2
rates_of one 1
[ "$(wc -l <one.rates)" -eq 12 ] || fail "not the rates of 12 iterations: $(cat one.rates)"
grep wait ranks.rates one.rates && fail 'one rank waits, or two do not'
expect_same ranks.rates one.rates
rm one.jsonl
expect_exit 0 mpirun -n 2 --oversubscribe mtl-train "${MODEL[@]}" "${ramp[@]}" --num-layers 2 --pipeline-model-parallel-size 2 --micro-batch-size 1 --log-jsonl stages.jsonl
expect_text stages.jsonl '"world_size": 2, "tensor_parallel": 1, "pipeline_parallel": 2, "data_parallel": 1,'
expect_exit 0 mtl-train "${MODEL[@]}" "${ramp[@]}" --num-layers 2 --micro-batch-size 1 --log-jsonl one.jsonl
losses_of stages
losses_of one
expect_near_lines stages.losses one.losses 'two stages with growing batch sizes' 1e-6 12

# Wrong flags and data are rejected at the start.
printf '{"train": ["%s"], "validation": ["%s"]}' $A $B >keys.json
expect_exit 2 run_in none --global-batch-size 4 --train-iters 8 --per-split-data-args-path keys.json
expect_text err '^  --per-split-data-args-path keys.json +has an unknown key "validation"; did you mean valid\?$'
printf '\xef\xbb\xbf0.3 %s 0.7 %s' $A $B >mark.txt
expect_exit 2 run_in none "${SHARED[@]}" --data-args-path mark.txt
expect_text err '^  --data-args-path mark.txt +this is .*byte order mark'
expect_text err '^mtl-train: 1 problem '
expect_exit 2 run_in none "${SHARED[@]}" --data-path 0.5 $A x $B --rampup-batch-size 2 2 24
expect_text err "^  --data-path +expected a weight before '$B', not 'x'; "
expect_text err '^  --rampup-batch-size 2 2 24|^  --rampup-batch-size +needs a run that is counted in samples'
expect_exit 2 run_in none "${SHARED[@]}" --data-path "-0.5 $A 1 $B"
expect_text err '^mtl-train: 1 problem '
expect_text err "^  --data-path +the weight '-0.5' is not a positive number"
expect_exit 2 run_in none --train-samples 60 --data-path 1 $A nan $B --global-batch-size 9 --rampup-batch-size 2 3 24
expect_text err "^  --data-path +the weight 'nan' is not a positive number"
expect_text err '^  --rampup-batch-size 2 3 24 +the global batch size 9 less the start 2 is not a multiple of 3'
expect_exit 2 run_in none --train-samples 60 --data-path $A --global-batch-size 8 --rampup-batch-size 2 3 24
expect_exit 2 run_in none --train-samples 60 --data-path $A --global-batch-size 8 --rampup-batch-size 3 5 24
expect_text err '^  --rampup-batch-size 3 5 24 +the batch size 3 is not a multiple of 2 .*--decrease-batch-size-if-needed to round it down to 2$'
expect_exit 2 run_in none "${SHARED[@]}" --data-path $A --valid-data-path $B --no-data-sharding
expect_text err '^mtl-train: 2 problems '
for flag in '--data-path +cannot be used with .*--train-data-path' '--no-data-sharding +needs --dataloader-type cyclic'; do
  expect_text err "^  $flag"
done
expect_exit 2 run_in none "${SHARED[@]}" --train-data-path $A --split 1,1,1
expect_text err '^mtl-train: 1 problem '
expect_text err '^  --split 1,1,1 +divides --data-path'
expect_exit 74 run_in none "${SHARED[@]}" --data-path 1 $A 2 nosuch 3 b
expect_text err '^  --data-path nosuch +there is no nosuch.idx or nosuch.bin; .*mtl-preprocess$'
expect_text err '^  --data-path b +there is no b.idx or b.bin; did you mean b_text_document\?$'
expect_exit 65 run_in none "${SHARED[@]}" --data-path $A $B --train-iters 5000
expect_text err '^mtl-train: --data-path: without weights the 2 data sets provide one epoch, [0-9]+ samples for train, but the run needs 20000; add weights'
expect_exit 2 run_in none "${SHARED[@]}" --data-path $A --dataloader-type cyclic --data-order feistel
expect_text err '^  --dataloader-type cyclic +shuffles what'
[ -e none/save ] && fail 'a refused run leaves a folder'

# A quoted blend is split, unless it names token files. An interval of 0 switches off.
expect_exit 0 run_in words "${SHARED[@]}" --data-path 0.3 $A 0.7 $B
expect_exit 0 run_in quoted "${SHARED[@]}" --data-path "0.3 $A  0.7 $B"
expect_same "$(last_weights words)" "$(last_weights quoted)"
expect_exit 0 run_in quoted_splits --global-batch-size 4 --train-iters 8 --train-data-path "$A $B" --valid-data-path $C
for suffix in bin idx; do cp $A.$suffix "a blank.$suffix"; done
expect_exit 0 run_in blank "${SHARED[@]}" --data-path 'a blank'
expect_exit 0 run_in off "${SHARED[@]}" --data-path 0.3 $A 0.7 $B --eval-interval 0 --save-interval 0 \
  --exit-interval 0 --log-interval 0
expect_same "$(last_weights words)" "$(last_weights off)"
grep '"type": "validation"' off/log.jsonl | grep -qv '"final": true' && fail '--eval-interval 0 validates during the run'
[ "$(grep -c '"type": "step"' off/log.jsonl)" -eq 1 ] || fail '--log-interval 0 does not log once, at the end'
expect_text off/log.jsonl '"type": "validation", "iteration": 8, .*"final": true'
[ "$(ls -d off/save/iter_* | wc -l)" -eq 1 ] || fail '--save-interval 0 saves during the run'
expect_exit 0 mtl-train "${MODEL[@]}" "${SHARED[@]}" --data-path $A --save-interval 0

# --mock-data: generated tokens, in any vocabulary, which a resumed run continues.
MOCK=(--mock-data --global-batch-size 4 --train-iters 8)
resumes_alike mock "${MOCK[@]}"
expect_text mock/log.jsonl '"type": "test", "iteration": 8, '
for size in 1 2 300000; do expect_exit 0 mtl-train "${MODEL[@]}" "${MOCK[@]}" --vocab-size $size --train-iters 1 --split 99,1,0; done
expect_text err '^mtl-train: --split has no effect with --mock-data$'
# Its documents end with the tokenizer's end-of-document token, also if that is 0.
LONG=(--mock-data --global-batch-size 64 --train-iters 1 --null-tokenizer-eod 0)
expect_exit 0 run_in whole "${LONG[@]}"
expect_exit 0 run_in masked "${LONG[@]}" --eod-mask-loss
expect_different whole masked
expect_exit 2 run_in beyond "${LONG[@]}" --load whole/save --finetune --null-tokenizer-eod 600
beyond="cannot act, because the tokenizer's end-of-document token, 600, is not in the model's vocabulary of 512; "
expect_text err "^  --mock-data +$beyond"
# Nor can any data contain that token.
expect_exit 2 run_in beyond "${SHARED[@]}" --data-path $A --load whole/save --finetune --null-tokenizer-eod 600 \
  --eod-mask-loss --reset-position-ids --reset-attention-mask
expect_text err "^  --eod-mask-loss, --reset-position-ids, --reset-attention-mask +$beyond"
expect_exit 0 run_in without "${SHARED[@]}" --data-path $A --load whole/save --finetune --null-tokenizer-eod 600
expect_exit 2 run_in none "${MOCK[@]}" --data-path $A --split 80,10,10
expect_text err '^mtl-train: 1 problem '
expect_text err '^  --mock-data +generates tokens .*use either --mock-data or the flags that name data'
expect_exit 65 run_in mock "${SHARED[@]}" --data-path $A --train-iters 9 --override-opt_param-scheduler
expect_text err 'was trained on different data: tokens are read from files, but were generated \(--mock-data\);'
expect_exit 65 run_in words "${MOCK[@]}" --train-iters 9 --override-opt_param-scheduler
expect_text err 'was trained on different data: tokens are generated \(--mock-data\), but were read from files;'

# Does not resume with different or reordered data. The error gives the difference.
at3=("${SHARED[@]}" --exit-interval 3)
# expect_refused WHAT FLAG...: a run with these flags cannot resume at3 because WHAT differs.
expect_refused() {
  local what=$1
  shift
  rm -rf again
  cp -r at3 again
  expect_exit 65 run_in again "$@"
  expect_text err "iter_0000003 was trained on different data: $what.*; .*--allow-data-change"
  ! grep -q 'resuming' err || fail "$what: reports that it resumes before it refuses"
}
expect_exit 0 run_in at3 "${at3[@]}" --data-path 0.3 $A 0.7 $B
expect_refused 'weights of train is \[0.5, 0.5\], but was \[0.3, 0.7\]' "${at3[@]}" --data-path 0.5 $A 0.5 $B
expect_refused "$B: (bin_bytes|idx_bytes|idx_hash) is" "${at3[@]}" --data-path 0.3 $B 0.7 $A
expect_refused '1 data set, but there were 2' "${at3[@]}" --data-path $A
expect_refused '--split is "70,20,10", but was "80,10,10"' "${at3[@]}" --data-path 0.3 $A 0.7 $B --split 70,20,10
expect_refused '--seed is 5, but was 1234' "${at3[@]}" --data-path 0.3 $A 0.7 $B --seed 5
expect_refused '--data-order is "feistel", but was "megatron"' "${at3[@]}" --data-path 0.3 $A 0.7 $B --data-order feistel
cp $B.bin kept.bin
printf '\001' | dd of=$B.bin bs=1 seek=777 conv=notrunc status=none
expect_refused "$B: bin_hash is" "${at3[@]}" --data-path 0.3 $A 0.7 $B
truncate -s -2 $B.bin
rm -rf again
cp -r at3 again
expect_exit 65 run_in again "${at3[@]}" --data-path 0.3 $A 0.7 $B
expect_text err "$B.bin: "
mv kept.bin $B.bin
expect_exit 0 run_in again "${at3[@]}" --data-path 0.3 $A 0.7 $B --split 70,20,10 --allow-data-change
# With the flag, the run says what has changed, and where it continues.
other='continues with other data: .*; the next sample is number'
expect_text err "warning: again/save/iter_0000003 $other 12 of the new order \(data set [01], document [0-9]+ \+ [0-9]+\)\$"
expect_text err 'other data: --split is "70,20,10", but was "80,10,10"; the next'
rm -rf again
cp -r at3 again
expect_exit 0 run_in again "${at3[@]}" --data-path 0.5 $A 0.5 $C --seed 5 --allow-data-change
expect_text err "other data: $C: bin_bytes is .*; --seed is 5, but was 1234; weights of train is \[0.5, 0.5\], but was"
expect_exit 0 run_in again "${at3[@]}" --data-path 0.5 $A 0.5 $C --seed 5 --allow-data-change --exit-interval 4
! grep -q "$other" err || fail 'the same data is reported as other data'

# A much longer run has a different sample order. This is reported, except for --data-order feistel.
for order in megatron feistel; do
  rm -rf moved
  expect_exit 0 run_in moved "${at3[@]}" --data-path $C --data-order $order
  expect_exit 0 run_in moved "${at3[@]}" --data-path $C --data-order $order --train-iters 9 --override-opt_param-scheduler
  grep -q 'in a different order' err && fail "$order: reports another order for a slightly longer run"
  expect_exit 0 run_in moved "${at3[@]}" --data-path $C --data-order $order --train-iters 400 --override-opt_param-scheduler
  report='not reported'
  grep -q 'was trained in a different order of the same samples (sample [0-9]* is data set 0' err && report=reported
  [ "$order $report" = 'megatron reported' ] || [ "$order $report" = 'feistel not reported' ] ||
    fail "$order: another order is $report"
done
# A cyclic run's order depends on how many samples a micro-batch has on all ranks together. This number must not change.
rm -rf at3
expect_exit 0 run_in at3 "${at3[@]}" --data-path $A --dataloader-type cyclic
expect_refused '--micro-batch-size times data-parallel size is 4, but was 2' "${at3[@]}" --data-path $A \
  --dataloader-type cyclic --micro-batch-size 4
expect_exit 0 run_in again "${at3[@]}" --data-path $B --dataloader-type cyclic --allow-data-change
expect_text err "$other 12 of the new order\$"

# mtl-data order prints the samples that such runs read, for any ranks.
order() { mtl-data order --seq-length 32 --micro-batch-size 1 --global-batch-size 8 "$@"; }
order --data-path 0.3 $A 0.7 $B --split 80,10,10 --train-iters 25 >one
order --data-path 0.3 $A 0.7 $B --split 80,10,10 --train-iters 25 --data-parallel-size 4 >four
[ "$(wc -l <one)" -eq 200 ] || fail "$(wc -l <one) samples instead of 200"
[ "$(grep -c '"dataset":0,' one)" -eq 60 ] || fail "$(grep -c '"dataset":0,' one) of 200 samples from the first data set"
expect_same <(sort one) <(sort four)
order --data-path 0.3 $A 0.7 $B --train-samples 61 --split 80,10,10 --rampup-batch-size 2 2 24 >grows
[ "$(wc -l <grows)" -eq 60 ] || fail "$(wc -l <grows) samples with growing batch sizes instead of 60"
order --data-path $C --split 100,0,0 --train-iters 20 --data-order feistel >one
order --data-path $C --split 100,0,0 --train-iters 20 --data-order feistel --data-parallel-size 2 --micro-batch-size 2 >two
[ "$(sort -u one | wc -l)" -eq 160 ] || fail 'a sample occurs twice in an epoch'
expect_same <(sort one) <(sort two)
order --data-path $C --split 100,0,0 --train-iters 20 --data-order feistel --seed 7 >two
cmp -s one two && fail 'the seed has no effect on --data-order feistel'
order --valid-data-path 2 $B 1 $C --train-iters 10 --eval-iters 3 --dataset valid >valid || fail 'no validation samples'
[ "$(wc -l <valid)" -eq 24 ] || fail "$(wc -l <valid) samples of validation instead of 24"
expect_exit 2 order --valid-data-path $B --train-iters 10
expect_text err '--train-data-path is required'
expect_exit 65 order --data-path $A $B --train-iters 5000
expect_text err 'without weights the 2 data sets provide one epoch, [0-9]+ samples for train'
expect_exit 0 order --data-path $A --split 1,0,0 --train-iters 1 --eod-mask-loss --num-workers 2
expect_text err '^mtl-data order: --num-workers has no effect on the order'
for kind in single cyclic; do
  order --data-path $C --split 50,50,0 --train-iters 10 --eval-iters 3 --dataset valid --dataloader-type $kind >"$kind.txt"
done
[ "$(wc -l <cyclic.txt)" -eq 24 ] || fail "$(wc -l <cyclic.txt) samples of a cyclic validation instead of 24"
cmp -s single.txt cyclic.txt && fail '--dataloader-type has no effect on validation'

# The log reports how long training waited for data.
expect_text plain/log.jsonl '"type": "step".*"data_stall_ms": [0-9.e-]+'
finish
