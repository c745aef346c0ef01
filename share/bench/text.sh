#!/usr/bin/env bash
# Measured figures of text: MB/s of GPT-2's tokenizer on English documentation, C code and Chinese, Japanese and Korean,
# in memory on one core and end to end, and a 32k vocabulary learned; beside tokenizers, tiktoken and gigatoken where
# the peers' Python (MTL_PEER_PYTHON, else python3) has them. Usage: text.sh BIN.
# The corpora are made of Debian packages that are installed (make_corpus.py names them); a kind without any is left out.
# MTL_BENCH_ROUNDS rounds (3), each in turn with the peers; MTL_BENCH_TEXT_MB megabytes of each kind (20), and
# MTL_BENCH_VOCAB_MB to learn from (100).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$here/lib.sh" "$1"
python=${MTL_PEER_PYTHON:-python3}
megabytes=${MTL_BENCH_TEXT_MB:-20}
vocab=$share/gpt2/vocab.json
merges=$share/gpt2/merges.txt
"$python" "$here/text_peers.py" versions > "$work/versions" 2> /dev/null || : > "$work/versions"
mapfile -t peers < <(cut -d' ' -f1 "$work/versions")
echo "machine: $(machine); $("$bin/mtl-preprocess" --version); peers: $(paste -sd, "$work/versions" | sed 's/^$/none/; s/,/, /g')"

# make_corpus KIND MEGABYTES FILE: false, after saying so, when no package of this kind is installed.
make_corpus() {
  python3 "$here/make_corpus.py" "$1" "$2M" -o "$3" --tile 2> "$work/corpus.err" && return
  echo "$1: not measured; $(tail -n 1 "$work/corpus.err")"
  return 1
}

hash_of() { sed -E 's/.*"sha256": "([0-9a-f]+)".*/\1/'; }
rate_of() { [ ! -s "$work/$1" ] || median < "$work/$1"; }
say_rate() {  # LABEL NAME UNIT: ours, and the peers beside it; the ratio is the median of the rounds'
  printf '%-38s mtl %7.1f %s' "$1" "$(rate_of "mtl.$2")" "$3"
  local peer
  for peer in "${peers[@]}"; do
    [ ! -s "$work/$peer.$2" ] || printf '   %s %.1f, ratio %.2f' "$peer" "$(rate_of "$peer.$2")" \
      "$(paste "$work/mtl.$2" "$work/$peer.$2" | awk 'NF == 2 {print $1 / $2}' | median)"
  done
  echo
}

encode_in_memory() {  # KIND CORPUS
  local name peer round
  [ -x "$bin/mtl_bench_text" ] || { echo "$1, in memory: not measured (no mtl_bench_text)"; return; }
  rm -f "$work"/*.first "$work"/*.again "$work"/*.ids
  for round in $(seq "$rounds"); do
    for name in mtl "${peers[@]}"; do
      [ "$name" != tokenizers ] || [ "$round" -eq 1 ] || continue  # it is so much slower that once will do
      if [ "$name" = mtl ]; then
        "$bin/mtl_bench_text" "$2" "$vocab" "$merges" > "$work/out"
      else
        RAYON_NUM_THREADS=1 "$python" "$here/text_peers.py" encode "$name" "$2" "$vocab" "$merges" > "$work/out"
      fi
      field first < "$work/out" >> "$work/$name.first"
      field again < "$work/out" >> "$work/$name.again"
      hash_of < "$work/out" > "$work/$name.ids"
    done
  done
  say_rate "$1, in memory, first pass" first MB/s
  say_rate "$1, in memory, again" again MB/s
  for peer in "${peers[@]}"; do
    cmp -s "$work/mtl.ids" "$work/$peer.ids" || echo "$1: THE IDS OF $peer DIFFER"
  done
  [ ${#peers[@]} -eq 0 ] || echo "  ids compared: $(cut -c1-16 "$work/mtl.ids")"
}

end_to_end() {  # KIND CORPUS
  local workers
  rm -f "$work"/mtl.workers*
  for _ in $(seq "$rounds"); do
    for workers in 1 2; do
      local begin
      begin=$(date +%s.%N)
      "$bin/mtl-preprocess" --quiet --input "$2" --output-prefix "$work/tokens" --tokenizer-type GPT2BPETokenizer \
        --vocab-file "$vocab" --merge-file "$merges" --append-eod --workers "$workers"
      echo "$begin $(date +%s.%N) $(stat -c %s "$2")" | awk '{print $3 / 1e6 / ($2 - $1)}' >> "$work/mtl.workers$workers"
    done
  done
  for workers in 1 2; do
    say_rate "$1, mtl-preprocess, --workers $workers" workers$workers "MB/s, whole process"
  done
}

learn_vocabulary() {  # CORPUS
  local begin
  rm -f "$work"/*.learn
  begin=$(date +%s.%N)
  "$bin/mtl-vocab" --quiet --input "$1" --vocab-size 32000 --output-prefix "$work/ours"
  echo "$begin $(date +%s.%N)" | awk '{print $2 - $1}' > "$work/mtl.learn"
  printf '%-38s mtl %7.1f s' "32k vocabulary of $vocab_mb MB, English" "$(cat "$work/mtl.learn")"
  if grep -q '^tokenizers ' "$work/versions"; then
    begin=$(date +%s.%N)
    "$python" "$here/text_peers.py" train "$1" 32000 "$work/theirs" > "$work/out"
    echo "$begin $(date +%s.%N)" | awk '{print $2 - $1}' > "$work/tokenizers.learn"
    printf '   tokenizers %.1f s, ratio %.1f' "$(cat "$work/tokenizers.learn")" \
      "$(paste "$work/tokenizers.learn" "$work/mtl.learn" | awk '{print $1 / $2}')"
    cmp -s "$work/ours-merges.txt" "$work/theirs-merges.txt" || printf '   THE MERGES DIFFER'
  fi
  echo
}

for kind in prose code cjk; do
  make_corpus $kind "$megabytes" "$work/$kind.jsonl" || continue
  encode_in_memory $kind "$work/$kind.jsonl"
  end_to_end $kind "$work/$kind.jsonl"
done
vocab_mb=${MTL_BENCH_VOCAB_MB:-100}
! make_corpus prose "$vocab_mb" "$work/learn.jsonl" || learn_vocabulary "$work/learn.jsonl"
