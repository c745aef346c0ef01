#!/bin/bash
# Every command in a code block of README and docs/ works: mtl-train plans its run (--dry-run), with a small model's flags
# for "...", make says what it would do (-n), and the others run, in a folder that has the files that the pages name.
# docs_commands.txt lists the exceptions. (The figures that pages show are compared by examples_test and readme_test.)
. "$(dirname "$0")/lib.sh" "$1"
tree=$(cd "$TESTS/.." && pwd)
export OMP_WAIT_POLICY=passive
cd "$WORK" || exit 1

# commands PAGE: prints each command of its code blocks on one line. A line that begins with "mtl-NAME:" is a message.
commands() {
  awk '
    /^ *```/ { code = !code; rest = ""; next }
    !code { next }
    { line = rest $0; rest = ""; sub(/^ *\$ /, "", line) }
    line ~ /(\\|\|)$/ { sub(/\\$/, "", line); rest = line " "; next }
    { gsub(/  +/, " ", line); sub(/ +# .*$/, "", line) }
    line ~ /^ ?(mtl-[a-z]+|[a-z]+ -[a-z].* mtl-[a-z]+|make|cmake|git|apt|tar|awk|export|srun|sbatch|[A-Z_]+=[^ ]*)( |$)/ &&
      line !~ /^ ?mtl-[a-z]+ [0-9.]+$/ { print line }' "$1"
}

# Makes in the folder `files` what the pages name: a text, token files of several kinds, models in several formats.
make_files() {
  mkdir files && cd files || return
  local name kind
  xz -dc "$SHARE/demo/tinyshakespeare.txt.xz" >corpus.txt
  awk -f "$SHARE/demo/documents.awk" -v heldout=heldout.jsonl corpus.txt >corpus.jsonl
  xz -k corpus.jsonl heldout.jsonl
  zstd -q -k corpus.jsonl
  echo '{"prompt": "Once"}' >prompts.jsonl
  cp "$SHARE"/gpt2/{vocab.json,merges.txt} .
  cp vocab.json mine-vocab.json
  cp merges.txt mine-merges.txt
  mtl-preprocess --input corpus.jsonl --output-prefix my-gpt2 --append-eod --vocab-file gpt2
  mkdir shards
  for name in {web,books,held-out,corpus,mine,owt}_text_document shards/{a,b} u16 old_merge; do
    for kind in bin idx; do cp my-gpt2_text_document.$kind $name.$kind; done
  done
  mtl-data merge u16 --token-type i32 --output-prefix i32
  mtl-data export u16 --format nanogpt --output train.bin
  mtl-data export u16 --format llm.c --output fineweb_train_000001.bin
  mtl-vocab --input corpus.jsonl --vocab-size 300 --output-prefix small
  mtl-preprocess --input heldout.jsonl --output-prefix small --append-eod --vocab-file small-vocab.json --merge-file small-merges.txt
  mtl-data export small_text_document --output tokens.npy
  mv small-tokenizer.json tokenizer.json
  mkdir larger && cp tokenizer.json larger/
  local train=(mtl-train --num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 64 --micro-batch-size 4
    --train-iters 2 --lr 1e-3 --data-path my-gpt2_text_document --vocab-file gpt2 --split 100,0,0)
  "${train[@]}" --max-position-embeddings 64 --save checkpoints --log-jsonl run.jsonl
  cp -r checkpoints run && cp run.jsonl other.jsonl
  mtl-convert --load checkpoints --save megatron --to megatron
  mtl-convert --load checkpoints --save hf
  "${train[@]}" --max-position-embeddings 16384 --position-embedding-type rope --normalization RMSNorm --swiglu \
    --disable-bias-linear --untie-embeddings-and-output-weights --save llama-run
  mtl-convert --load llama-run --save llama
  mtl-convert --load "$TESTS/golden/llama_model/qwen2" --save Qwen2.5-0.5B
  mtl-convert --load Qwen2.5-0.5B --save start --to mtl
  cd ..
}

# run_command CODE COMMAND: runs it as a reader would; it exits with CODE.
run_command() {
  local code=$1 command=$2 ranks='' model='' run=''
  case $command in
    cmake*) command="env -C $tree $command -B $WORK/configured" ;;
    *make*) command=${command/make/make -n -C $tree -o deps} ;;
    mtl-convert*)
      [[ $command =~ --save\ ([^ ]+) ]] && rm -rf "${BASH_REMATCH[1]}"
      ;;
    *--version*) ;;
    *mtl-train*)
      [[ ! $command =~ ^(mpirun|srun)\ .*(-n|--ntasks-per-node=)\ ?([0-9]+) ]] || ranks="--world-size ${BASH_REMATCH[3]}"
      command=${command#*mtl-train}
      if [[ $command == *' ...'* || $command == *--dry-run* ]]; then # a part of a command
        command=${command// .../}
        run='--seq-length 64 --micro-batch-size 1 --global-batch-size 8 --train-iters 20 --lr 1e-3'
        [[ $command == *--load* || $command == *--model* ]] ||
          model='--num-layers 4 --hidden-size 32 --num-attention-heads 4 --max-position-embeddings 64'
        [[ $command == *data-path* ]] || run+=' --data-path my-gpt2_text_document'
        [[ $command == *--tokenizer-type* ]] || run+=' --vocab-file gpt2'
      fi
      command="mtl-train $model $run ${command/--save checkpoints/--save new} $ranks --dry-run"
      ;;
  esac
  HOME=$WORK expect_exit "$code" bash -c "$command"
}

(set -e; make_files) >log 2>&1
[ -d files/start ] || { cat log; fail 'cannot make the files that the pages name'; finish; }
mkdir -p .local/share && ln -s "$SHARE" .local/share/mtl
while IFS=$'\t' read -r page part how; do
  [[ $page != '#'* ]] || continue
  commands "$tree/$page" | grep -qF -- "$part" || fail "docs_commands.txt: $page has no command with $part"
  [[ $how != cli/* ]] || [ -f "$TESTS/$how" ] || fail "docs_commands.txt: no $how"
done <"$TESTS/cli/docs_commands.txt"
total=0 excused=0
for page in README.md $(cd "$tree" && ls docs/*.md); do
  rm -rf page && cp -al files page && cd page || exit 1
  while read -r command; do
    total=$((total + 1))
    how=$(awk -F'\t' -v page="$page" -v command="$command" '$1 == page && index(command, $2) { print $3; exit }' \
      "$TESTS/cli/docs_commands.txt")
    case $how in
      '' | 'exit '*) run_command "$([ -z "$how" ] && echo 0 || echo "${how#exit }")" "$command" ;;
      cli/*) ;;
      *) excused=$((excused + 1)) ;;
    esac
  done < <(commands "$tree/$page")
  cd ..
done
echo "$total commands, of which no test runs $excused"
[ "$total" -gt 100 ] || fail "only $total commands"
[ $((excused * 10)) -le "$total" ] || fail "no test runs $excused of $total commands"
finish
