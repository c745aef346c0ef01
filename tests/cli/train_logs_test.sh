#!/bin/bash
# Logs: if a log cannot be written, the run continues, and no run erases another run's lines.
source "$(dirname "$0")/lib.sh" "$1"
source "$(dirname "$0")/train_runs.sh"
cd "$WORK" || exit 1
prepare_runs

UNSAVED=("${MODEL[@]}" --train-iters 12 --eval-interval 5 --log-interval 2)
# same_weights NAME WHAT: despite WHAT, the run NAME ends with the same weights as `whole`.
same_weights() { cmp -s "$1/save/$LAST" "whole/save/$LAST" || fail "$2: different weights than with a working log"; }
# once FILE PATTERN: exactly one line matches.
once() { [ "$(grep -cE -- "$2" "$1")" -eq 1 ] || { fail "not one line like '$2' in $1"; sed 's/^/    /' "$1" >&2; }; }

# The log says what runs. A line's rates are those of its samples and its time.
sed -nE '1s/.*"parameters": (.*), "data": \{.*/\1/p' whole/log.jsonl | sed -E 's/("threads": )[0-9]+/\1N/' >start
cat >expected <<'END'
42880, "threads": N, "precision": "fp32", "tf32": false, "attention_backend": "auto", "world_size": 1, "tensor_parallel": 1, "pipeline_parallel": 1, "data_parallel": 1, "context_parallel": 1, "peak_tflops": 0.1, "global_batch_size": 4, "seq_length": 32, "train_iterations": 12
END
expect_same start expected
grep '"type": "step"' whole/log.jsonl | grep -oE '"[a-z_]+": ' | tr -d '": ' | sort | uniq -c | awk '{ print $1, $2 }' >keys
printf '6 %s\n' consumed_samples data_stall_ms elapsed_ms_per_iteration global_batch_size grad_norm iteration learning_rate \
  lm_loss loss_scale mfu_a mfu_b nan_iterations skipped_iterations tflops_per_device tokens_per_second type >expected
expect_same keys expected
awk "$VALUE"'/"type": "step"/ {
    ms = value("elapsed_ms_per_iteration")
    printf "%.5g %.5g %.5g %.5g\n", value("tokens_per_second") * ms, value("tflops_per_device") * ms, value("mfu_a") * ms, value("mfu_b") * ms
  }' whole/log.jsonl | sort -u >rates
echo '1.28e+05 0.03303 0.34505 0.36078' >expected
expect_same rates expected

# On a full disk, the log loses the start, 6 intervals, 2 validations and the last 2 evaluations. The run succeeds.
expect_exit 0 run_in full --log-jsonl /dev/full
once err '^mtl-train: warning: /dev/full: cannot write .*No space left on device; free some space on that disk; training continues'
once err '^mtl-train: warning: /dev/full: 11 lines could not be written'
[ "$(wc -l <err)" -eq "$(grep -cE 'training|saved|/dev/full' err)" ] || fail 'warns more than once'
same_weights full '--log-jsonl /dev/full'
expect_exit 0 run_in cut --log-jsonl /dev/full --exit-interval 4
once err '^mtl-train: warning: /dev/full: 3 lines could not be written'

# A file that is not a log stays unchanged, with or without lines: data, the tokenizer, a configuration.
printf '{"a": 1}' >object.json
printf 'train-iters = 12\n' >run.conf
for file in object.json run.conf c_text_document.bin c_text_document.idx; do
  cp "$file" kept
  expect_exit 65 mtl-train "${UNSAVED[@]}" --log-jsonl "$file"
  once err "^mtl-train: $file:1 is not a line of a training log .*--log-jsonl"
  expect_same "$file" kept
  expect_exit 2 mtl-train "${UNSAVED[@]}" --log-jsonl "$file" --fp8-hybrid
  once err "^  --log-jsonl $file .*not a line of a training log"
done

# Reports a path that cannot be examined.
ln -s loop loop
expect_exit 0 mtl-train "${UNSAVED[@]}" --log-jsonl loop
once err '^mtl-train: warning: loop: cannot create: Too many levels of symbolic links.*; training continues'
expect_exit 74 mtl-train "${UNSAVED[@]}" --load loop/x
grep -q 'internal error' err && fail 'reports a loop of links as an internal error'

# On a terminal, a line below the log shows the state of the run; every message erases it. Elsewhere there is none.
script -qec "stty cols 78; mtl-train ${UNSAVED[*]} --train-iters 40 --log-interval 15 --save shown --save-interval 25" \
  terminal </dev/null >out || fail 'no run on a terminal'
tr '\r' '\n' <terminal >lines
line=$'^\033\\[Kiteration [0-9]+ of 40 \\| loss [0-9.]+ \\| [0-9,]+ tokens/s \\| MFU [0-9.]+% \\| '
grep -qE "$line" lines || fail 'no status line on a terminal'
grep -E $'^\033\\[Kiteration' lines | awk 'length($0) > 3 + 77 { exit 1 }' || fail 'the status line is wider than the terminal'
grep -qE $'^\033\\[K( \\[|---|mtl-train: )' lines || fail 'a message does not replace the status line'
mtl-train "${UNSAVED[@]}" >out 2>err
grep -q tokens/s err && fail 'a status line without a terminal'

# Standard output that cannot be written or has no reader.
run_in stdout >/dev/full 2>err || fail "exit $? with > /dev/full"
once err '^mtl-train: warning: standard output: cannot write: No space left on device; free some space on that disk; training continues'
once err '^mtl-train: warning: standard output: 18 lines could not be written'
same_weights stdout '> /dev/full'
run_in closed 2>err >&- || fail "exit $? with >&-"
once err 'warning: standard output: 18 lines could not be written'
run_in head 2>err | head -1 >out
[ "${PIPESTATUS[0]}" -eq 0 ] || fail "exit ${PIPESTATUS[0]} with | head -1"
expect_text out ' iteration +2/ +12 '
once err 'warning: standard output: [0-9]+ lines could not be written .*Broken pipe'
same_weights head '| head -1'

# A failed write loses one line. All other lines are complete.
for fault in enospc eio; do
  for at in 2 3 5; do
    rm -rf one.jsonl
    MTL_FAULT=$fault:$at expect_exit 0 mtl-train "${UNSAVED[@]}" --log-jsonl one.jsonl
    once err 'warning: one.jsonl: 1 line could not be written'
    grep -v '"type": "start"' one.jsonl >metrics
    awk '!/^\{"type": .*\}$/ { exit 1 }' one.jsonl || fail "$fault:$at: an incomplete line in the log"
    [ "$(wc -l <metrics)" -ge 9 ] || fail "$fault:$at: $(wc -l <metrics) lines of metrics"
  done
done
# TensorBoard's folder cannot be written, either from the start or later.
expect_exit 0 run_in board --tensorboard-dir board/events
whole_bytes=$(cat board/events/* | wc -c)
for at in 2 3 5 9; do
  rm -rf events
  MTL_FAULT=enospc:$at expect_exit 0 mtl-train "${UNSAVED[@]}" --tensorboard-dir events
  once err 'No space left on device.*; training continues'
  [ "$(find events -type f | wc -l)" -eq 1 ] || fail "enospc:$at: not one event file"
  [ "$(cat events/* | wc -c)" -gt $((whole_bytes / 2)) ] || fail "enospc:$at: metrics after the failure are missing"
done
# The folder for Weights & Biases cannot be written. The run has one folder, in which no record is incomplete.
expect_exit 0 run_in weights --wandb-project p --wandb-save-dir weights
whole_bytes=$(cat weights/wandb/*/*.wandb | wc -c)
for at in 1 2 3 5 9; do
  rm -rf lost
  MTL_FAULT=enospc:$at expect_exit 0 mtl-train "${UNSAVED[@]}" --wandb-project p --wandb-save-dir lost
  once err 'No space left on device.*; training continues'
  once err 'lost: [1-9] rows? could not be written'
  [ "$(find lost/wandb -mindepth 1 -maxdepth 1 | wc -l)" -eq 1 ] || fail "enospc:$at: not one folder"
  [ "$(cat lost/wandb/*/*.wandb | wc -c)" -gt $((whole_bytes / 2)) ] || fail "enospc:$at: rows after the failure are missing"
done
# A small file system that is full at first and later has room again.
mkdir small
if mount -t tmpfs -o size=4k tmpfs small 2>/dev/null; then
  echo '{"type": "start", "version": 1, "iteration": 0}' >small/log
  expect_exit 0 run_in tmpfs --log-jsonl small/log --tensorboard-dir small/events
  once err 'warning: small/log: [0-9]+ lines could not be written'
  awk '!/^\{"type": .*\}$/ { exit 1 }' small/log || fail 'an incomplete line in the log on a full disk'
  same_weights tmpfs 'a full tmpfs'
  umount small
else
  echo 'SKIPPED: a full tmpfs: cannot mount one' >&2
fi

# Another run with the same log file appends to it. A resume removes only its own run's lines.
cp whole/log.jsonl shared.jsonl
whole_lines=$(wc -l <shared.jsonl)
expect_exit 0 run_in second --log-jsonl shared.jsonl --seed 2 --exit-interval 7
head -n "$whole_lines" shared.jsonl | cmp -s - whole/log.jsonl || fail 'a fresh run erases the lines of another one'
expect_exit 0 run_in second --log-jsonl shared.jsonl --seed 2
expect_exit 0 run_in alone --seed 2
tail -n +$((whole_lines + 1)) shared.jsonl >second/log.jsonl
diff <(metrics_of second) <(metrics_of alone) >difference || { fail 'resumed in a shared log: different metrics'; head -4 difference >&2; }
head -n "$whole_lines" shared.jsonl | cmp -s - whole/log.jsonl || fail 'a resume erases the lines of another run'
# If the folder is removed and the same command starts over, the first run's lines stay.
rm -r second/save
expect_exit 0 run_in second --log-jsonl shared.jsonl --seed 2
[ "$(wc -l <shared.jsonl)" -gt $((2 * whole_lines)) ] || fail 'a new run in a new folder erases the log'

# The time of an iteration excludes validation, here of 400 batches after iteration 2.
expect_exit 0 mtl-train --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 64 --mock-data \
  --max-position-embeddings 64 --tokenizer-type NullTokenizer --vocab-size 512 --micro-batch-size 4 --global-batch-size 8 \
  --lr 0.001 --train-iters 4 --log-interval 2 --peak-tflops 1 --eval-interval 2 --eval-iters 400 --log-jsonl held.jsonl
sed -n 's/.*"iteration": \([24]\),.*"elapsed_ms_per_iteration": \([0-9.]*\).*/\1 \2/p' held.jsonl |
  awk '{ ms[$1] = $2 } END { exit !(ms[2] > 0 && ms[4] > 0 && ms[4] < 5 * ms[2]) }' || fail 'an iteration includes validation'

# If a run is shorter than a log interval, it reports its last iteration. It warns if there is no --save.
expect_exit 0 mtl-train "${UNSAVED[@]}" --log-interval 100 --log-jsonl short.jsonl --threads 1
once err '^mtl-train: training 42,880 parameters on a CPU process of 1 thread: iterations 1 to 12, each of 4 x 32 tokens; the first report comes after iteration 12$'
once out ' iteration +12/ +12 .* lm loss: [0-9]'
once short.jsonl '"type": "step", "iteration": 12, .*"lm_loss": [0-9.]+,.*"final": true'
once err '^mtl-train: warning: without --save the trained model is not kept$'
finish
