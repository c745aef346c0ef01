#!/bin/bash
# What --rerun-mode finds of flipped bits: adds the tables of mtl_flips over the layouts. MTL_SEED repeats a run;
# MTL_COUNT is the number of flips in each layout.
source "$(dirname "$0")/lib.sh" "$1"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 MTL_SEED=${MTL_SEED:-1} MTL_COUNT=${MTL_COUNT:-25}
echo "seed $MTL_SEED: MTL_SEED=$MTL_SEED repeats the $((4 * MTL_COUNT)) flips"
for layout in one data tensor stages; do
  ranks=2
  [ $layout != one ] || ranks=1
  expect_exit 0 mpirun --oversubscribe -n $ranks "$BIN/mtl_flips" --layout=$layout </dev/null
  cat "$WORK/out" >>"$WORK/tables"
done
# Replicas after wrong updates.
expect_exit 0 mpirun --oversubscribe -n 4 "$BIN/mtl_flips" --layout=replicas </dev/null
awk -F'|' '
  /^\| `/ {mode = $0}
  /^\| [a-z]/ {
    if (!(mode SUBSEP $2 in seen)) {seen[mode, $2] = 1; names[mode, ++rows[mode]] = $2; if (rows[mode] == 1) modes[++count] = mode}
    for (i = 3; i < NF; ++i) sum[mode, $2, i] += $i
    columns = NF
  }
  END {
    for (m = 1; m <= count; ++m) {
      print "\n" modes[m] "\n|---|---|---|---|---|---|---|"
      for (r = 1; r <= rows[modes[m]]; ++r) {
        name = names[modes[m], r]
        line = "|" name "|"
        for (i = 3; i < columns; ++i) line = line " " sum[modes[m], name, i] " |"
        print line
      }
    }
  }' "$WORK/tables"
finish
