#!/bin/bash
# mtl-topo: a small layout's exact drawing; large layouts; JSON, SVG and rankfiles; impossible layouts.
. "$(dirname "$0")/lib.sh" "$1"
unset COLUMNS LINES NO_COLOR
export LC_ALL=C.UTF-8
two_nodes=(--world-size 4 --gpus-per-node 2 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2)
model=(--num-layers 24 --vocab-size 50257)

# Ranks 0 and 1 share sub_model_0 by tensor parallelism, and ranks 2 and 3 share sub_model_1. These are the two stages.
expect_exit 0 mtl-topo "${two_nodes[@]}" "${model[@]}" --micro-batches 8
expect_same "$WORK/out" "$TESTS/golden/topo/two_nodes.txt"
LC_ALL=C expect_exit 0 mtl-topo "${two_nodes[@]}" "${model[@]}" --micro-batches 8
expect_same "$WORK/out" "$TESTS/golden/topo/two_nodes_ascii.txt"
LC_ALL=C expect_exit 0 mtl-topo "${two_nodes[@]}" "${model[@]}" --micro-batches 8 -o "$WORK/layout.txt"
expect_same "$WORK/layout.txt" "$TESTS/golden/topo/two_nodes.txt"

# Large layouts are folded to the width, in any rank order.
for flags in "--world-size 64" "--world-size 64 --tensor-model-parallel-size 8 --pipeline-model-parallel-size 4" \
  "--world-size 64 --tensor-model-parallel-size 64" \
  "--world-size 4096 --tensor-model-parallel-size 8 --pipeline-model-parallel-size 64 --micro-batches 64" \
  "--world-size 16 --tensor-model-parallel-size 2 --context-parallel-size 2 --pipeline-model-parallel-size 2 --use-tp-pp-dp-mapping" \
  "--world-size 60 --tensor-model-parallel-size 3 --gpus-per-node 7 --expert-model-parallel-size 2 --rank-order pp-dp-ep-cp-tp" \
  "--world-size 8 --pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 4 --micro-batches 12"; do
  for columns in 80 100 140; do
    # shellcheck disable=SC2086 # the flags are words
    COLUMNS=$columns expect_exit 0 mtl-topo $flags
    [ "$(wc -L <"$WORK/out")" -le "$columns" ] || fail "a line is longer than $columns: $flags"
    [ "$(wc -l <"$WORK/out")" -le 600 ] || fail "too many lines: $flags"
  done
done

# Schedules: with 4 stages and 8 micro-batches, the bubble is 3/8 of the work. 2 chunks halve it.
pipeline=(--world-size 4 --pipeline-model-parallel-size 4 --micro-batches 8)
expect_exit 0 mtl-topo "${pipeline[@]}" --schedule gpipe
expect_text "$WORK/out" 'the bubble is 37.5% of the work'
expect_text "$WORK/out" 'kept at once, by stage: 8 8 8 8'
expect_exit 0 mtl-topo "${pipeline[@]}"
expect_text "$WORK/out" "stage 3  \\.\\.\\.00'11'22'33'44'55'66'77'\\.\\.\\.\\.\\.\\."
expect_text "$WORK/out" 'kept at once, by stage: 4 3 2 1'
expect_exit 0 mtl-topo --world-size 2 --pipeline-model-parallel-size 2 --micro-batches 4 --schedule zb-h1
expect_text "$WORK/out" '^  stage 0  0f1f\.\.0b0w1b2f1w3f2b2w3b3w$'
expect_text "$WORK/out" '^  stage 1  \.\.0f0b1f1b0w1w2f2b3f3b2w3w$'
expect_text "$WORK/out" '^  the bubble is 8.3% of the work'
expect_exit 0 mtl-topo --world-size 2 --pipeline-model-parallel-size 2 --micro-batches 4 --schedule zb-h1 --format json
expect_text "$WORK/out" '"kind": "weight"'
expect_exit 0 mtl-topo --world-size 2 --pipeline-model-parallel-size 2 --micro-batches 4 --schedule zb-h2 --format svg
expect_text "$WORK/out" 'weight gradients'
expect_exit 0 mtl-topo --world-size 2 --pipeline-model-parallel-size 2 --micro-batches 4 --schedule zb-v --num-layers 4
expect_text "$WORK/out" '^     0  0 +0   0  embedding, layers 0, 3, output layer$'
expect_text "$WORK/out" '^  stage 0  0f1f\.\.0F0B1F1B0b0w1b2f'
expect_text "$WORK/out" '^  the bubble is 4.2% of the work'
expect_text "$WORK/out" '^  tp, cp, dp, embedding: groups of one rank$'
expect_exit 0 mtl-topo "${pipeline[@]}" --num-virtual-stages-per-pipeline-rank 2
expect_text "$WORK/out" 'Schedule: interleaved, 8 micro-batches, 2 chunks per stage'
expect_text "$WORK/out" 'the bubble is 18.8% of the work'

# The global batch determines how many micro-batches there are. A chart that would be too large is omitted.
eight=(--world-size 8 --pipeline-model-parallel-size 4)
expect_exit 0 mtl-topo "${eight[@]}" --micro-batches 8 --schedule gpipe
mv "$WORK/out" "$WORK/want"
expect_exit 0 mtl-topo "${eight[@]}" --global-batch-size 48 --micro-batch-size 3 --schedule gpipe
expect_same "$WORK/out" "$WORK/want"
expect_exit 0 mtl-topo "${eight[@]}" --global-batch-size 16
expect_text "$WORK/out" '^Schedule: 1f1b, 8 micro-batches$'
expect_exit 2 mtl-topo "${eight[@]}" --global-batch-size 15
expect_text "$WORK/err" '^mtl-topo: 1 problem'
expect_text "$WORK/err" '--global-batch-size 15 .*use 14 or 16'
expect_exit 2 mtl-topo "${eight[@]}" --global-batch-size 16 --micro-batches 7
expect_text "$WORK/err" '--global-batch-size 16 .*--micro-batches 7'
expect_exit 2 mtl-topo "${eight[@]}" --global-batch-size 12 --num-virtual-stages-per-pipeline-rank 2
expect_text "$WORK/err" '--global-batch-size 12 .*a multiple of 4'
expect_exit 0 mtl-topo "${eight[@]}" --global-batch-size 100000
expect_text "$WORK/out" '^Schedule: 50,000 micro-batches; the time chart would be too large$'
expect_exit 2 mtl-topo "${eight[@]}" --micro-batches 50000
expect_text "$WORK/err" '--micro-batches 50000 +makes the chart too large: .*use --global-batch-size'

# JSON.
expect_exit 0 mtl-topo "${two_nodes[@]}" "${model[@]}" --hosts ada,grace --micro-batches 8 --format json
expect_text "$WORK/out" '"format": "mtl-topo", "version": 1, "world_size": 4, "nodes": 2, "gpus_per_node": 2'
expect_text "$WORK/out" '\{"rank": 3, "node": 1, "local_rank": 1, "host": "grace", "tp": 1, "cp": 0, "dp": 0, "pp": 1, "layers": \[\[12, 12\]\], "vocab_rows": \[25216, 25216\]\}'
expect_text "$WORK/out" '"kind": "tp", [^}]*"across_nodes": 0, "ranks": \[\[0, 1\], \[2, 3\]\]'
expect_text "$WORK/out" '"kind": "embedding", [^}]*"across_nodes": 2, "ranks": \[\[0, 2\], \[1, 3\]\]'
expect_text "$WORK/out" '"vocab": \{"size": 50257, "padded": 50432\}'
expect_text "$WORK/out" '"total": 27.0, "work": 24.0, "bubble": 0.125'
mtl-topo "${two_nodes[@]}" "${model[@]}" --hosts ada,grace --micro-batches 8 -o "$WORK/layout.json"
expect_same "$WORK/out" "$WORK/layout.json"
expect_exit 0 mtl-topo --world-size 4 --pipeline-model-parallel-size 4 --num-layers 16 \
  --num-layers-per-virtual-pipeline-stage 2 --format json
expect_text "$WORK/out" '"rank": 0, [^}]*"layers": \[\[0, 2\], \[8, 2\]\]'

# Memory and work: equal to mtl-train's plan, byte for byte. They are missing for layouts that it cannot run. ranks_of
# FILE: prints the JSON rank list on one line without blanks.
sizes=(--hidden-size 64 --num-attention-heads 8 --seq-length 32 --max-position-embeddings 48 --micro-batch-size 2
  --num-layers 5 --vocab-size 100 --make-vocab-size-divisible-by 8 --global-batch-size 32)
ranks_of() { tr -d ' \n' <"$1" | grep -oE '"ranks":\[\{"ranks":.*\}\]\}' | sed 's/}*$//'; }
for flags in "--world-size 8 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --sequence-parallel" \
  "--world-size 8 --pipeline-model-parallel-size 2 --use-distributed-optimizer --ddp-bucket-size 20000" \
  "--world-size 8 --tensor-model-parallel-size 8 --hidden-dropout 0 --attention-dropout 0 --reset-attention-mask" \
  "--world-size 12 --pipeline-model-parallel-size 3 --use-tp-pp-dp-mapping --num-layers-in-last-pipeline-stage 1 --ffn-hidden-size 96 --global-batch-size 16"; do
  # shellcheck disable=SC2086 # the flags are words
  {
    expect_exit 0 mtl-topo "${sizes[@]}" $flags --cores-per-rank 3
    sed -n '/^Memory of/,$p' "$WORK/out" >"$WORK/topo_tables"
    expect_exit 0 mtl-topo "${sizes[@]}" $flags --cores-per-rank 3 --format json
    ranks_of "$WORK/out" >"$WORK/topo_ranks"
    expect_exit 0 mtl-train "${sizes[@]}" $flags --threads 3 --tokenizer-type NullTokenizer --dry-run
    sed -n '/^Memory of/,/^a checkpoint/p' "$WORK/out" | sed '/^a checkpoint/d' | sed '${/^$/d}' >"$WORK/train_tables"
    expect_same "$WORK/train_tables" "$WORK/topo_tables"
    expect_exit 0 mtl-train "${sizes[@]}" $flags --threads 3 --tokenizer-type NullTokenizer --dry-run --json
    ranks_of "$WORK/out" >"$WORK/train_ranks"
    [ -s "$WORK/topo_ranks" ] || fail "no ranks in the JSON: $flags"
    expect_same "$WORK/train_ranks" "$WORK/topo_ranks"
  }
done
# Accepts the layout flags in an mtl-train command line: the entire section Parallelism, and --zero-stage.
pasted=("${sizes[@]}" --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --context-parallel-size 1
  --use-tp-pp-dp-mapping --pipeline-schedule gpipe --num-layers-in-first-pipeline-stage 3
  --num-layers-in-last-pipeline-stage 2 --sequence-parallel --ddp-bucket-size 20000 --overlap-grad-reduce
  --overlap-param-gather --distributed-timeout-minutes 5 --zero-stage 1 --threads 2 --world-size 8)
expect_exit 0 mtl-topo "${pasted[@]}"
expect_text "$WORK/err" '--distributed-timeout-minutes'
expect_text "$WORK/out" '^Schedule: gpipe, 8 micro-batches'
sed -n '/^Memory of/,$p' "$WORK/out" >"$WORK/topo_tables"
expect_exit 0 mtl-train "${pasted[@]}" --tokenizer-type NullTokenizer --dry-run
sed -n '/^Memory of/,/^a checkpoint/p' "$WORK/out" | sed '/^a checkpoint/d' | sed '${/^$/d}' >"$WORK/train_tables"
expect_same "$WORK/train_tables" "$WORK/topo_tables"
mtl-train --help | sed -n '/^Parallelism:/,/^General:/p' | grep -oE '^  --[a-z0-9-]+' | while read -r flag; do
  grep -q -- "$flag" <(mtl-topo --help) || [[ $flag = --distributed-timeout-minutes || $flag = --*cpu-offload* ]] || echo "$flag"
done >"$WORK/unknown"
[ ! -s "$WORK/unknown" ] || fail "mtl-topo lacks flags of mtl-train: $(cat "$WORK/unknown")"
expect_exit 0 mtl-topo "${sizes[@]}" --world-size 4 --optimizer-cpu-offload --cpu-offloading-num-layers 1
expect_text "$WORK/err" '--cpu-offloading-num-layers.*no effect on a plan for CPUs'
for names in '--zero-stage 3' --use-torch-fsdp2 '--fsdp full_shard'; do
  # shellcheck disable=SC2086
  expect_exit 2 mtl-topo --world-size 4 --pipeline-model-parallel-size 2 $names
  expect_text "$WORK/err" "$names +cannot be combined with --pipeline-model-parallel-size 2: .*--zero-stage 2"
done
# With gradients sharded, a rank has its part of them and working memory for two layers and the tied embedding.
memory_with() {
  expect_exit 0 mtl-topo "${sizes[@]}" --world-size 4 "$@"
  sed -n '/^Memory of/,$p' "$WORK/out"
}
memory_with --zero-stage 2 >"$WORK/stage2"
memory_with --use-megatron-fsdp --data-parallel-sharding-strategy optim_grads | diff - "$WORK/stage2" || fail 'two names of a ZeRO stage differ'
memory_with --fsdp shard_grad_op | diff - "$WORK/stage2" || fail 'two names of a ZeRO stage differ'
memory_with --zero-stage 3 >"$WORK/stage3"
memory_with --use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params | diff - "$WORK/stage3" || fail 'two names of a ZeRO stage differ'
memory_with --fsdp full_shard | diff - "$WORK/stage3" || fail 'two names of a ZeRO stage differ'
memory_with --use-torch-fsdp2 | diff - "$WORK/stage3" || fail 'two names of a ZeRO stage differ'
memory_with --fsdp no_shard >"$WORK/stage0"
memory_with | diff - "$WORK/stage0" || fail 'two names of a ZeRO stage differ'
! diff -q "$WORK/stage2" "$WORK/stage3" >"$WORK/same" || fail "--zero-stage 2 and 3 need the same memory"
# Collectives: sums of gradients overlap with backward if requested, except the embedding's, which come last.
shared=("${sizes[@]}" --world-size 4 --ddp-bucket-size 1 --use-distributed-optimizer)
expect_exit 0 mtl-topo "${shared[@]}"
expect_text "$WORK/out" '^  0-3 +data  reduce-scatter +13 .* 13, '
expect_exit 0 mtl-topo "${shared[@]}" --overlap-grad-reduce --overlap-param-gather
expect_text "$WORK/out" '^  0-3 +data  reduce-scatter +13 .* 2, '
expect_text "$WORK/out" '^  0-3 +data +all-gather +13 .* 0 '
expect_exit 0 mtl-topo "${shared[@]}" --overlap-grad-reduce --format json
expect_text "$WORK/out" '"operations_per_step": {"tensor": 0, "pipeline": 0, "context": 0, "data": 27, "embedding": 0}'
expect_text "$WORK/out" '"operation": "reduce-scatter", "operations": 13, .* "exposed_operations": 2, '
expect_exit 0 mtl-topo "${sizes[@]}" --world-size 4 --pipeline-model-parallel-size 4
expect_text "$WORK/out" '^A step of 32 samples of 32 tokens: 16 micro-batches of 2 on each replica, 1 thread per rank$'
expect_text "$WORK/out" '^  0 .* 4 x '
expect_text "$WORK/out" '^  3 .* 1 x '
expect_text "$WORK/out" '^  the most, [0-9,]+ bytes: rank 1$'
expect_exit 0 mtl-topo "${sizes[@]}" --world-size 4 --pipeline-model-parallel-size 4 --schedule gpipe
expect_text "$WORK/out" '^  3 .* 16 x '
expect_text "$WORK/out" '^Schedule: gpipe, 16 micro-batches'
expect_exit 0 mtl-topo "${sizes[@]}" --world-size 4 --pipeline-model-parallel-size 4 --num-layers 8 \
  --num-virtual-stages-per-pipeline-rank 2
expect_text "$WORK/out" '^  0 .* 8 x [0-9.]+ \+ 4 x '
expect_text "$WORK/out" '^  3 .* 5 x [0-9.]+ \+ 1 x '
expect_exit 0 mtl-topo "${sizes[@]}" --world-size 4 --pipeline-model-parallel-size 4 --num-layers 8 \
  --pipeline-model-parallel-layout 'Et|(t*2|)*2tttL'
expect_text "$WORK/out" '^layers 5-7, output layer '
# With the model's sizes, each stage's share of the work, and layers that balance it.
expect_exit 0 mtl-topo "${sizes[@]}" --world-size 2 --pipeline-model-parallel-size 2 --num-layers 8 --vocab-size 8000
expect_text "$WORK/out" '^Stages, layout Et\*4\|t\*4L$'
expect_text "$WORK/out" '^  the output layer alone is '
expect_exit 0 mtl-topo "${sizes[@]}" --world-size 2 --pipeline-model-parallel-size 2 --num-layers 8 --vocab-size 2000 \
  --pipeline-split balanced --format json
expect_text "$WORK/out" '"layout": "Et\*5\|t\*3L"'
expect_exit 2 mtl-topo --world-size 2 --pipeline-model-parallel-size 2 --num-layers 8 --pipeline-split balanced
expect_text "$WORK/err" '--pipeline-split balanced +needs --hidden-size'
expect_exit 2 mtl-topo "${sizes[@]}" --world-size 2 --pipeline-model-parallel-size 2 --num-layers 8 --pipeline-split balanced \
  --pipeline-model-parallel-layout 'Ettt|ttttt|L'
expect_text "$WORK/err" '--pipeline-split balanced, --pipeline-model-parallel-layout +both distribute'
for flags in "--expert-model-parallel-size 2" "--rank-order dp-tp-pp --tensor-model-parallel-size 2"; do
  # shellcheck disable=SC2086
  expect_exit 0 mtl-topo "${sizes[@]}" --world-size 4 $flags
  expect_text "$WORK/out" '^Memory and work: not given; mtl-train does not support '
done
# Context-parallel ranks hold parts of the sequences, and during attention keys and values of whole ones or blocks.
for exchange in all_gather p2p; do
  expect_exit 0 mtl-topo "${sizes[@]}" --world-size 4 --context-parallel-size 4 --cp-comm-type $exchange --format json
  tr -d ' \n' <"$WORK/out" >"$WORK/$exchange.json"
done
expect_exit 0 mtl-topo "${sizes[@]}" --world-size 4 --format json
tr -d ' \n' <"$WORK/out" >"$WORK/whole.json"
memory_of() { grep -oE "\"$1\":[0-9]+" "$WORK/$2.json" | head -1 | cut -d: -f2; }
[ "$(memory_of activations all_gather)" -lt $(($(memory_of activations whole) * 26 / 100)) ] || fail 'activations of a part of a sequence'
[ "$(memory_of activations p2p)" -eq "$(memory_of activations all_gather)" ] || fail 'activations depend on --cp-comm-type'
[ "$(memory_of scratch p2p)" -ne "$(memory_of scratch all_gather)" ] || fail '--cp-comm-type does not change the scratch memory'
expect_exit 2 mtl-topo "${sizes[@]}" --world-size 3 --context-parallel-size 3
expect_text "$WORK/err" '--context-parallel-size 3 +cannot divide --seq-length [0-9]+ into 6 equal chunks'

# --rank-order may name an order that mtl-train supports. The plan is for that order.
replicas=("${sizes[@]}" --world-size 4 --pipeline-model-parallel-size 2 --use-distributed-optimizer --format json)
expect_exit 0 mtl-topo "${replicas[@]}" --use-tp-pp-dp-mapping
mv "$WORK/out" "$WORK/want"
expect_text "$WORK/want" '"memory_bytes"'
expect_exit 0 mtl-topo "${replicas[@]}" --rank-order tp-cp-ep-pp-dp
expect_same "$WORK/out" "$WORK/want"

# check_balance FILE: every tag is closed in order, and there is one root.
check_balance() {
  grep -oE '<[/!?]?[a-zA-Z][^>]*>|<\?[^>]*>' "$1" | awk '
    /^<\?/ || /\/>$/ { next }
    /^<\// { name = $0; gsub(/[<\/>]/, "", name); if (depth == 0 || stack[depth--] != name) { bad = 1 } next }
    { name = $0; sub(/^</, "", name); sub(/[ >].*/, "", name); stack[++depth] = name; if (depth == 1) roots++ }
    END { exit bad || depth != 0 || roots != 1 }' || fail "$1 is not well formed"
}
expect_exit 0 mtl-topo "${two_nodes[@]}" "${model[@]}" --hosts 'a<b,c&d' --micro-batches 8 -o "$WORK/layout.svg"
expect_text "$WORK/layout.svg" '^<svg xmlns='
expect_text "$WORK/layout.svg" '>a&lt;b<'
expect_text "$WORK/layout.svg" '>c&amp;d<'
expect_text "$WORK/layout.svg" '>sub_model_1<'
check_balance "$WORK/layout.svg"
[ "$(grep -c 'class="rank"' "$WORK/layout.svg")" -eq 4 ] || fail "not every rank is drawn"
[ "$(grep -c 'class="pp"' "$WORK/layout.svg")" -eq 3 ] || fail "not two pipeline links and one in the legend"
expect_exit 0 mtl-topo "${two_nodes[@]}" "${sizes[@]}" -o "$WORK/memory.svg"
check_balance "$WORK/memory.svg"
expect_text "$WORK/memory.svg" '>ranks 2, 3<'
expect_exit 0 mtl-topo "${two_nodes[@]}" "${sizes[@]}" --bf16 -o "$WORK/bf16.svg"
for category in weights grads moments 'main weights' activations scratch batches staging; do
  expect_text "$WORK/bf16.svg" ">$category<"
done
expect_exit 0 mtl-topo --world-size 200 --tensor-model-parallel-size 20 --gpus-per-node 8 -o "$WORK/large.svg"
check_balance "$WORK/large.svg"
[ "$(grep -c 'class="rank"' "$WORK/large.svg")" -eq 200 ] || fail "not every rank of the large layout is drawn"

# Rankfiles for Open MPI.
printf 'rank 0=ada slot=0\nrank 1=ada slot=1\nrank 2=grace slot=0\nrank 3=grace slot=1\n' >"$WORK/want"
expect_exit 0 mtl-topo "${two_nodes[@]}" --hosts ada,grace -o "$WORK/two.rankfile"
expect_same "$WORK/two.rankfile" "$WORK/want"
expect_exit 0 mtl-topo "${two_nodes[@]}" --cores-per-rank 4 --format rankfile
expect_text "$WORK/out" '^rank 3=\+n1 slot=4-7$'
if [ "$(nproc)" -ge 2 ]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  expect_exit 0 mtl-topo --world-size 2 -o "$WORK/one.rankfile"
  expect_exit 0 mpirun --oversubscribe --rankfile "$WORK/one.rankfile" -n 2 echo here
  [ "$(grep -c here "$WORK/out")" -eq 2 ] || fail "mpirun did not start two ranks"
fi

# Vocabularies are padded as in Megatron-LM, at any size. Other counts may exceed the largest --world-size.
while IFS=', ' read -r vocab divisible tensor padded; do
  expect_exit 0 mtl-topo --world-size "$tensor" --tensor-model-parallel-size "$tensor" --vocab-size "$vocab" \
    --make-vocab-size-divisible-by "$divisible" --format json
  expect_text "$WORK/out" "\"vocab\": \{\"size\": $vocab, \"padded\": $padded\}"
done < <(tr -d '[]' <"$TESTS/golden/ranks/vocab_padding.jsonl")
expect_exit 0 mtl-topo --world-size 1 --micro-batches 70000
expect_exit 0 mtl-topo "${sizes[@]}" --world-size 4 --global-batch-size 100000
expect_text "$WORK/out" '^A step of 100,000 samples of 32 tokens: 12,500 micro-batches of 2'
expect_exit 0 mtl-topo --world-size 65536 --tensor-model-parallel-size 65536 --vocab-size 2147483647 \
  --make-vocab-size-divisible-by 2147483647
expect_text "$WORK/out" 'padded to 140,737,488,289,792 = 65536 x 2,147,483,647 rows'
for flags in "--vocab-size 2147483648" "--world-size 65537" "--gpus-per-node 65537" "--micro-batches 9000000000" \
  "--cores-per-rank 65536" "--num-layers 9000000000000000000" "--num-layers-in-first-pipeline-stage 9223372036854775807"; do
  # shellcheck disable=SC2086
  expect_exit 2 mtl-topo --world-size 2 --num-layers 8 --pipeline-model-parallel-size 2 $flags
  expect_text "$WORK/err" "^  $flags +must be from 1 to "
done
expect_exit 2 mtl-topo "${sizes[@]}" --world-size 4 --micro-batch-size 1 --global-batch-size 2147483644
expect_text "$WORK/err" '--global-batch-size 2147483644 +needs more than 1048576 micro-batches of --micro-batch-size 1'

# Impossible layouts: reports all problems together, with a remedy.
expect_exit 2 mtl-topo
expect_text "$WORK/err" '--world-size'
expect_exit 2 mtl-topo --world-size 6 --tensor-model-parallel-size 4 --rank-order tp-dp-dp --schedule gpipe --hosts a,b -o x.png
expect_text "$WORK/err" '^mtl-topo: 5 problems'
expect_text "$WORK/err" '^  -o x.png +does not end in .*--format'
expect_text "$WORK/err" '--world-size 6 .*--world-size 4 or 8; --tensor-model-parallel-size 1, 2, 3 or 6'
expect_text "$WORK/err" '--rank-order tp-dp-dp +names dp twice'
expect_text "$WORK/err" '--schedule gpipe .*needs --micro-batches'
expect_text "$WORK/err" '--hosts a,b .*names 2 hosts'
expect_exit 2 mtl-topo --world-size 4 --pipeline-model-parallel-size 4 --num-layers 8 --account-for-embedding-in-pipeline-split
expect_text "$WORK/err" '--num-layers 8 .*--num-layers 7 or 11, or leave out --account-for-embedding-in-pipeline-split$'
expect_exit 2 mtl-topo --world-size 2 --pipeline-model-parallel-size 2 --num-layers 8 \
  --num-layers-per-virtual-pipeline-stage 2 --account-for-loss-in-pipeline-split
expect_text "$WORK/err" '--num-layers-per-virtual-pipeline-stage 2 .*--num-virtual-stages-per-pipeline-rank'
expect_exit 2 mtl-topo --world-size 2 --gpus-per-node 1 --hosts a
expect_text "$WORK/err" '--hosts a .*names 1 host, but 2 ranks with --gpus-per-node 1 need 2;'
expect_exit 2 mtl-topo --world-size 8 --pipeline-model-parallel-size 4 --num-layers 3
expect_text "$WORK/err" '--num-layers 3 +is fewer than the 4 pipeline stages'
expect_exit 2 mtl-topo --world-size 8 --pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 2 --micro-batches 6
expect_text "$WORK/err" '--micro-batches 6 .*a multiple of 4'
expect_exit 2 mtl-topo --world-size 8 --pipeline-model-parallel-size 4 --schedule interleaved --micro-batches 8
expect_text "$WORK/err" '--schedule interleaved .*--num-virtual-stages-per-pipeline-rank'
expect_exit 2 mtl-topo --world-size 8 --pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 2 \
  --micro-batches 8 --microbatch-group-size-per-virtual-pipeline-stage 2
expect_text "$WORK/err" '--microbatch-group-size-per-virtual-pipeline-stage 2 .*use groups of 4 .* to 8'
expect_exit 2 mtl-topo --world-size 8 --num-virtual-stages-per-pipeline-rank 2
expect_text "$WORK/err" '^mtl-topo: 1 problem'
expect_text "$WORK/err" '--pipeline-model-parallel-size 1 .*use at least 2 stages'
expect_exit 2 mtl-topo --world-size 8 --num-layers 4 --num-layers-in-last-pipeline-stage 2
expect_text "$WORK/err" '^  --num-layers-in-last-pipeline-stage 2 +needs at least 2 pipeline stages'
expect_exit 2 mtl-topo --world-size 4 --tensor-model-parallel-size 0
expect_exit 2 mtl-topo --world-size 4 --num-layers-in-first-pipeline-stage 2
expect_text "$WORK/err" 'needs --num-layers'
expect_exit 2 mtl-topo --world-size 2 --pipeline-model-parallel-size 2 --num-layers 4 --num-layers-in-first-pipeline-stage 1 \
  --num-layers-in-last-pipeline-stage 2
expect_text "$WORK/err" '--num-layers 4 +--num-layers-in-first-pipeline-stage 1 and .* 2 add up to 3, .*add up to 4'
expect_exit 2 mtl-topo "${two_nodes[@]}" --hosts ada,ada
expect_text "$WORK/err" "--hosts ada,ada +names 'ada' twice"
for host in $'a\e[31m' $'a\xff' $'a\xef\xbf\xbf'; do
  expect_exit 2 mtl-topo "${two_nodes[@]}" --hosts "$host,grace"
  expect_text "$WORK/err" 'is not the name of a host'
  LC_ALL=C grep -q $'\e' "$WORK/err" && fail 'a message prints control characters'
done
expect_exit 2 mtl-topo --world-size 3 --gpus-per-node 1 --hosts ada,ada,ada
expect_text "$WORK/err" '^mtl-topo: 1 problem'
expect_exit 2 mtl-topo --world-size 4 --expert-model-parallel-size 3
expect_text "$WORK/err" '--expert-model-parallel-size 1, 2 or 4'
# With experts, rejects orders that give them other pipeline groups than the other layers have.
experts=(--world-size 16 --tensor-model-parallel-size 2 --expert-model-parallel-size 2)
expect_exit 2 mtl-topo "${experts[@]}" --pipeline-model-parallel-size 2 --use-tp-pp-dp-mapping
expect_text "$WORK/err" '--use-tp-pp-dp-mapping +gives the experts 2 data-parallel ranks and the other layers 4; Megatron-LM requires equal numbers'
expect_exit 2 mtl-topo "${experts[@]}" --pipeline-model-parallel-size 2 --rank-order tp-ep-pp-cp-dp
expect_exit 2 mtl-topo "${experts[@]}" --pipeline-model-parallel-size 2 --context-parallel-size 2 --rank-order tp-cp-pp-ep-dp
expect_text "$WORK/err" '--rank-order tp-cp-pp-ep-dp +gives the experts pipeline groups that differ'
expect_exit 0 mtl-topo "${experts[@]}" --pipeline-model-parallel-size 2
expect_exit 0 mtl-topo "${experts[@]}" --pipeline-model-parallel-size 2 --context-parallel-size 2 --use-tp-pp-dp-mapping
expect_exit 0 mtl-topo "${experts[@]}" --use-tp-pp-dp-mapping
expect_exit 0 mtl-topo --world-size 8 --context-parallel-size 2 --pipeline-model-parallel-size 2 --use-tp-pp-dp-mapping
expect_text "$WORK/out" '^Note: with context parallelism and a pipeline, Megatron-LM accepts only orders that end with pp'
expect_exit 2 mtl-topo "${sizes[@]}" --world-size 4 --global-batch-size 9
expect_text "$WORK/err" '--global-batch-size 9 +is not a multiple of --micro-batch-size 2 x data-parallel size 4'
expect_exit 2 mtl-topo --world-size 4 --hidden-size 64
expect_text "$WORK/err" '^mtl-topo: 1 problem with'
expect_text "$WORK/err" '^  --num-layers, --num-attention-heads, --max-position-embeddings, --seq-length, --vocab-size +are needed for memory'
# Rotary positions have no table, whose size must be known.
expect_exit 0 mtl-topo "${sizes[@]}" --world-size 4 --position-embedding-type rope --format json
mv "$WORK/out" "$WORK/want"
expect_exit 0 mtl-topo "${sizes[@]:0:6}" "${sizes[@]:8}" --world-size 4 --position-embedding-type rope --format json
expect_same "$WORK/out" "$WORK/want"
expect_exit 2 mtl-topo --world-size 4 --ddp-bucket-size 8 --global-batch-size 8
expect_text "$WORK/err" '--ddp-bucket-size +needs --hidden-size'
expect_exit 2 mtl-topo "${sizes[@]}" --world-size 3 --tensor-model-parallel-size 3
expect_text "$WORK/err" '--num-attention-heads 8 +is not a multiple of --tensor-model-parallel-size 3'
expect_exit 74 mtl-topo --world-size 4 -o "$WORK/no/such/folder/layout.svg"
printf 'world-size = 4\n' >"$WORK/topo.txt"
expect_exit 2 mtl-topo --config "$WORK/topo.txt" -o "$WORK/topo.txt"
expect_text "$WORK/err" 'topo.txt +is one of the inputs and would be overwritten; choose another --output'
expect_clean_end "$WORK/late.svg" mtl-topo --world-size 4 -o "$WORK/late.svg"
finish
