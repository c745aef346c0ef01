# Every layout has the same loss. Trains the same $STEPS steps, with dropout, in each layout and compares them with a
# single process. Source lib.sh first. Then run_layouts FIRST LAST [ARCHITECTURE [TP]] runs lines FIRST to LAST in
# layouts.txt, using GPT-2's architecture or the given one. Skips lines with more than TP tensor-parallel ranks. If
# RECOMPUTE has flags, each layout must compute the same bits with them. Prints a table:
#
# loss, norm  largest relative difference over all steps, 3 validations and the test
# gradient    largest relative rms difference of a tensor in the first step's gradients (from the first moments or the
#             momentum)
# weights     the same for the final weights
# start       whether the weights before the first update have the same bits
#
# In 16 bits, layouts round different partial sums. The dtype determines the bounds, which are several times the
# measured differences. In bf16, Muon's iterations amplify rounding, along the directions with small singular values.
# Muon is refused in fp16, so its lines are skipped there.
source "$TESTS/cli/metrics.sh"
export OMP_WAIT_POLICY=passive OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

STEPS=${STEPS:-4}  # an even number
FINAL=$(printf iter_%07d "$STEPS")
METRICS=$((2 * STEPS + 4)) # losses and norms in a run's log
CLIP=1.0  # below each step's gradient norm: the norm over all ranks scales each update

# An architecture's flags, empty for GPT-2. With two query groups, there can be at most two tensor-parallel ranks. The
# learning rate is lower than GPT-2's because these models have no position embeddings. At 0.001, some steps have a row
# whose gradient exceeds all others and is ill-conditioned. Rounding alone then changes the norm by up to 1e-3.
architecture=()
LOW_LR=(--lr 0.0003)
LLAMA_FLAGS=(--normalization RMSNorm --position-embedding-type rope --group-query-attention --num-query-groups 2 --swiglu
  --disable-bias-linear)
FP32_BOUNDS=(1e-6 1e-5 1e-5 1e-4 1e-4) # for loss, norm, gradient, weights, weights with Muon
bounds=("${FP32_BOUNDS[@]}")
rule=adam  # of the layout that set_layout has set last
# set_architecture NAME: sets architecture and bounds. A suffix adds the precision, as in gpt-bf16, gpt-logits-bf16 (with
# logits in bf16) or llama-fp16.
set_architecture() {
  bounds=("${FP32_BOUNDS[@]}")
  case ${1%%-*} in
    gpt) architecture=() ;;
    llama) architecture=("${LOW_LR[@]}" "${LLAMA_FLAGS[@]}" --untie-embeddings-and-output-weights) ;;
    qwen) architecture=("${LOW_LR[@]}" "${LLAMA_FLAGS[@]}" --add-qkv-bias --qk-layernorm --position-embedding-type yarn
      --rotary-scaling-factor 4 --yarn-original-max-position-embeddings 16) ;;
    neox) architecture=("${LOW_LR[@]}" --position-embedding-type rope --rotary-percent 0.25 --parallel-residual
      --untie-embeddings-and-output-weights --no-bias-gelu-fusion) ;;
    *) fail "no architecture '$1'" ;;
  esac
  case $1 in
    *-logits-bf16) architecture+=(--bf16 --bf16-logits); bounds=(2e-4 2e-3 2e-2 2e-2 8e-2) ;;
    *-bf16) architecture+=(--bf16); bounds=(2e-4 2e-3 2e-2 2e-2 8e-2) ;;
    *-fp16) architecture+=(--fp16 --initial-loss-scale 4096); bounds=(4e-5 2e-4 3e-3 3e-3) ;;
  esac
}

# train_layout RANKS NAME FLAG...: writes NAME.jsonl, and the checkpoints to NAME.ck.
train_layout() {
  local ranks=$1 name=$2
  shift 2
  expect_exit 0 mpirun -n "$ranks" --oversubscribe mtl-train --num-layers 5 --hidden-size 64 --num-attention-heads 8 \
    --max-position-embeddings 64 --tokenizer-type NullTokenizer --vocab-size 512 --data-path c_text_document \
    --split 90,8,2 --seq-length 64 --global-batch-size 16 --train-iters "$STEPS" --lr 0.001 --lr-decay-style cosine \
    --lr-warmup-iters 2 --weight-decay 0.1 --clip-grad "$CLIP" --seed 1234 --eval-interval $((STEPS / 2)) --eval-iters 2 \
    --log-interval 1 --peak-tflops 0.1 --threads 1 --save "$name.ck" --save-interval 1 --log-jsonl "$name.jsonl" \
    "${architecture[@]}" "$@" </dev/null
}

# check_clipping NAME: all steps in that run have gradient norms above $CLIP and are clipped. Compares the first
# step's first moments with a run without clipping: they must be scaled by $CLIP / norm.
check_clipping() {
  local name=$1 norm ratio
  metrics "$name.jsonl" | sed -n 's/^norm //p' >norms
  [ "$(wc -l <norms)" -eq "$STEPS" ] || fail "$name: $(wc -l <norms) gradient norms instead of $STEPS"
  while read -r norm; do
    below "$CLIP" "$norm" || fail "$name: a step has the gradient norm $norm, which is not clipped to $CLIP"
  done <norms
  train_layout 1 free --micro-batch-size 2 --clip-grad 0 --exit-interval 1
  read -r _ _ _ ratio _ <<<"$(mtl_compare_checkpoints "$name.ck/iter_0000001" free.ck/iter_0000001)"
  expect_near "$ratio" "$(head -1 norms | awk -v clip="$CLIP" '{ print $1 / clip - 1 }')" 0.05
  rm -r free.*
}

# check_layout ONE NAME TITLE: compares the run with ONE, of a single process, and prints its row in the table.
check_layout() {
  local one=$1 name=$2 title=$3 loss norm first tensor start rms bound=${bounds[3]}
  [ "$rule" != muon ] || bound=${bounds[4]}
  metrics "$one.jsonl" >one.metrics
  metrics "$name.jsonl" >"$name.metrics"
  loss=$(mtl_compare difference one.metrics "$name.metrics" --key loss --count $METRICS)
  norm=$(mtl_compare difference one.metrics "$name.metrics" --key norm --count $METRICS)
  read -r start _ _ first _ <<<"$(mtl_compare_checkpoints "$one.ck/iter_0000001" "$name.ck/iter_0000001")"
  read -r _ rms tensor _ <<<"$(mtl_compare_checkpoints "$one.ck/$FINAL" "$name.ck/$FINAL")"
  printf '| %-46s | %s | %s | %s | %s | %s |\n' "$title" "$loss" "$norm" "$first" "$rms" "$start"
  below "$loss" "${bounds[0]}" || fail "$title: losses differ by $loss"
  below "$norm" "${bounds[1]}" || fail "$title: gradient norms differ by $norm"
  below "$first" "${bounds[2]}" || fail "$title: the first step's gradients differ by $first"
  below "$rms" "$bound" || fail "$title: weights differ by $rms, most in $tensor"
  [ "$start" = same ] || fail "$title: different initial weights"
}

# set_layout FIELD...: sets ranks, rule, flags and title from a line in layouts.txt.
set_layout() {
  local tp=$1 sp=$2 pp=$3 schedule=$4 dp=$5 zero=$6 overlap=$7 micro=$8 cp=$9 exchange=${10} offload=${11}
  rule=${12}
  ranks=$((tp * pp * dp * cp))
  flags=(--tensor-model-parallel-size "$tp" --pipeline-model-parallel-size "$pp" --micro-batch-size "$micro")
  title=""
  [ "$tp" -eq 1 ] || title+="TP$tp "
  [ "$sp" -eq 0 ] || { flags+=(--sequence-parallel); title+="SP "; }
  [ "$pp" -eq 1 ] || { flags+=(--pipeline-schedule "$schedule"); title+="PP$pp $schedule "; }
  # Five layers in two chunks per stage. With four stages, some chunks have no layer.
  case "$schedule $pp" in
    interleaved\ 2 | zb-v\ 2) flags+=(--pipeline-model-parallel-layout 'Et|tt|t|tL') ;;
    interleaved\ 4 | zb-v\ 4) flags+=(--pipeline-model-parallel-layout 'Et|t||t||t|t|L') ;;
  esac
  [ "$dp" -eq 1 ] || title+="DP$dp "
  [ "$cp" -eq 1 ] || { flags+=(--context-parallel-size "$cp" --cp-comm-type "$exchange"); title+="CP$cp $exchange "; }
  [ "$zero" -eq 0 ] || { flags+=(--zero-stage "$zero"); title+="ZeRO-$zero "; }
  [ "$offload" -eq 0 ] || { mkdir -p state; flags+=(--offload-optimizer state); title+="offloaded "; }
  [ "$overlap" -eq 0 ] || { flags+=(--overlap-grad-reduce --ddp-bucket-size 20000); title+="overlapped "; }
  [ $((zero * overlap)) -eq 0 ] || flags+=(--overlap-param-gather)
  [ "$rule" = adam ] || { flags+=(--optimizer "$rule"); title+="$rule "; }
  title+="micro-batches $((16 / micro / dp)) x $micro"
}

prepare_token_files() {
  expect_exit 0 mtl-preprocess --input "$TESTS/golden/end_to_end/corpus.jsonl" --output-prefix c \
    --tokenizer-type NullTokenizer --vocab-size 512 --append-eod
}

# same_checkpoints NAME OTHER WHAT: the first and last checkpoints of two train_layout runs have the same bits.
same_checkpoints() {
  local difference step
  for step in iter_0000001 "$FINAL"; do
    difference=$(mtl_compare_checkpoints --exact "$1.ck/$step" "$2.ck/$step" 2>&1) || fail "$3: $difference"
  done
}

# same_bits NAME OTHER WHAT: two train_layout runs have the same metrics and the same checkpoints.
same_bits() {
  metrics "$1.jsonl" >"$1.metrics"
  metrics "$2.jsonl" >"$2.metrics"
  mtl_compare near "$1.metrics" "$2.metrics" --relative 0 --count $METRICS || fail "$3: different metrics"
  same_checkpoints "$@"
}

# check_recompute NAME FLAG...: the run NAME, whose layout is in `flags`, has the same bits with recomputation.
check_recompute() {
  local name=$1
  shift
  train_layout "$ranks" again "${flags[@]}" "$@"
  same_bits "$name" again "$title, $*"
  echo "$title, $*: same bits"
  rm -rf again.*
}

run_layouts() {
  local name=${3:-gpt} max_tp=${4:-8} line number=0
  set_architecture "$name"
  [ -e c_text_document.bin ] || prepare_token_files
  train_layout 1 one.adam --micro-batch-size 2
  check_clipping one.adam
  echo "| layout                                         | loss    | norm    | gradient | weights | start |"
  echo "|---|---|---|---|---|---|"
  while read -r -a line; do
    [ "${line[0]}" != '#' ] || continue
    number=$((number + 1))
    { [ "$number" -ge "$1" ] && [ "$number" -le "$2" ] && [ "${line[0]}" -le "$max_tp" ]; } || continue
    set_layout "${line[@]}"
    [[ "$name $rule" != *-fp16\ muon ]] || continue
    [ "$name" = gpt ] || title="$name $title"
    [ -e "one.$rule.jsonl" ] || train_layout 1 "one.$rule" --micro-batch-size 2 --optimizer "$rule"
    train_layout "$ranks" other "${flags[@]}"
    check_layout "one.$rule" other "$title"
    # shellcheck disable=SC2086 # words
    [ -z "${RECOMPUTE:-}" ] || check_recompute other $RECOMPUTE
    rm -rf other.*
  done <"$TESTS/cli/layouts.txt"
  rm -rf one.*
  set_architecture gpt
}
