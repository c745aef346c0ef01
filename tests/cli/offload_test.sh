#!/bin/bash
# Optimizer state in files (--offload-optimizer): the same bits as in memory in every layout and precision, no file left
# behind, and faults of the folder and its disk.
source "$(dirname "$0")/lib.sh" "$1"
source "$TESTS/cli/train_runs.sh"
source "$TESTS/cli/ranks_runs.sh"
cd "$WORK" || exit 1
preprocess "$CORPUS" c
mkdir state

# compare WHAT FLAG...: with these flags, the run with the state in files is like the run with the state in memory.
compare() {
  local what=$1
  shift
  rm -rf memory files
  expect_exit 0 run_in memory "$@"
  expect_exit 0 run_in files "$@" --offload-optimizer "$WORK/state"
  expect_metrics memory
  diff <(metrics_of memory) <(metrics_of files) >difference || { fail "$what: different metrics with --offload-optimizer"; head -4 difference >&2; }
  cat memory/save/iter_0000012/shard_* >whole.memory
  cat files/save/iter_0000012/shard_* >whole.files
  cmp -s whole.memory whole.files || fail "$what: different weights or moments with --offload-optimizer"
  [ -z "$(ls -A "$WORK/state")" ] || fail "$what: left behind in the folder: $(ls -A "$WORK/state")"
}
enter_layout one
compare 'fp32'
compare 'bf16' --bf16
compare 'fp16' --fp16 --initial-loss-scale 1024
compare 'bf16, stochastic rounding' --bf16 --main-params-dtype bf16 --stochastic-rounding --exp-avg-dtype bf16
enter_layout dp
compare 'ZeRO-1' --bf16
compare 'ZeRO-1, overlapped' --overlap-grad-reduce --overlap-param-gather --ddp-bucket-size 1
compare 'ZeRO-2' --bf16 --zero-stage 2
compare 'ZeRO-3' --zero-stage 3
enter_layout tp
compare 'TP' --bf16
enter_layout pp
compare 'PP' --bf16

# Without a name: the files cannot be found in the folder while the run uses them, not even after SIGKILL. Removing the
# folder does not affect the run.
cd "$WORK" || exit 1
# run_alone NAME FLAG...: a run of a larger model, so that it can be stopped after its first log line.
run_alone() {
  local name=$1
  shift
  exec mtl-train "${MODEL[@]}" "${LENGTH[@]}" --bf16 --hidden-size 256 --num-layers 4 --threads 1 --save "$name/save" \
    --log-jsonl "$name/log.jsonl" "$@"
}
alone() { (run_alone "$@"); }
expect_exit 0 alone whole
# open_files PID: the paths through which the process reaches its files in `folder`.
open_files() { find "/proc/$1/fd" -lname "$WORK/folder/*" 2>/dev/null; }
# pause_in NAME: starts the run in the background, and stops its process after its first log line.
pause_in() {
  mkdir -p folder
  run_alone "$1" --offload-optimizer folder >"$1.out" 2>"$1.err" &
  pid=$!
  until grep -q ' iteration ' "$1.out" || ! kill -0 $pid 2>/dev/null; do sleep 0.01; done
  kill -STOP $pid
  [ "$(open_files $pid | wc -l)" -eq 3 ] || fail "main weights and two moments are not 3 open files, but $(open_files $pid | wc -l)"
}
pause_in removed
rmdir folder || fail 'the folder is not empty while a run uses it'
kill -CONT $pid
wait $pid || { fail 'a run whose folder was removed does not end well'; cat removed.err >&2; }
same_as_whole removed 'a removed folder'
expect_exit 74 alone removed_again --offload-optimizer folder
expect_text err '^mtl-train: --offload-optimizer folder: cannot create a file there: No such file or directory; create the folder, or choose another one$'

pause_in killed
kill -KILL $pid
wait $pid 2>/dev/null
[ -z "$(ls -A folder)" ] || fail "SIGKILL leaves files: $(ls -A folder)"
expect_exit 0 alone killed --offload-optimizer folder
same_as_whole killed 'SIGKILL with state in files'

# The files are truncated, as by a disk that loses them: an error, not SIGBUS.
pause_in truncated
for file in $(open_files $pid); do truncate -s 0 "$file"; done
kill -CONT $pid
wait $pid
code=$?
[ $code -eq 74 ] || fail "a truncated file ends the run with $code instead of 74"
expect_text truncated.err '^mtl-train: --offload-optimizer folder: a file of this run was truncated; start again$'
expect_exit 0 alone truncated --offload-optimizer folder
same_as_whole truncated 'a truncated file'

# Errors of the disk at any write: the run ends with 74, and the same command continues from the last checkpoint.
# Interrupted and short writes are continued.
mkdir -p small/folder && cd small && ln -sf ../c_text_document.* . || exit 1
run_in() {
  local name=$1
  shift
  mtl-train "${MODEL[@]}" "${LENGTH[@]}" --bf16 --threads 1 --save "$name/save" --log-jsonl "$name/log.jsonl" "$@"
}
expect_exit 0 run_in whole
for kind in eio enospc; do
  failed=0
  for n in 2 4 40 77 131; do
    rm -rf faulty
    MTL_FAULT=$kind:$n run_in faulty --offload-optimizer folder >out 2>err
    code=$?
    [ $code -eq 0 ] || [ $code -eq 74 ] || { fail "$kind at operation $n: exit $code"; cat err >&2; }
    if grep -q 'offload-optimizer folder' err; then failed=$((failed + 1)); fi
    expect_exit 0 run_in faulty --offload-optimizer folder
    same_as_whole faulty "$kind at operation $n"
  done
  [ $failed -ge 3 ] || fail "only $failed of the faults $kind were in the files of --offload-optimizer"
done
rm -rf faulty
MTL_FAULT=short:11,eintr:14,short:17,short:42 expect_exit 0 run_in faulty --offload-optimizer folder
same_as_whole faulty 'short writes'

# All ranks end with the error of one.
source "$TESTS/cli/ranks_runs.sh"
enter_layout dp
mkdir -p folder
rm -rf faulty
with_rank_setup 1 'export MTL_FAULT=eio:20' expect_exit 74 run_in faulty --offload-optimizer folder
expect_text "$WORK/err" '^mtl-train: rank 0 .*: on rank 1: --offload-optimizer folder: cannot write to a file: Input/output error; check the disk, or choose a folder on another one'

# The disk is too small for the state, or for the state and a checkpoint. On tmpfs there is a warning.
cd "$WORK" || exit 1
on_disk() {
  local size=$1
  shift
  # shellcheck disable=SC2016 # the inner shell's words
  unshare -m sh -c 'mount -t tmpfs -o size="$0"k tmpfs disk && exec "$@"' "$size" "$@"
}
mkdir disk
big=(mtl-train "${MODEL[@]}" --train-iters 1 --lr-warmup-iters 0 --hidden-size 128 --offload-optimizer disk)
if on_disk 1000 true 2>/dev/null; then
  expect_exit 74 on_disk 3000 "${big[@]}"
  expect_text err "^mtl-train: --offload-optimizer disk: the files of this host's ranks take 3.6 MiB, but only 2.9 MiB are free; free some space, or choose a folder on another disk$"
  expect_exit 0 on_disk 6000 "${big[@]}"
  expect_text err '^mtl-train: warning: --offload-optimizer disk is in memory \(tmpfs\), so its files take the memory that they should save; choose a folder on a disk$'
  expect_exit 74 on_disk 6000 "${big[@]}" --save disk/ck
  expect_text err '^mtl-train: --save disk/ck: a checkpoint takes 5.[0-9] MiB, but only 2.[0-9] MiB are free'
  expect_exit 0 on_disk 20000 "${big[@]}" --save disk/ck
else
  echo 'not run: a disk that is too small, which this user cannot mount' >&2
fi

# A process's peak memory falls by as much as the plan says: 29 M parameters.
large=(mtl-train --num-layers 8 --hidden-size 512 --num-attention-heads 8 --vocab-size 8000 --tokenizer-type NullTokenizer
  --mock-data --seq-length 32 --max-position-embeddings 32 --micro-batch-size 1 --train-iters 3 --lr 0.001 --eval-iters 0
  --threads 1)
# peak COMMAND...: prints the peak resident memory in bytes, which the kernel keeps until the process ends.
peak() {
  local kb last=0
  "$@" >out 2>err </dev/null &
  while kb=$(awk '/^VmHWM/ {print $2}' "/proc/$!/status" 2>/dev/null) && [ -n "$kb" ]; do
    last=$kb
    sleep 0.01
  done
  wait $! || fail "$*"
  echo $((last * 1024))
}
# planned FLAG...: prints the planned bytes during a step, when there is no copy of a tensor (snapshot).
planned() {
  "${large[@]}" "$@" --dry-run --json | sed -n '/^  "memory_bytes"/,/}/p' |
    awk '$1 == "\"snapshot\":" {snapshot = $2} $1 == "\"total\":" {total = $2} END {print total - snapshot}'
}
fell=$(($(peak "${large[@]}") - $(peak "${large[@]}" --offload-optimizer folder)))
saved=$(($(planned) - $(planned --offload-optimizer folder)))
echo "state in files: planned $((saved >> 20)) MiB less, measured $((fell >> 20)) MiB less"
[ "$saved" -gt $((100 << 20)) ] || fail "the plan is only $saved bytes smaller"
expect_near "$fell" "$saved" 0.1

# Plans show what is in files. It is not memory.
expect_exit 0 mtl-train "${MODEL[@]}" --train-iters 12 --bf16 --offload-optimizer folder --dry-run
expect_text out '^files in bytes$'
expect_exit 0 mtl-train "${MODEL[@]}" --train-iters 12 --bf16 --offload-optimizer folder --dry-run --json
json=$(tr -d ' \n' <out)
[[ $json =~ \"parameters\":([0-9]+) ]] && count=${BASH_REMATCH[1]}
files=()
[[ $json =~ \"file_bytes\":\{\"optimizer\":([0-9]+),\"main_weights\":([0-9]+),\"total\":([0-9]+)\} ]] && files=("${BASH_REMATCH[@]:1}")
[ ${#files[@]} -eq 3 ] && [ "${files[0]}" -eq $((2 * files[1])) ] && [ "${files[1]}" -ge $((4 * count)) ] || fail "file_bytes: ${files[*]}"
topo=(mtl-topo --world-size 2 --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 --vocab-size 512 --bf16)
expect_exit 0 "${topo[@]}" --offload-optimizer folder
expect_text out '^Files of each rank, in KiB$'
expect_exit 0 "${topo[@]}" --offload-optimizer folder --format json
expect_text out '"file_bytes": \{'
expect_exit 0 "${topo[@]}" --offload-optimizer folder --format svg
expect_text out ', and [0-9.]+ [KM]iB in files<'
expect_exit 0 "${topo[@]}" --format json
expect_text out '"file_bytes": null'
expect_exit 2 mtl-train "${MODEL[@]}" --train-iters 1 --offload-optimizer folder --optimizer-cpu-offload
expect_text err '^  --optimizer-cpu-offload +keeps in host memory what --offload-optimizer keeps in files; use only one of them$'
finish
