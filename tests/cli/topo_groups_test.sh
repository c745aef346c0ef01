#!/bin/bash
# mtl-topo: the JSON has all rank groups, equal to Megatron-LM's. The text has the distinct groups with their traffic.
. "$(dirname "$0")/lib.sh" "$1"
unset COLUMNS LINES NO_COLOR

# size_of LINE NAME: prints a layout size from a line in groups.jsonl.
size_of() { grep -oE "\"$2\":[0-9]+" <<<"$1" | head -1 | cut -d: -f2; }
# groups_in TEXT NAME: prints the list of lists that follows NAME.
groups_in() { grep -oE "\"$2\":\[\[[][0-9,]*\]\]" <<<"$1" | head -1 | cut -d: -f2; }

while read -r line; do
  order=$(grep -oE '"order":"[a-z-]+"' <<<"$line" | cut -d'"' -f4)
  experts=$(size_of "$line" ep)
  # Megatron-LM's group generator accepts experts even if the pipeline is not last. A run cannot have this, so skips it.
  [ "$experts" -gt 1 ] && [ "${order##*-}" != pp ] && [ "$(size_of "$line" pp)" -gt 1 ] && continue
  expect_exit 0 mtl-topo --world-size "$(size_of "$line" world)" --tensor-model-parallel-size "$(size_of "$line" tp)" \
    --context-parallel-size "$(size_of "$line" cp)" --expert-model-parallel-size "$experts" \
    --pipeline-model-parallel-size "$(size_of "$line" pp)" --rank-order "$order" --format json
  # "kind":"tp",...,"ranks":[[0]] becomes "tp":[[0]]
  got=$(tr -d ' \n' <"$WORK/out" | sed -E 's/"kind":"([a-z_-]+)",[^]]*"ranks":/"\1":/g')
  kinds="tp cp pp dp dp-cp tp-pp tp-cp tp-dp tp-dp-cp"
  [ "$experts" -eq 1 ] || kinds="ep tp-ep tp-ep-pp tp pp"  # the other groups belong to the grid without experts
  for kind in $kinds embedding position_embedding; do
    want=$(groups_in "$line" "$kind")
    [ -n "$want" ] || fail "the fixture has no $kind: $line"
    [ "$(groups_in "$got" "$kind")" = "$want" ] || fail "$kind: $(groups_in "$got" "$kind") instead of $want: $line"
  done
  [ "$experts" -eq 1 ] || [ "$(groups_in "$got" expert-dp)" = "$(groups_in "$line" dp)" ] ||
    fail "expert-dp: different groups: $line"
done <"$TESTS/golden/ranks/groups.jsonl"

# traffic_of KIND: prints KIND's line in the last layout's text, or nothing if the text does not show KIND.
traffic_of() { grep -A 1 -E "^  $1 " "$WORK/out" | tail -1 | sed 's/^ *//'; }
expect_traffic() { [ "$(traffic_of "$1")" = "$2" ] || fail "$1 exchanges '$(traffic_of "$1")' instead of '$2'"; }
layout=(--world-size 16 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2)
expect_exit 0 mtl-topo "${layout[@]}"
expect_traffic tp 'activations, all-reduced, each layer and micro-batch'
expect_traffic dp 'gradients, once a step'
expect_traffic tp-cp ''
expect_traffic dp-cp ''
expect_text "$WORK/out" '^  tp-dp +2 groups of 8 .*one stage of all replicas'
expect_traffic tp-dp-cp ''
expect_text "$WORK/out" '^  cp, position_embedding: groups of one rank'
expect_exit 0 mtl-topo "${layout[@]}" --sequence-parallel --use-distributed-optimizer
expect_traffic tp 'activations, gathered and reduce-scattered, each layer and micro-batch'
expect_traffic dp 'gradients, reduce-scattered, and weights, gathered, once a step'
expect_exit 0 mtl-topo "${layout[@]}" --context-parallel-size 2
expect_traffic dp 'nothing of their own: gradients go over dp-cp'
expect_traffic dp-cp 'gradients, once a step'
expect_text "$WORK/out" '^  tp-cp +4 groups of 4 '
expect_text "$WORK/out" '^  tp-dp +4 groups of 4 .*one part of sequences'
expect_text "$WORK/out" '^  tp-dp-cp +2 groups of 8 '
expect_exit 0 mtl-topo "${layout[@]}" --expert-model-parallel-size 2
expect_text "$WORK/out" '^  tp-ep +4 groups of 4 '
expect_text "$WORK/out" '^  tp-ep-pp +2 groups of 8 '
expect_traffic expert-tp ''

# With a model's sizes, collectives are recorded, and the line counts those of a layer. The table also counts 5 others in
# the embedding, the head and the update.
sized=(--world-size 2 --tensor-model-parallel-size 2 --num-layers 4 --hidden-size 64 --num-attention-heads 4
  --seq-length 32 --max-position-embeddings 32 --vocab-size 512 --micro-batch-size 1 --global-batch-size 2)
# expect_recorded TRAFFIC REDUCTIONS FLAG...: checks tp's line, and how many all-reduces the table counts.
expect_recorded() {
  local traffic=$1 reductions=$2
  shift 2
  expect_exit 0 mtl-topo "${sized[@]}" "$@"
  expect_traffic tp "activations, $traffic"
  [ -z "$reductions" ] || expect_text "$WORK/out" "^  0, 1 +tensor +all-reduce +$reductions "
}
expect_recorded '4 all-reduces per layer and micro-batch' 37
full=(--recompute-granularity full --recompute-num-layers 1 --recompute-method)
expect_recorded '6 all-reduces per layer and micro-batch' 53 "${full[@]}" uniform
expect_recorded '4.5 all-reduces per layer and micro-batch, on average' 41 "${full[@]}" block
expect_recorded '5 all-reduces per layer and micro-batch, on average' '' "${full[@]}" block --num-layers 2
expect_recorded '4 reduce-scatters and 6 all-gathers per layer and micro-batch' '' --sequence-parallel
finish
