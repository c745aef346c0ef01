# Shared by the benchmark scripts: source it with the folder of the programs as $1. Sets bin, share, rounds, work.
# shellcheck shell=bash disable=SC2034 # used by the scripts that source this
export LC_ALL=C
bin=$(cd "$1" && pwd)
share=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
rounds=${MTL_BENCH_ROUNDS:-3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

median() { sort -g | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }
least() { sort -g | head -1; }
most() { sort -g | tail -1; }
field() { sed -nE "s/.*\"$1\": ?([-+.0-9eE]+).*/\1/p"; }

machine() {  # "CPU, ISA: sse4_2 avx2"
  local flags name isa=""
  flags=" $(grep -m1 '^flags' /proc/cpuinfo) "
  for name in sse4_2 avx2 avx512f amx_bf16; do
    case $flags in *" $name "*) isa="$isa $name" ;; esac
  done
  echo "$(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2 | sed 's/^ //'), ISA:$isa"
}

make_text() {  # JSON lines, $work/text.jsonl
  xz -dc "$share/demo/tinyshakespeare.txt.xz" | awk -f "$share/demo/documents.awk" -v heldout=/dev/null > "$work/text.jsonl"
}

make_tokens() {  # PREFIX VOCAB MERGES WORKERS: token files $work/PREFIX_text_document
  "$bin/mtl-preprocess" --quiet --input "$work/text.jsonl" --output-prefix "$work/$1" --tokenizer-type GPT2BPETokenizer \
    --vocab-file "$2" --merge-file "$3" --append-eod --workers "$4"
}
