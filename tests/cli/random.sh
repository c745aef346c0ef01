# shellcheck shell=bash
# Random cases of the long tests. Source lib.sh first. All draws follow from a seed and the number of the case.

# run_cases COUNT FUNCTION: calls FUNCTION for the cases number=1 to COUNT, each with draws of its own. MTL_SEED repeats
# a test, MTL_CASE runs only one case, and MTL_COUNT changes their number.
run_cases() {
  local seed=${MTL_SEED:-$RANDOM} count=${MTL_COUNT:-$1} number first=1
  echo "seed $seed: MTL_SEED=$seed repeats the $count cases; MTL_CASE=N runs only one, MTL_COUNT=N another number"
  [ -z "${MTL_CASE:-}" ] || first=$MTL_CASE count=$MTL_CASE
  for ((number = first; number <= count; ++number)); do
    RANDOM=$((seed * 7919 + number * 104729))
    "$2"
  done
}

# shellcheck disable=SC2034 # used by scripts that source this
# one_of WORD...: sets $drawn to one of the words. one_in N: true in one of N calls.
one_of() { shift $((RANDOM % $#)); drawn=$1; }
one_in() { [ $((RANDOM % $1)) -eq 0 ]; }

# without_time FOLDER: makes checkpoints that were written at different times comparable.
without_time() { find "$1" -name manifest.json -exec sed -i '/^  "time"/d; /^ "checksum"/d' {} +; }
