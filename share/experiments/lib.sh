# Shared by the experiments that compare runs: source it with share, MTL_BIN, VOCAB and MERGES set.
# shellcheck shell=bash disable=SC2154,SC2034 # set and used by the scripts that source this

mtl=${MTL_BIN:+$MTL_BIN/}mtl- # the programs' prefix
tokenizer=(--tokenizer-type GPT2BPETokenizer --vocab-file "$VOCAB" --merge-file "$MERGES")

# write_shakespeare FILE: the demo's text as JSON lines with "text"; a part is held out in heldout.jsonl next to it.
write_shakespeare() {
  local folder
  folder=$(dirname "$1")
  xz -dc "$share/demo/tinyshakespeare.txt.xz" |
    awk -f "$share/demo/documents.awk" -v speeches=4 -v heldout="$folder/heldout.jsonl" >"$1"
}

# largest_memory FLAG...: MiB of the rank that needs the most, from mtl-train's plan with these flags.
largest_memory() {
  "${mtl}train" "$@" --quiet --dry-run --json | awk '$1 == "\"total\":" { printf "%.1f", $2 / 1048576 }'
}

# step_figures LOG: samples/s, the median of the last 11 log lines, and the loss of the last one.
step_figures() {
  local lines rate
  lines=$(grep '"type": "step"' "$1" | tail -n 11)
  rate=$(sed -E 's/.*"global_batch_size": ([^,]+),.*"elapsed_ms_per_iteration": ([^,]+),.*/\1 \2/' <<<"$lines" |
    awk '{ print 1000 * $1 / $2 }' | sort -g | awk '{ rate[NR] = $1 } END { print rate[int((NR + 1) / 2)] }')
  echo "$rate $(tail -n 1 <<<"$lines" | sed -E 's/.*"lm_loss": ([^,]+),.*/\1/')"
}

# last_validation LOG: the iteration and the perplexity of the last validation.
last_validation() {
  grep '"type": "validation"' "$1" | tail -n 1 | sed -E 's/.*"iteration": ([0-9]+),.*"ppl": ([^,}]+).*/\1 \2/'
}
