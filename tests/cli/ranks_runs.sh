# shellcheck shell=bash
# What the tests of interrupted jobs of ranks share; sourced after lib.sh and train_runs.sh, whose runs become jobs.
# Every layout has a folder, with the token files and the run that nothing interrupts.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 # MPI keeps what it allocated
# shellcheck disable=SC2034  # for those who source this
HOST=$(hostname)

# as_rank: starts a rank and leaves its process id in NAME.RANK.pid; on the rank $ONE after the shell words $SETUP.
cat >"$WORK/as_rank" <<'END'
#!/bin/bash
echo $$ >"$1.$OMPI_COMM_WORLD_RANK.pid"
shift
[ "$OMPI_COMM_WORLD_RANK" != "${ONE:-none}" ] || eval "$SETUP"
exec "$@"
END
chmod +x "$WORK/as_rank"

# However a test ends, no rank outlives it, not even a stopped one.
end_ranks() {
  local file pid
  for file in "$WORK"/*/*.pid; do
    [ -e "$file" ] || continue
    pid=$(<"$file")
    [[ $(readlink "/proc/$pid/cwd") != "$WORK"* ]] || kill -KILL "$pid"
  done
}
trap 'end_ranks; rm -rf "$WORK"' EXIT

# enter_layout NAME: the runs from here on are jobs of that layout, in its folder.
enter_layout() {
  case $1 in
    one) ranks=1 LAYOUT=() ;;
    tp) ranks=2 LAYOUT=(--tensor-model-parallel-size 2) ;;
    pp) ranks=2 LAYOUT=(--pipeline-model-parallel-size 2) ;;
    dp) ranks=2 LAYOUT=(--use-distributed-optimizer) ;;
    tp-pp) ranks=4 LAYOUT=(--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2) ;;
    tp-dp) ranks=4 LAYOUT=(--tensor-model-parallel-size 2 --sequence-parallel --use-distributed-optimizer) ;;
  esac
  mkdir -p "$WORK/$1"
  cd "$WORK/$1" || exit 1
  ln -sf ../c_text_document.* .
}

# run_in NAME FLAG...: the job, with further flags. No job outlives a minute.
run_in() {
  local name=$1
  shift
  timeout -s KILL 60 mpirun --oversubscribe -n "$ranks" ../as_rank "$name" mtl-train "${MODEL[@]}" "${LENGTH[@]}" \
    "${LAYOUT[@]}" --threads 1 --save "$name/save" --log-jsonl "$name/log.jsonl" "$@" </dev/null
}

# astray RANK SETUP COMMAND...: a job one of whose ranks starts in another way.
astray() {
  local -x ONE=$1 SETUP=$2
  shift 2
  "$@"
}

# start_job NAME FLAG...: in the background; what it says is in NAME.out and NAME.err.
start_job() {
  run_in "$@" >"$1.out" 2>"$1.err" &
  job=$!
}

# wait_until FILE PATTERN: until the job has said so.
wait_until() {
  while ! grep -qE -- "$2" "$1" 2>/dev/null; do
    kill -0 "$job" 2>/dev/null || break
    sleep 0.02
  done
  grep -qE -- "$2" "$1" || { fail "$1 does not come to say '$2'"; sed 's/^/    /' "${1%.*}.err" >&2; }
}

# send SIGNAL NAME RANK...: to ranks of that job.
send() {
  local signal=$1 name=$2 rank
  shift 2
  for rank in "$@"; do kill "-$signal" "$(<"$name.$rank.pid")" || fail "$signal: rank $rank of $name is gone"; done
}

# job_ends NAME CODE SECONDS: it has at most so many left.
job_ends() {
  local began=$SECONDS code
  wait "$job"
  code=$?
  [ "$code" -eq "$2" ] || { fail "$1: exit $code instead of $2"; sed 's/^/    /' "$1.err" >&2; }
  [ $((SECONDS - began)) -le "$3" ] || fail "$1: took $((SECONDS - began)) s to end"
}

# expect_count N FILE PATTERN: N of its lines match.
expect_count() {
  local got
  got=$(grep -cE -- "$3" "$2")
  [ "$got" -eq "$1" ] || { fail "$got lines instead of $1 like '$3'"; sed 's/^/    /' "$2" >&2; }
}

# newest_of NAME: the folder of the last checkpoint; "" without one.
newest_of() { find "$1/save" -name 'iter_???????' 2>/dev/null | sort | tail -1; }

# goes_on_as_whole NAME WHAT: the same command takes the newest checkpoint, and ends as if nothing had been.
goes_on_as_whole() {
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
