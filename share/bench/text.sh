#!/usr/bin/env bash
# Measures text processing: MB/s of GPT-2's tokenizer on English documentation, C code and Chinese, Japanese and Korean,
# in memory on one core and as a whole process, the shares of its stages, and a 32k vocabulary learned; compared with
# tokenizers, tiktoken and gigatoken where the peers' Python (MTL_PEER_PYTHON, else python3) has them. Usage: text.sh BIN.
# The corpora are made of Debian packages that are installed (make_corpus.py names them); a kind without any is left out.
# MTL_BENCH_ROUNDS rounds (3), each in turn with the peers. Megabytes: MTL_BENCH_TEXT_MB of each kind in memory (20),
# MTL_BENCH_WHOLE_MB as a whole process (100), MTL_BENCH_VOCAB_MB to learn from (100).
# Token files are written to MTL_BENCH_OUTPUT (/dev/shm where there is room, so that no disk is measured).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$here/lib.sh" "$1"
python=${MTL_PEER_PYTHON:-python3}
megabytes=${MTL_BENCH_TEXT_MB:-20}
whole_mb=${MTL_BENCH_WHOLE_MB:-100}
vocab=$share/gpt2/vocab.json
merges=$share/gpt2/merges.txt
"$python" "$here/text_peers.py" versions > "$work/versions" 2> /dev/null || : > "$work/versions"
mapfile -t peers < <(cut -d' ' -f1 "$work/versions")
echo "machine: $(machine); $("$bin/mtl-preprocess" --version); peers: $(paste -sd, "$work/versions" | sed 's/^$/none/; s/,/, /g')"

# make_corpus KIND MEGABYTES FILE: reports and fails if no package of this kind is installed.
make_corpus() {
  python3 "$here/make_corpus.py" "$1" "$2M" -o "$3" --tile 2> "$work/corpus.err" && return
  echo "$1: not measured; $(tail -n 1 "$work/corpus.err")"
  return 1
}

hash_of() { sed -E 's/.*"sha256": "([0-9a-f]+)".*/\1/'; }
rate_of() { [ ! -s "$work/$1" ] || median < "$work/$1"; }
print_rate() {  # LABEL NAME UNIT: ours, and the peers next to it; the ratio is the median of the rounds'
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
      [ "$name" != tokenizers ] || [ "$round" -eq 1 ] || continue  # far slower: once is enough
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
  print_rate "$1, in memory, first pass" first MB/s
  print_rate "$1, in memory, again" again MB/s
  for peer in "${peers[@]}"; do
    cmp -s "$work/mtl.ids" "$work/$peer.ids" || echo "$1: THE IDS OF $peer DIFFER"
  done
  [ ${#peers[@]} -eq 0 ] || echo "  ids compared: $(cut -c1-16 "$work/mtl.ids")"
}

# figure NAME FIELD: the median of a field of the lines in NAME.runs.
figure() { field "$2" < "$work/$1.runs" | median; }
ratio_of() { paste <(field "$3" < "$work/$1.runs") <(field "$3" < "$work/$2.runs") | awk '{print $2 / $1}' | median; }

preprocess() {  # CORPUS WORKERS [NAME]
  python3 "$here/text_peers.py" run "$bin/mtl-preprocess" --quiet --input "$1" --output-prefix "$tokens/${3:-tokens}" \
    --tokenizer-type GPT2BPETokenizer --vocab-file "$vocab" --merge-file "$merges" --append-eod --workers "$2"
}

# two_processes: the seconds of the slower of two processes with half of the corpus each: the bound for two workers on
# this machine.
two_processes() {
  preprocess "$work/half.aa" 1 first > "$work/first.run" &
  preprocess "$work/half.ab" 1 second > "$work/second.run"
  wait
  cat "$work/first.run" "$work/second.run" | field wall | sort -g | tail -n 1 | sed 's/.*/{"wall": &}/' >> "$work/bound.runs"
}

# A whole process, token files included, next to gigatoken's reader of JSON lines, which writes nothing and whose
# start-up is not counted. It takes less than a second, in which a shared machine can be a third slower than in the next:
# so there are five times as many rounds, and what a ratio compares runs one after the other.
whole_process() {  # KIND CORPUS
  local workers megabytes has_peer=no
  ! grep -q '^gigatoken ' "$work/versions" || has_peer=yes
  rm -f "$work"/*.runs
  head -n 1 "$2" > "$work/one.jsonl"
  split -n l/2 "$2" "$work/half."
  megabytes=$(stat -c %s "$2" | awk '{print $1 / 1e6}')
  peer() {  # WORKERS
    [ $has_peer = no ] || RAYON_NUM_THREADS=$1 "$python" "$here/text_peers.py" files "$corpus" "$vocab" "$merges" \
      >> "$work/gigatoken$1.runs"
  }
  local corpus=$2
  for _ in $(seq $((5 * rounds))); do
    preprocess "$work/one.jsonl" 1 >> "$work/start.runs"
    peer 1
    preprocess "$corpus" 1 >> "$work/mtl1.runs"
    preprocess "$corpus" 2 >> "$work/mtl2.runs"
    two_processes
    peer 2
    [ ! -x "$bin/mtl_bench_text" ] || "$bin/mtl_bench_text" "$corpus" "$vocab" "$merges" >> "$work/stages.runs"
  done
  for workers in 1 2; do
    for name in mtl gigatoken; do
      [ -s "$work/$name$workers.runs" ] || continue
      echo "$megabytes $(figure $name$workers wall) $(figure $name$workers cpu) $(figure $name$workers peak_mb)" |
        awk -v label="$1, whole process, $workers thread$([ $workers = 1 ] || echo s)" -v name=$name \
          '{printf "%-38s %-9s %7.1f MB/s   %5.2f s of CPU   %4.0f MB of memory\n", label, name, $1 / $2, $3, $4}'
    done
    [ $has_peer = no ] || printf '  mtl / gigatoken, %d thread(s)           ratio %.2f by time, %.2f by CPU time\n' $workers \
      "$(ratio_of mtl$workers gigatoken$workers wall)" "$(ratio_of mtl$workers gigatoken$workers cpu)"
  done
  printf '  two workers / one                      ratio %.2f by time; two processes with a half each / one: %.2f\n' \
    "$(ratio_of mtl2 mtl1 wall)" "$(ratio_of bound mtl1 wall)"
}

# Shares of one worker's CPU time in whole_process: the stages that can run alone, and the remainder.
stages() {
  [ -s "$work/stages.runs" ] || return 0
  echo "$(figure start cpu) $(figure stages read_s) $(figure stages json_s) $(figure stages encode_s)" \
    "$(figure mtl1 cpu)" | awk '{
      rest = $5 - $1 - $2 - $3 - $4
      printf "  shares of CPU time, one worker         start %.0f %%, read %.0f %%, JSON %.0f %%, encode %.0f %%, write %.0f %%\n",
        100 * $1 / $5, 100 * $2 / $5, 100 * $3 / $5, 100 * $4 / $5, 100 * rest / $5 }'
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

tokens=${MTL_BENCH_OUTPUT:-}
if [ -z "$tokens" ]; then
  tokens=$work
  if [ "$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 {print $4}')" -gt $((8 * whole_mb * 1000)) ] 2>/dev/null; then
    tokens=$(mktemp -d -p /dev/shm)
    trap 'rm -rf "$work" "$tokens"' EXIT
  fi
fi
echo "token files are written to $(df -PT "$tokens" | awk 'NR == 2 {print $2}') ($tokens)"
for kind in prose code cjk; do
  make_corpus $kind "$whole_mb" "$work/whole.jsonl" || continue
  awk -v limit="${megabytes}000000" 'total + length($0) < limit {total += length($0) + 1; print; next} {exit}' \
    "$work/whole.jsonl" > "$work/$kind.jsonl"
  encode_in_memory $kind "$work/$kind.jsonl"
  whole_process $kind "$work/whole.jsonl"
  stages
done
vocab_mb=${MTL_BENCH_VOCAB_MB:-100}
! make_corpus prose "$vocab_mb" "$work/learn.jsonl" || learn_vocabulary "$work/learn.jsonl"
