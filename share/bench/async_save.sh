#!/usr/bin/env bash
# What saves cost a run of GPT-2 124M (T 1024, B 1, fp32, a checkpoint of 1.5 GB): the time from the first to the last
# iteration without saves, with three saves that --async-save writes behind the iterations, and with three that the
# iterations wait for, on a disk that is slowed to 400 MB/s. Usage: async_save.sh BIN. MTL_BENCH_THREADS threads (2);
# MTL_BENCH_ROUNDS rounds (3), in which the three alternate; MTL_BENCH_FOLDER for the checkpoints, with room for 7 GB
# (the folder for temporary files). MTL_BENCH_QUICK=1 makes few iterations of a small model, as a smoke test.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$here/lib.sh" "$1"
threads=${MTL_BENCH_THREADS:-2}
disk=$bin/mtl_slow_disk.so rate=400000000
[ -e "$disk" ] || { echo "async_save: not measured (no $disk; ninja mtl_slow_disk builds it)" >&2; exit 0; }
iterations=30 interval=8 layers=12 width=768 heads=12 length=1024
[ -z "${MTL_BENCH_QUICK:-}" ] || iterations=12 interval=4 layers=2 width=64 heads=2 length=64 rounds=1
saves=$(mktemp -d -p "${MTL_BENCH_FOLDER:-$work}")
trap 'rm -rf "$work" "$saves"' EXIT
echo "machine: $(machine), $threads threads; $("$bin/mtl-train" --version | head -1); disk of $((rate / 1000000)) MB/s"
make_text
make_tokens gpt2 "$share/gpt2/vocab.json" "$share/gpt2/merges.txt" "$threads"
run=("$bin/mtl-train" --num-layers "$layers" --hidden-size "$width" --num-attention-heads "$heads"
  --seq-length "$length" --max-position-embeddings "$length" --micro-batch-size 1 --train-iters "$iterations" --lr 1e-4
  --hidden-dropout 0 --attention-dropout 0 --eval-iters 0 --log-interval 1 --peak-tflops 1 --threads "$threads"
  --vocab-file "$share/gpt2/vocab.json" --merge-file "$share/gpt2/merges.txt" --data-path "$work/gpt2_text_document")

# seconds NAME FLAG...: appends the seconds from the end of the first iteration to the end of the last to the file NAME,
# and those of the median iteration to NAME_step. The save after the last iteration, which every run needs, is left out.
seconds() {
  local name=$1
  shift
  rm -rf "$saves/save"
  { LD_PRELOAD=$disk MTL_SLOW_DISK=$rate "${run[@]}" "$@" 2> "$work/messages" || { cat "$work/messages" >&2 && exit 1; }; } |
    while read -r line; do case $line in *' iteration '*) date +%s.%N ;; esac; done > "$work/times"
  awk 'NR == 1 {first = $1} END {printf "%.3f\n", $1 - first}' "$work/times" >> "$work/$name"
  awk 'NR > 1 {printf "%.3f\n", $1 - last} {last = $1}' "$work/times" | median >> "$work/${name}_step"
}
for _ in $(seq "$rounds"); do
  seconds none
  seconds async --save "$saves/save" --save-interval "$interval" --keep-last 2 --async-save
  seconds waiting --save "$saves/save" --save-interval "$interval" --keep-last 2
done
step=$(median < "$work/none_step")
printf '%-44s %7.2f s, of %.2f s each\n' "$((iterations - 1)) iterations without saves" "$(median < "$work/none")" "$step"
for name in async waiting; do
  paste "$work/$name" "$work/none" | awk '{print $1 - $2}' > "$work/more"
  what="3 saves that iterations wait for"
  [ $name = waiting ] || what="3 saves with --async-save"
  printf '%-44s %7.2f s, %.2f iterations more per save\n' "$what" "$(median < "$work/$name")" \
    "$(echo "$(median < "$work/more") $step" | awk '{print $1 / 3 / $2}')"
done
