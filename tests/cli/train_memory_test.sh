#!/bin/bash
# Runs that exceed memory or disk space fail before they start. The suggested settings fit and run.
source "$(dirname "$0")/lib.sh" "$1"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
enter_data_folder
cp "$TESTS"/golden/ages/0.1.0/documents_text_document.* .
# The run needs 366 MiB, including 301 MiB for activations. A checkpoint takes 39 MiB.
run=(--num-layers 4 --hidden-size 256 --num-attention-heads 4 --max-position-embeddings 512 --seq-length 512
  --tokenizer-type NullTokenizer --vocab-size 512 --data-path documents_text_document --split 100,0,0 --lr 1e-3
  --train-iters 1 --eval-iters 0 --log-interval 1 --threads 1 --peak-tflops 1 --micro-batch-size 8 --global-batch-size 8)

# limited KIB COMMAND...: runs COMMAND with at most KIB KiB of address space.
limited() {
  local kib=$1
  shift
  (ulimit -v "$kib" && exec "$@")
}
# check_advice COMMAND...: the error in err makes three suggestions, and COMMAND runs with the first.
check_advice() {
  sed -nE 's/^  (--.*): [0-9.]+ [KMG]iB per rank$/\1/p' err >advice
  [ "$(wc -l <advice)" -eq 3 ] || { fail "$(wc -l <advice) suggestions instead of 3"; cat err >&2; }
  # shellcheck disable=SC2046 # the advice is words
  expect_exit 0 "$@" $(head -1 advice)
  expect_text out ' iteration +1/ +1 '
}

if is_sanitized mtl-train; then
  echo 'not run: limits of address space, below what a sanitizer reserves' >&2
else
  expect_exit 2 limited 520000 mtl-train "${run[@]}" --save refused
  expect_text err '^mtl-train: not enough memory: the run needs [0-9.]+ MiB, but only [0-9.]+ MiB is available \(the limit of address space \(ulimit -v\): [0-9.]+ MiB are free, and about [0-9.]+ MiB are for libraries and 3 more threads\); the largest part is activations, [0-9.]+ MiB of [0-9.]+ MiB. These fit:$'
  expect_text err '^  --micro-batch-size [12]: '
  [ ! -s out ] && [ ! -e refused ] || fail 'a refused run leaves files'
  check_advice limited 520000 mtl-train "${run[@]}"
  expect_exit 0 limited 520000 mtl-train "${run[@]}" --dry-run
  expect_exit 0 mtl-train "${run[@]}"

  # The same for programs that only compute forward. By default, mtl-eval takes as many windows as fit.
  expect_exit 0 mtl-train "${run[@]}" --micro-batch-size 1 --global-batch-size 1 --save model
  score=(mtl-eval --load model --data-path documents_text_document --threads 1)
  expect_exit 0 "${score[@]}"
  mv out want
  expect_exit 0 limited 175000 "${score[@]}"
  expect_text err '^mtl-eval: using --batch-size [124], because 8 do not fit into memory$'
  expect_near "$(cut -d' ' -f2 out)" "$(cut -d' ' -f2 want)" 1e-6
  expect_exit 2 limited 175000 "${score[@]}" --batch-size 8
  expect_text err '^mtl-eval: not enough memory: 8 windows of 512 tokens and the program need [0-9.]+ MiB, but only '
  expect_text err ' MiB is available \(the limit of address space \(ulimit -v\)\); use a smaller --batch-size$'
  expect_exit 2 limited 700000 mtl-generate --load model --ids --prompt 1 --batch-size 100000 --num-samples 100000
  expect_text err '^mtl-generate: not enough memory: a batch of 100,000 sequences of up to [0-9]+ tokens and the program'
  expect_text err '; use a smaller --batch-size or --max-new-tokens, or provide more memory$'

  # The limit counts the threads that a run has at most. Those that read batches come and go.
  mkdir state
  threaded=("${run[@]}" --micro-batch-size 1 --global-batch-size 2 --hidden-size 64 --train-iters 30)
  # as_rank COMMAND...: writes the process id of its rank, then runs COMMAND.
  cat >as_rank <<'END'
echo $$ >"pid.${OMPI_COMM_WORLD_RANK:-0}"
[ -z "$KIB" ] || ulimit -v "$KIB"
exec "$@"
END
  # check_threads WORDS FLAG...: WORDS, such as mpirun, start the run.
  check_threads() {
    local start=$1 counted most=0 now
    shift
    rm -rf pid.0 saved
    # shellcheck disable=SC2086 # words
    KIB=200000 expect_exit 2 $start bash as_rank mtl-train "${threaded[@]}" "$@"
    counted=$(sed -nE 's/.*libraries and ([0-9]+) more threads.*/\1/p' err | head -1)
    # shellcheck disable=SC2086 # words
    KIB='' $start bash as_rank mtl-train "${threaded[@]}" "$@" >/dev/null 2>&1 &
    while kill -0 $! 2>/dev/null; do
      now=$(awk '/^Threads:/ {print $2 - 1}' "/proc/$(cat pid.0)/status" 2>/dev/null)
      [ "${now:-0}" -le "$most" ] || most=$now
    done
    wait $! || fail "a run ends with $?: $start $*"
    [ "$most" -le "$counted" ] && [ "$most" -ge $((counted - 2)) ] ||
      fail "$most more threads, but $counted are counted: $start $*"
  }
  check_threads ''
  check_threads '' --save saved --save-interval 5 --offload-optimizer state
  check_threads 'mpirun -n 2 --oversubscribe' --save saved --offload-optimizer state
fi

# Ranks on one host share a cgroup's memory. One rank fits into 550 MiB, but two do not.
group=/sys/fs/cgroup/memory/mtl-test-$$
if ! is_sanitized mtl-train && { [ -e /sys/fs/cgroup/memory/memory.limit_in_bytes ] && mkdir "$group"; } 2>/dev/null; then
  # shellcheck disable=SC2317 # called by the trap
  leave_group() { rmdir "$group" "$group"-?; end_test; }
  trap leave_group EXIT
  echo $((550 << 20)) >"$group/memory.limit_in_bytes"
  # in_group COMMAND...: runs COMMAND in the cgroup.
  in_group() { (echo "$BASHPID" >"$group/tasks" && exec "$@"); }
  expect_exit 0 in_group mtl-train "${run[@]}"
  expect_exit 2 in_group mpirun -n 2 --oversubscribe mtl-train "${run[@]}" --global-batch-size 16
  expect_text err "^mtl-train: rank 0 \(.*\): not enough memory: the run's 2 ranks on this host need [0-9.]+ MiB, but only [0-9.]+ MiB is available \(the memory cgroup .*mtl-test-$$ \(memory.limit_in_bytes\): [0-9.]+ MiB are free, and about 96.0 MiB are for libraries of 2 ranks\); the largest part is activations, [0-9.]+ MiB of [0-9.]+ MiB per rank"
  check_advice in_group mpirun -n 2 --oversubscribe mtl-train "${run[@]}" --global-batch-size 16
  echo $((80 << 20)) >"$group/memory.limit_in_bytes"
  expect_exit 0 in_group "${score[@]}"
  expect_text err '^mtl-eval: using --batch-size [124], because 8 do not fit into memory$'
  echo $((28 << 20)) >"$group/memory.limit_in_bytes"
  expect_exit 2 in_group "${score[@]}"
  expect_text err "^mtl-eval: not enough memory: the model's weights and .*; use --dtype bfloat16, or provide more memory$"
  expect_exit 2 in_group mtl-convert --load model --save converted --verify --threads 1
  expect_text err '^mtl-convert: not enough memory: the weights that --verify compares .*; convert without --verify, or '
  expect_exit 0 in_group mtl-convert --load model --save converted --threads 1
  # A group for each rank: both fit, although one group would not hold both. A small one is refused with its rank.
  for rank in 0 1; do
    mkdir "$group-$rank"
    echo $((550 << 20)) >"$group-$rank/memory.limit_in_bytes"
  done
  # shellcheck disable=SC2016 # the rank's words
  apart=(mpirun -n 2 --oversubscribe bash -c 'echo $$ >"$0-$OMPI_COMM_WORLD_RANK/tasks"; exec "$@"' "$group"
    mtl-train "${run[@]}" --global-batch-size 16)
  expect_exit 0 "${apart[@]}"
  echo $((200 << 20)) >"$group-1/memory.limit_in_bytes"
  expect_exit 2 "${apart[@]}"
  expect_text err "not enough memory: rank 1 needs [0-9.]+ MiB, but only [0-9.]+ MiB is available \(the memory cgroup .*mtl-test-$$-1 "
else
  echo 'not run: limits of a cgroup, which this user cannot make, or which a sanitizer exceeds' >&2
fi

# The disk for --save: a checkpoint does not fit into 20 MiB. One fits into 60 MiB, but a second does not.
# on_disk MIB COMMAND...: runs COMMAND with a MIB MiB file system at `disk`.
on_disk() {
  local size=$1
  shift
  # shellcheck disable=SC2016 # the inner shell's words
  unshare -m sh -c 'mount -t tmpfs -o size="$0"m tmpfs disk && exec "$@"' "$size" "$@"
}
# A file of the checkpoint exceeds the limit of file sizes.
(
  ulimit -f 20000
  failures=0
  expect_exit 74 mtl-train "${run[@]}" --micro-batch-size 1 --global-batch-size 1 --save limited
  expect_text err '^mtl-train: --save limited: shard_00000.safetensors of a checkpoint takes 39.2 MiB, but a file can have only 19.5 MiB; raise the limit of file sizes \(ulimit -f\)$'
  [ ! -s out ] || fail 'trains although no save can succeed'
  exit "$failures"
) || fail 'see above'
mkdir disk
if on_disk 1 true 2>/dev/null; then
  small=("${run[@]}" --micro-batch-size 1 --global-batch-size 1 --save disk/ck)
  expect_exit 74 on_disk 20 mtl-train "${small[@]}"
  expect_text err '^mtl-train: --save disk/ck: a checkpoint takes 39.2 MiB, but only 20.0 MiB are free; .*--save'
  [ ! -s out ] || fail 'trains without room for its checkpoint'
  expect_exit 0 on_disk 60 mtl-train "${small[@]}"
  grep -q warning err && fail 'warns although the checkpoint fits'
  expect_exit 0 on_disk 100 mtl-train "${small[@]}" --train-iters 6 --save-interval 2 --exit-interval 2
  expect_text err '^mtl-train: warning: --save disk/ck: the run adds 3 checkpoints of 39.2 MiB, but only 100.0 MiB are free, enough for 2; '
  expect_exit 0 on_disk 60 mtl-train "${small[@]}" --dry-run
  # ramfs reports a size of 0, which means that the free space is unknown.
  # shellcheck disable=SC2016 # the inner shell's words
  expect_exit 0 unshare -m sh -c 'mount -t ramfs ramfs disk && exec "$@"' sh mtl-train "${small[@]}"
  grep -q 'only' err && fail "ramfs: $(cat err)"
else
  echo 'not run: a disk that is too small, which this user cannot mount' >&2
fi
finish
