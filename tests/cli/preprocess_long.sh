#!/bin/bash
# mtl-preprocess on inputs that are large when unpacked: memory stays bounded. Signals at random times leave either all
# files or none.
source "$(dirname "$0")/lib.sh" "$1"
GPT2="--vocab-file $SHARE/gpt2/vocab.json --merge-file $SHARE/gpt2/merges.txt"
cd "$WORK" || exit 1

# bounded MB COMMAND...: runs COMMAND with at most MB megabytes of address space, unless it is sanitized.
bounded() {
  local limit=$(($1 * 1000))
  shift
  if is_sanitized mtl-preprocess; then "$@"; else (ulimit -v $limit && exec "$@"); fi
}

# measure_peak COMMAND...: runs COMMAND and sets peak_mb to its peak memory, polled ten times per second.
measure_peak() {
  local kb
  peak_mb=0
  "$@" >out 2>err &
  while kb=$(awk '/^VmHWM/ {print $2}' "/proc/$!/status" 2>/dev/null) && [ -n "$kb" ]; do
    peak_mb=$((kb / 1000))
    sleep 0.1
  done
  wait $! || fail "exit $?: $* $(cat err)"
}

# A 1 GB line is rejected, both plain and compressed in every format.
line() { printf '{"text": "short"}\n{"text": "'; head -c 1000000000 /dev/zero | tr '\0' x; printf '"}\n'; }
line | gzip -1 >line.gz
line | xz -0 >line.xz
line | zstd -q >line.zst
for kind in gz xz zst; do
  expect_exit 65 bounded 2000 mtl-preprocess --input line.$kind --output-prefix x $GPT2 --workers 2
  expect_text err "^mtl-preprocess: line.$kind:2: the line is longer than 256.0 MiB, the limit"
done
expect_exit 65 bounded 2000 mtl-preprocess --input - --output-prefix x $GPT2 --workers 2 --skip-bad 5 < <(line)
expect_text err "^mtl-preprocess: standard input:2: the line is longer than"
[ -z "$(ls x* 2>/dev/null)" ] || fail "left behind: $(ls x*)"

# A line shorter than the limit is accepted.
{ printf '{"text": "'; yes word | head -c 200000000 | tr '\n' ' '; printf '"}\n'; } | zstd -q >below.zst
expect_exit 0 bounded 4000 mtl-preprocess --input below.zst --output-prefix x $GPT2 --workers 2
expect_text err '^mtl-preprocess: 1 document, 40,00[0-9],[0-9]+ tokens'
rm x_* below.zst line.*

# 490 MB of JSON lines are never in memory all at the same time, in any format.
xz -dc "$TESTS/golden/corpora/wikitext2-valid.txt.xz" | sed 's/[\\"]/\\&/g; s/.*/{"text": "&"}/' >part.jsonl
for _ in $(seq 420); do cat part.jsonl; done >big.jsonl
gzip -1 -c big.jsonl >big.gz
xz -0 -T2 --block-size=16MiB -c big.jsonl >big.xz
zstd -q -c big.jsonl >big.zst
split -b 20M --filter='zstd -q' big.jsonl >big.frames
rm big.jsonl
for kind in gz xz zst frames; do
  measure_peak mtl-preprocess --input big.$kind --output-prefix $kind $GPT2 --workers 2
  echo "490 MB of text, $kind: $(grep -o '[0-9.]* MB/s' err | tail -1), at most $peak_mb MB of memory"
  { [ "$peak_mb" -gt 0 ] && [ "$peak_mb" -lt 230 ]; } || is_sanitized mtl-preprocess ||
    fail "$kind: $peak_mb MB of memory"
  [ $kind = gz ] || expect_same ${kind}_text_document.bin gz_text_document.bin
done

# Signals at random times.
set -m  # a background job does not ignore INT
head -c 30000000 big.gz | gzip -dc 2>/dev/null | head -n 60000 >some.jsonl
expect_exit 0 mtl-preprocess --input some.jsonl --output-prefix whole $GPT2 --quiet
for i in $(seq 40); do
  rm -f s_*
  mtl-preprocess --input some.jsonl --output-prefix s $GPT2 --quiet 2>err &
  pid=$!
  sleep $((i / 15)).$((RANDOM % 10))$((RANDOM % 10))
  kill -"$([ $((i % 2)) = 0 ] && echo INT || echo TERM)" $pid 2>/dev/null
  wait $pid 2>/dev/null
  files=$(ls s_* s.* 2>/dev/null | wc -l)
  if [ "$files" -ne 0 ]; then
    [ "$files" -eq 3 ] || fail "round $i left $(ls s_* s.*)"
    expect_same s_text_document.bin whole_text_document.bin
    expect_same s_text_document.idx whole_text_document.idx
  fi
done
finish
