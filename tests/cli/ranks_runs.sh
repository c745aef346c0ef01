# shellcheck shell=bash
# Shared by the tests for interrupted multi-rank jobs. Source it after lib.sh and train_runs.sh: its run_in starts an
# MPI job instead of a process. Each layout's folder contains the token files and the uninterrupted run.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0  # MPI keeps its allocations
# shellcheck disable=SC2034 # used by scripts that source this
HOST=$(hostname)

# as_rank: starts a rank and writes its process id to NAME.RANK.pid. On rank $ONE, runs the shell words $SETUP first.
cat >"$WORK/as_rank" <<'END'
#!/bin/bash
echo $$ >"$1.$OMPI_COMM_WORLD_RANK.pid"
shift
[ "$OMPI_COMM_WORLD_RANK" != "${ONE:-none}" ] || eval "$SETUP"
exec "$@"
END
chmod +x "$WORK/as_rank"

# No rank outlives the test, even if it is stopped.
kill_ranks() {
  local file pid
  for file in "$WORK"/*/*.pid; do
    [ -e "$file" ] || continue
    pid=$(<"$file")
    [[ $(readlink "/proc/$pid/cwd") != "$WORK"* ]] || kill -KILL "$pid"
  done
}
trap 'kill_ranks; end_test' EXIT

# enter_layout NAME: enters that layout's folder. Later runs use this layout.
enter_layout() {
  case $1 in
    one) ranks=1 LAYOUT=() ;;
    tp) ranks=2 LAYOUT=(--tensor-model-parallel-size 2) ;;
    pp) ranks=2 LAYOUT=(--pipeline-model-parallel-size 2) ;;
    chunks) ranks=2 LAYOUT=(--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Et||t|L') ;;
    zb) ranks=2 LAYOUT=(--pipeline-model-parallel-size 2 --pipeline-schedule zb-h1) ;;
    vee) ranks=2 LAYOUT=(--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Et||t|L' --pipeline-schedule zb-v) ;;
    dp) ranks=2 LAYOUT=(--use-distributed-optimizer) ;;
    zero2) ranks=2 LAYOUT=(--zero-stage 2) ;;
    zero3) ranks=4 LAYOUT=(--tensor-model-parallel-size 2 --sequence-parallel --zero-stage 3) ;;
    cp) ranks=2 LAYOUT=(--context-parallel-size 2 --use-distributed-optimizer) ;;
    ring) ranks=4 LAYOUT=(--context-parallel-size 4 --cp-comm-type p2p) ;;
    tp-pp) ranks=4 LAYOUT=(--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2) ;;
    tp-dp) ranks=4 LAYOUT=(--tensor-model-parallel-size 2 --sequence-parallel --use-distributed-optimizer) ;;
  esac
  mkdir -p "$WORK/$1"
  cd "$WORK/$1" || exit 1
  ln -sf ../c_text_document.* .
}

# run_in NAME FLAG...: runs the job NAME with additional flags. Kills it after a minute.
run_in() {
  local name=$1
  shift
  timeout -s KILL 60 mpirun --oversubscribe -n "$ranks" ../as_rank "$name" mtl-train "${MODEL[@]}" "${LENGTH[@]}" \
    "${LAYOUT[@]}" --threads 1 --save "$name/save" --log-jsonl "$name/log.jsonl" "$@" </dev/null
}

# with_rank_setup RANK SETUP COMMAND...: runs COMMAND. In its jobs, RANK runs the shell words SETUP first.
with_rank_setup() {
  local -x ONE=$1 SETUP=$2
  shift 2
  "$@"
}

# start_job NAME FLAG...: runs the job in the background. Its output goes to NAME.out and NAME.err.
start_job() {
  run_in "$@" >"$1.out" 2>"$1.err" &
  job=$!
}

# wait_until FILE PATTERN: waits until a line in FILE matches. Fails if the job ends first.
wait_until() {
  while ! grep -qE -- "$2" "$1" 2>/dev/null; do
    kill -0 "$job" 2>/dev/null || break
    sleep 0.02
  done
  grep -qE -- "$2" "$1" || { fail "$1 never contains '$2'"; sed 's/^/    /' "${1%.*}.err" >&2; }
}

# send SIGNAL NAME RANK...: sends SIGNAL to these ranks in the job NAME.
send() {
  local signal=$1 name=$2 rank
  shift 2
  for rank in "$@"; do
    kill "-$signal" "$(<"$name.$rank.pid")" || fail "SIG$signal: rank $rank of $name has already exited"
  done
}

# job_ends NAME CODE SECONDS: the job ends with CODE within SECONDS.
job_ends() {
  local began=$SECONDS code
  wait "$job"
  code=$?
  [ "$code" -eq "$2" ] || { fail "$1: exit $code instead of $2"; sed 's/^/    /' "$1.err" >&2; }
  [ $((SECONDS - began)) -le "$3" ] || fail "$1: took $((SECONDS - began)) s to end"
}

# expect_count N FILE PATTERN: N lines in FILE match.
expect_count() {
  local got
  got=$(grep -cE -- "$3" "$2")
  [ "$got" -eq "$1" ] || { fail "$got lines instead of $1 like '$3'"; sed 's/^/    /' "$2" >&2; }
}

# newest_of NAME: prints the newest checkpoint's folder, or "" if there is none.
newest_of() { find "$1/save" -name 'iter_???????' 2>/dev/null | sort | tail -1; }

# resumes_as_whole NAME WHAT: the same command resumes the newest checkpoint and ends like the uninterrupted run.
resumes_as_whole() {
  local newest
  newest=$(newest_of "$1")
  completes_as_whole "$1" "$2"
  if [ -n "$newest" ]; then
    expect_count 1 err "^mtl-train: resuming $newest at iteration"
  else
    expect_count 0 err 'resuming'
  fi
  expect_count 0 err 'not valid'
}
