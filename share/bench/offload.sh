#!/usr/bin/env bash
# Measures updates of optimizer state in files (--offload-optimizer), compared with a loop of the same reads and writes,
# and with an update of the same state in memory. Usage: offload.sh BIN. MTL_BENCH_FOLDER is on the disk to measure (the
# folder for temporary files); MTL_BENCH_ROUNDS rounds (3), in which the two alternate; MTL_BENCH_QUICK=1 updates less
# state, as a smoke test.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh" "$1"
bench=$bin/mtl_bench_state
[ -x "$bench" ] || { echo "offload: not measured (no $bench; ninja mtl_bench_state builds it)" >&2; exit 0; }
folder=${MTL_BENCH_FOLDER:-$work}
case $(stat -f -c %T "$folder") in
  tmpfs | ramfs) echo "offload: not measured ($folder is in memory; set MTL_BENCH_FOLDER to a folder on a disk)" >&2; exit 0 ;;
esac
threads=${MTL_BENCH_THREADS:-2} million=64
[ -z "${MTL_BENCH_QUICK:-}" ] || million=8
echo "machine: $(machine), $threads threads; $("$bin/mtl-train" --version | head -1); $(stat -f -c %T "$folder")"
OMP_WAIT_POLICY=passive "$bench" "$folder" "$threads" "$million" "$rounds" > "$work/state"
of() { field "$1" < "$work/state" | median; }
printf '%-52s %6.2f GB/s each way, the loop %.2f, ratio %.2f (%s-%s)\n' "update of state in files, $million Mi parameters x 12 bytes" \
  "$(of update_gbs)" "$(of loop_gbs)" "$(of ratio)" "$(field ratio < "$work/state" | sort -g | head -1)" \
  "$(field ratio < "$work/state" | sort -g | tail -1)"
printf '%-52s %6.2f s, in memory %.2f s\n' "  the whole update" "$(of update_s)" "$(of memory_s)"
