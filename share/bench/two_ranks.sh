# Runs of two ranks of one thread each, and of one process on each of the same two cores; source it after lib.sh.
# shellcheck shell=bash disable=SC2154 # lib.sh sets bin and work
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
bench=$(basename "$0" .sh)

# The processors of the first two cores that this process may use, one core a line, as mpirun binds ranks to them.
two_cores() {
  taskset -cp $$ | sed 's/.*: //' | tr , '\n' | awk -F- '{for (c = $1; c <= $NF; ++c) print c}' > "$work/allowed"
  lscpu -p=cpu,core,socket | awk -F, 'NR == FNR {may[$1]; next}
    !/^#/ && ($1 in may) {core = $2 "," $3; if (!(core in list)) {order[++count] = core; list[core] = $1} else list[core] = list[core] "," $1}
    END {for (k = 1; k <= count && k <= 2; ++k) print list[order[k]]}' "$work/allowed" -
}

command -v mpirun > /dev/null || { echo "$bench: not measured (no mpirun)" >&2; exit 0; }
mapfile -t cores < <(two_cores)
[ ${#cores[@]} -eq 2 ] || { echo "$bench: not measured (two cores are needed)" >&2; exit 0; }

# quietly NAME COMMAND...: prints the output only if COMMAND fails.
quietly() {
  local name=$1
  shift
  "$@" > "$work/$name.out" 2>&1 < /dev/null || { echo "$bench: $name failed:" >&2; cat "$work/$name.out" >&2; return 1; }
}
on_two_cores() { mpirun -n 2 --bind-to core --map-by core "$@"; }
# on_each_core COMMAND...: runs COMMAND on both cores at the same time, with 0 and 1 for @ in its words, and waits for both.
on_each_core() {
  local k failed=0 pids=()
  for k in 0 1; do
    quietly "alone$k" taskset -c "${cores[k]}" "${@//@/$k}" &
    pids+=($!)
  done
  for k in "${pids[@]}"; do wait "$k" || failed=1; done  # both, so that neither outlives this script
  return $failed
}

# steady NAME FIELD: the median of FIELD over all steps of the log but the first two.
steady() { grep '"step"' "$work/$1.jsonl" | tail -n +3 | field "$2" | median; }
