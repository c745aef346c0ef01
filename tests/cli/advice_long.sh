#!/bin/bash
# mtl-topo plan follows the advice of a primer on training methods. Each line of advice.txt is a realistic run with the
# kinds of layouts that the primer recommends for it.
source "$(dirname "$0")/lib.sh" "$1"
cd "$WORK" || exit 1

# Runs in which the best layout is of another kind; docs/topo.md says why. By their number in advice.txt.
deviating=(13 15)

llama=(--normalization RMSNorm --norm-epsilon 1e-5 --position-embedding-type rope --swiglu --disable-bias-linear
  --untie-embeddings-and-output-weights --vocab-size 32000 --seq-length 2048 --hidden-dropout 0 --attention-dropout 0)
declare -A sizes=(
  [llama-7b]='--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --ffn-hidden-size 11008'
  [llama-13b]='--num-layers 40 --hidden-size 5120 --num-attention-heads 40 --ffn-hidden-size 13824'
  [llama-30b]='--num-layers 60 --hidden-size 6656 --num-attention-heads 52 --ffn-hidden-size 17920'
  [llama-65b]='--num-layers 80 --hidden-size 8192 --num-attention-heads 64 --ffn-hidden-size 22016')

# plan MODEL BATCH DEVICES FLAGS...: prints the plan as JSON.
plan() {
  local model=$1 batch=$2 flags
  read -ra flags <<<"$3"
  flags=(--world-size "${flags[0]}" --hardware "${flags[1]}" "${flags[@]:2}")
  case $model in
    llama-*)
      local of_size
      read -ra of_size <<<"${sizes[$model]}"
      flags+=("${llama[@]}" "${of_size[@]}") ;;
    multilingual)
      flags+=(--num-layers 12 --hidden-size 6144 --num-attention-heads 48 --seq-length 2048
        --max-position-embeddings 2048 --vocab-size 256000) ;;
    *) flags+=(--model "$model") ;;
  esac
  mtl-topo plan "${flags[@]}" --bf16 --global-batch-size "$batch" --json "${@:4}"
}

# kind_of_best: reads a plan and prints the kind of its best layout, as advice.txt describes it.
kind_of_best() {
  sed '/"device_bytes": [0-9]*,$/q' | tr -d ' ",' | awk '
    /^world_size:/ { world = substr($0, 12) + 0 }
    flag != "" { value[flag] = $0; flag = "" }
    /^--/ { given[$0] = 1; flag = $0 }
    function size(name) { return name in given ? value[name] + 0 : 1 }
    END {
      tp = size("--tensor-model-parallel-size"); cp = size("--context-parallel-size")
      pp = size("--pipeline-model-parallel-size"); mp = tp * cp * pp
      if (tp > 1) printf "tp "
      if (cp > 1) printf "cp "
      if (pp > 1) printf "pp "
      if (world > mp) printf "dp "
      if (world == 1) printf "alone "
      else if (world > mp)
        printf "zero%d ", "--zero-stage" in given ? value["--zero-stage"] : "--use-distributed-optimizer" in given
      if ("--recompute-granularity" in given) printf "recompute "
      if ("--optimizer-cpu-offload" in given || "--cpu-offloading" in given) printf "offload "
      print "mp" mp
    }'
}

rows=0 followed=0
while IFS='|' read -r advice model batch devices expected; do
  [[ $advice != \#* ]] || continue
  model=${model// /}
  batch=${batch// /}
  devices=${devices# }
  devices=${devices% }
  expected=${expected# }
  rows=$((rows + 1))
  plan "$model" "$batch" "$devices" >plan.json 2>err || { fail "no plan for $model on $devices: $(cat err)"; continue; }
  kind=$(kind_of_best <plan.json)
  follows=no
  [[ ! $kind =~ $expected ]] || follows=yes
  [ $follows = no ] || followed=$((followed + 1))
  awk -F: -v line="$rows|$follows|$advice|$model|$devices|$kind" '/"step_ms"/ { print line "|" $2 + 0 " ms"; exit }' plan.json
  deviates=no
  [[ " ${deviating[*]} " != *" $rows "* ]] || deviates=yes
  [ $follows != $deviates ] || fail "row $rows: the best layout is '$kind', the advice '$expected'"
done <"$TESTS/cli/advice.txt" >table
column -t -s'|' table
[ "$rows" -eq 17 ] || fail "$rows rows"
[ $((4 * followed)) -ge $((3 * rows)) ] || fail "only $followed of $rows follow the advice"
finish
