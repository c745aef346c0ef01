#!/usr/bin/env bash
# Measures mtl-convert on a model of 1.5 GB, compared with a loop that reads the same files and writes their bytes to one
# file with the same syncs (mtl_bench_convert copy): write-back as it goes, fsync, rename, fsync of the folder. Both are
# whole processes, from their start to their exit; they take turns to be first. mtl-convert also verifies the checksums
# of what it reads, and searches for NaN and infinity. Before each, the outputs before it are removed and synced, the
# input is read into the page cache or, in the row "from the disk", dropped from it, and as much memory as the output
# needs is filled and freed: a virtual machine may have to ask its host for memory that it has not used lately, which
# took up to eight times as long as writing to it. Peak memory is that of mtl-convert; it includes the pages of mapped
# files.
# Usage: convert.sh BIN [--json]. MTL_BENCH_FOLDER is on the disk to measure (the folder for temporary files);
# MTL_BENCH_ROUNDS rounds (3); MTL_BENCH_QUICK=1 converts a small model, as a smoke test.
set -euo pipefail
json=""
[ "${2:-}" != --json ] || json=yes
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh" "$1"
bench=$bin/mtl_bench_convert
[ -x "$bench" ] || { echo "convert: not measured (no $bench; ninja mtl_bench_convert builds it)" >&2; exit 0; }
if [ -n "${MTL_BENCH_FOLDER:-}" ]; then
  disk=$(mktemp -d "$MTL_BENCH_FOLDER/mtl-bench.XXXXXX")
  trap 'rm -rf "$work" "$disk"' EXIT
else
  disk=$work
fi
filesystem=$(stat -f -c %T "$disk")
case $filesystem in
  tmpfs | ramfs) echo "convert: not measured ($disk is in memory; set MTL_BENCH_FOLDER to a folder on a disk)" >&2; exit 0 ;;
esac
layers=6 width=2048 vocabulary=32000
[ -z "${MTL_BENCH_QUICK:-}" ] || layers=2 width=512 vocabulary=4000
largest=$((vocabulary * width * 4))  # bytes of the largest tensor
machine=$(machine)
version=$("$bin/mtl-convert" --version | head -1)
[ -n "$json" ] || printf 'machine: %s; %s; %s\n' "$machine" "$version" "$filesystem"

quietly() {  # COMMAND...: prints the output only if the command fails
  "$@" > "$work/quiet" 2>&1 || { echo "convert: failed: $*" >&2; cat "$work/quiet" >&2; return 1; }
}
weights() { find "$disk/$1" -type f \( -name '*.safetensors' -o -name '*.distcp' -o -name '*.pt' \) -size +1000k; }
prepare() {  # FILE...: removes the outputs, and brings the input into the page cache, or drops it from there
  rm -rf "$disk/out" "$disk/copy"
  sync -f "$disk"
  local file
  for file in "$@"; do
    if [ "$cache" = disk ]; then
      dd if="$file" iflag=nocache count=0 status=none
    else
      cat "$file" > /dev/null
    fi
  done
  head -c "$bytes" /dev/zero > "$disk/copy"
  rm "$disk/copy"
}
timed() {  # NAME COMMAND...: adds the seconds and the peak memory of a process to $work/NAME
  local name=$1
  shift
  quietly "$bench" run "$@"
  grep peak_bytes "$work/quiet" >> "$work/$name"
}
ours() { prepare "$@" && timed ours "$bin/mtl-convert" --load "$disk/$from" --save "$disk/out" "${flags[@]}"; }
theirs() { prepare "$@" && timed theirs "$bench" copy "$disk/copy" "$@"; }

# row TITLE CACHE FROM FLAG...: converts the folder FROM, whose weights are in the page cache or on the disk.
row() {
  local title=$1 cache=$2 from=$3 flags=("${@:4}") files bytes ratio low high peak
  mapfile -t files < <(weights "$from")
  bytes=$(cat "${files[@]}" | wc -c)
  rm -f "$work/ours" "$work/theirs"
  for round in $(seq "$rounds"); do
    if [ $((round % 2)) = 1 ]; then ours "${files[@]}" && theirs "${files[@]}"; else theirs "${files[@]}" && ours "${files[@]}"; fi
  done
  seconds_of() { field seconds < "$work/$1"; }
  paste <(seconds_of ours) <(seconds_of theirs) | awk '{printf "%.4f\n", $2 / $1}' > "$work/ratios"
  ratio=$(median < "$work/ratios") low=$(least < "$work/ratios") high=$(most < "$work/ratios")
  peak=$(field peak_bytes < "$work/ours" | most)
  if [ -z "$json" ]; then
    printf '%-44s %5.0f MB  %6.0f MB/s, the loop %6.0f, ratio %.2f (%.2f-%.2f); memory %4.0f MB, largest tensor %.0f\n' "$title" \
      "$((bytes / 1000000))" "$(seconds_of ours | median | rate)" "$(seconds_of theirs | median | rate)" "$ratio" "$low" "$high" \
      "$((peak / 1000000))" "$((largest / 1000000))"
  fi
  printf '{"conversion": "%s", "input_in": "%s", "bytes": %d, "seconds": %s, "loop_seconds": %s, "ratio": %s, "ratio_min": %s, '\
'"ratio_max": %s, "peak_bytes": %d, "largest_tensor_bytes": %d}\n' "$title" "$cache" "$bytes" "$(seconds_of ours | median)" \
    "$(seconds_of theirs | median)" "$ratio" "$low" "$high" "$peak" "$largest" >> "$work/rows"
}
rate() { awk -v bytes="$bytes" '{print bytes / 1e6 / $1}'; }

quietly "$bench" make "$disk/mtl" "$layers" "$width" "$vocabulary"
quietly "$bin/mtl-convert" --load "$disk/mtl" --save "$disk/torch_dist" --to megatron --ckpt-format torch_dist
row "torch_dist to Hugging Face" memory torch_dist
row "torch_dist to Hugging Face, from the disk" disk torch_dist
if [ -z "${MTL_BENCH_QUICK:-}" ]; then
  row "torch_dist to mtl" memory torch_dist --to mtl
  row "torch_dist to Megatron-LM's torch format" memory torch_dist --to megatron
  row "mtl to Hugging Face" memory mtl
  quietly "$bin/mtl-convert" --load "$disk/mtl" --save "$disk/torch" --to megatron
  rm -rf "$disk/torch_dist"
  row "Megatron-LM's torch format to Hugging Face" memory torch
  quietly "$bin/mtl-convert" --load "$disk/mtl" --save "$disk/hf"
  rm -rf "$disk/torch" "$disk/mtl"
  row "Hugging Face to mtl" memory hf --to mtl
  row "Hugging Face to torch_dist" memory hf --to megatron --ckpt-format torch_dist
fi
[ -z "$json" ] || printf '{"machine": "%s", "version": "%s", "file_system": "%s", "rounds": %d,\n  "conversions": [\n    %s]}\n' \
  "$machine" "$version" "$filesystem" "$rounds" "$(paste -sd, "$work/rows" | sed 's/},{/},\n    {/g')"
