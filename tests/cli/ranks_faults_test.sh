#!/bin/bash
# If one rank is faulty, a job ends within seconds, with the right exit code, and identifies that rank.
source "$(dirname "$0")/lib.sh" "$1"
HOST=$(hostname)

# run_ranks CODE SECONDS ARGUMENTS...: a 4-rank job ends with CODE within SECONDS.
run_ranks() {
  local code=$1 limit=$2 start=$SECONDS
  shift 2
  expect_exit "$code" timeout -s KILL 60 mpirun --oversubscribe -n 4 "$BIN/mtl_rank_faults" "$@"
  [ $((SECONDS - start)) -le "$limit" ] || fail "took $((SECONDS - start)) s instead of at most $limit: $*"
}

# expect_count N PATTERN: N lines in stderr match.
expect_count() {
  local got
  got=$(grep -cE -- "$2" "$WORK/err")
  [ "$got" -eq "$1" ] || { fail "$got lines instead of $1 like '$2'"; sed 's/^/    /' "$WORK/err" >&2; }
}

# A rank stops before MPI starts, never starts it, or stops before MPI ends. MPI itself would wait forever. mpirun 4.1
# may crash or hang in PMIx_server_finalize and lose output it has not forwarded. The ranks therefore write to a file,
# and mpirun may have any exit code but 0. These jobs wait for 10 s; checked at the end of this file.
began=$SECONDS
for fault in start absent end; do
  {
    timeout -s KILL 60 mpirun --oversubscribe -n 4 bash -c 'exec "${@:2}" 2>>"$1"' ranks "$WORK/$fault.err" \
      "$BIN/mtl_rank_faults" --fault $fault </dev/null >"$WORK/$fault.out" 2>"$WORK/$fault.mpirun"
    echo "$? $SECONDS" >"$WORK/$fault.code"
  } &
done

# A rank writes for longer than the deadline and then stops. Also checked at the end.
{
  timeout -s KILL 60 mpirun --oversubscribe -n 4 "$BIN/mtl_rank_faults" --fault write --deadline 1 </dev/null \
    >"$WORK/write.out" 2>"$WORK/write.err"
  echo $? >"$WORK/write.code"
} &

# No fault: only rank 0 prints. Without mpirun, the program is a job with one rank.
run_ranks 0 20
expect_count 1 'rank-faults: rank 1: warning: seldom heard$'
expect_text "$WORK/out" '^iteration 6 sum 4$'
expect_count 1 'rank-faults: counting$'
expect_exit 0 mtl_rank_faults
expect_text "$WORK/out" '^iteration 6 sum 1$'
run_ranks 75 20 --fault requeue
expect_text "$WORK/out" '^iteration 6 sum 4$'

# A rank is stopped: the lowest waiting rank prints one table.
run_ranks 1 20 --fault stop --who 3
expect_count 1 'did not end within 2.00 s; '
expect_text "$WORK/err" "rank 0 \($HOST\): all-reduce #2 in group 'data' \(4 bytes, iteration 3\) did not end"
# Rank 0 has waited for the deadline, and then 1.2 s for answers.
expect_text "$WORK/err" "^  rank 0 .* waits for all-reduce #2 in group 'data' .*, ([3-9]|1[0-9])\.[0-9] s so far$"
expect_text "$WORK/err" "rank 3 \($HOST\) gave no answer: stopped or hung; last message .* all-reduce #1 .* iteration 2"
expect_count 3 "^  rank [012] \($HOST\) waits for all-reduce #2 in group 'data'"
run_ranks 1 20 --fault stop --who 0
expect_count 1 'did not end within'
expect_text "$WORK/err" "^rank-faults: rank 1 \($HOST\): all-reduce #2"
expect_text "$WORK/err" "rank 0 \($HOST\) gave no answer"

# One rank calls a different operation than the other ranks.
run_ranks 1 20 --fault receive --deadline 1
expect_text "$WORK/err" "^  rank 1 \($HOST\) waits for receive #0 of activations from rank 0 in group 'data'"
expect_count 3 "^  rank [023] \($HOST\) waits for all-reduce #2 in group 'data'"
run_ranks 1 20 --fault broadcast --deadline 1
expect_text "$WORK/err" "^  rank 1 \($HOST\) waits for all-reduce #3 "
run_ranks 1 20 --fault size
expect_text "$WORK/err" "rank 1 sent more than the 4 bytes expected: the ranks perform different operations"
for iteration in $(grep -o '^iteration [0-9]*' "$WORK/out" | cut -d' ' -f2); do
  [ "$iteration" -le 2 ] || fail "iteration $iteration completed, though the ranks called different operations"
done

# A rank is killed or fails by itself: the job ends with its exit code.
run_ranks 137 10 --fault kill --who 2
expect_text "$WORK/err" "rank 2 .*node $HOST exited on signal 9"
run_ranks 65 10 --fault data
expect_text "$WORK/err" "^rank-faults: rank 1 \($HOST\): x.idx: broken"
run_ranks 65 10 --fault drop
expect_text "$WORK/err" "^rank-faults: rank 1 \($HOST\): x.idx: broken in the middle"
run_ranks 1 10 --fault bug
expect_text "$WORK/err" "^rank-faults: rank 1 \($HOST\): internal error: surprise"

# A rank fails while messages are in flight: all ranks receive the error and can still communicate.
for who in 0 3; do
  run_ranks 65 15 --fault together --who $who
  expect_count 1 "^rank-faults: rank 0 \($HOST\): on rank $who: x.idx: broken$"
  expect_count 1 '^rank-faults: rank [0-9]+ \('
  expect_text "$WORK/out" '^agreed: 0 1 2 3 $'
done

# If ranks were started differently, rank 0 reports it once.
run_ranks 2 10 --fault agree
expect_count 1 'ranks of this job do not agree'
expect_text "$WORK/err" "^  flags: rank 1 \($HOST\) has '--lr 2', but rank 0 \($HOST\) has '--lr 1'"

# Wrong flags, before MPI starts: rank 0 reports errors common to all ranks, and a rank reports errors of its own.
run_ranks 2 10 --nonsense
expect_count 1 '^rank-faults: 1 problem'
expect_text "$WORK/err" '--nonsense +unknown flag'
run_ranks 2 10 --fault flags --who 3
expect_text "$WORK/err" '^rank-faults: rank 3: 1 problem'
run_ranks 0 10 --help
[ "$(grep -c '^rank-faults: counts' "$WORK/out")" -eq 1 ] || fail "not one --help from four ranks"

# The jobs without one rank, started first.
wait
for fault in start absent end; do
  read -r code seconds <"$WORK/$fault.code"
  [ "$code" -ne 0 ] && [ $((seconds - began)) -le 45 ] || fail "$fault: exit $code after $((seconds - began)) s"
  [ $fault = end ] || [ ! -s "$WORK/$fault.out" ] || fail "$fault: the ranks counted, though one is missing"
done
# A rank stops after the last synchronization.
expect_text "$WORK/end.out" '^iteration 6 sum 4$'
expect_text "$WORK/end.err" "^rank-faults: rank 0 \($HOST\): not all 4 ranks reached the end of MPI within 10.0 s; "
cp "$WORK/start.err" "$WORK/err"
expect_count 1 "^rank-faults: rank 0 \($HOST\): not all 4 ranks reached the start within 10.0 s; "
# If a rank leaves early, mpirun may end the job immediately and without a message. It must not wait for that rank.
read -r code seconds <"$WORK/absent.code"
[ $((seconds - began)) -lt 10 ] ||
  expect_text "$WORK/absent.err" "^rank-faults: rank 0 \($HOST\): not all 4 ranks reached the start within 10.0 s; "

# Slow storage is reported at the deadline and whenever the wait has doubled, not at every deadline, and a rank that stops
# later is found.
[ "$(<"$WORK/write.code")" = 1 ] || fail "a rank that writes and stops: exit $(<"$WORK/write.code")"
warnings=$(grep -c "warning: slow storage: waited .* so far: rank 1 ($HOST) writes a file: " "$WORK/write.err")
[ "$warnings" -ge 1 ] && [ "$warnings" -le 4 ] || fail "$warnings warnings of a wait of 8 s"
expect_text "$WORK/write.err" "rank 1 \($HOST\) gave no answer: stopped or hung"

# Unsupported launchers.
expect_exit 2 env RANK=0 WORLD_SIZE=8 LOCAL_RANK=0 MASTER_ADDR=b mtl_rank_faults
expect_text "$WORK/err" 'torchrun \(RANK=.* mpirun -n 8 rank-faults'
expect_exit 2 env SLURM_PROCID=0 SLURM_NTASKS=2 mtl_rank_faults
expect_text "$WORK/err" 'srun --mpi=pmix -n 2 rank-faults'

# Single-process tools do not load MPI. Tools without a model do not load Highway's library, which takes 3 ms.
for tool in mtl-preprocess mtl-data mtl-eval; do
  [ ! -e "$BIN/$tool" ] || ! ldd "$BIN/$tool" | grep -q libmpi || fail "$tool loads libmpi"
done
for tool in mtl-preprocess mtl-vocab; do
  [ ! -e "$BIN/$tool" ] || ! ldd "$BIN/$tool" | grep -q libhwy || fail "$tool loads libhwy"
done
finish
