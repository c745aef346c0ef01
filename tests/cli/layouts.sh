# Every layout has the same loss: trains the same 20 iterations, with dropout, in each layout, and compares with a
# single process. Source lib.sh first; then run_layouts FIRST LAST [ARCHITECTURE [TP]] runs these lines of layouts.txt
# with GPT-2's architecture or another, if they divide its heads over at most TP ranks, and prints the table.
#
# loss, norm largest relative difference over 20 iterations and 3 validations
# gradient largest relative rms difference of a tensor in the first step's gradients (from the first moments)
# weights the same for the weights after 20 iterations
# start whether the weights before the first update have the same bits
#
# In 16 bits, layouts round different partial sums: the bounds are those of the dtype, several times the measured
# ones.
source "$TESTS/cli/figures.sh"
export OMP_WAIT_POLICY=passive OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

CLIP=1.0  # below the norm of every step: the sum over all ranks determines each update

# Flags of an architecture; empty for GPT-2's. Two query groups allow at most two tensor-parallel ranks. The learning
# rate is lower than GPT-2's: these models have no position table, and at 0.001 a step occasionally has a row whose
# gradient exceeds all others and is ill-conditioned, so that rounding by itself changes its norm by up to 1e-3.
# gpt-bf16 and the like: the architecture in that precision.
architecture=()
LOW_LR=(--lr 0.0003)
LLAMA_FLAGS=(--normalization RMSNorm --position-embedding-type rope --group-query-attention --num-query-groups 2 --swiglu
  --disable-bias-linear)
FP32_BOUNDS=(1e-6 1e-5 1e-5 1e-4) # of loss, norm, gradient, weights
bounds=("${FP32_BOUNDS[@]}")
set_architecture() {
  bounds=("${FP32_BOUNDS[@]}")
  case ${1%-*16} in
    gpt) architecture=() ;;
    llama) architecture=("${LOW_LR[@]}" "${LLAMA_FLAGS[@]}" --untie-embeddings-and-output-weights) ;;
    qwen) architecture=("${LOW_LR[@]}" "${LLAMA_FLAGS[@]}" --add-qkv-bias --qk-layernorm) ;;
    neox) architecture=("${LOW_LR[@]}" --position-embedding-type rope --rotary-percent 0.25 --parallel-residual
      --untie-embeddings-and-output-weights --no-bias-gelu-fusion) ;;
    *) fail "no architecture '$1'" ;;
  esac
  case $1 in
    *-bf16) architecture+=(--bf16); bounds=(2e-4 2e-3 2e-2 2e-2) ;;
    *-fp16) architecture+=(--fp16 --initial-loss-scale 4096); bounds=(4e-5 2e-4 3e-3 3e-3) ;;
  esac
}

# train_layout RANKS NAME FLAG...: writes NAME.jsonl and the checkpoints in NAME.ck.
train_layout() {
  local ranks=$1 name=$2
  shift 2
  expect_exit 0 mpirun -n "$ranks" --oversubscribe mtl-train --num-layers 5 --hidden-size 64 --num-attention-heads 8 \
    --max-position-embeddings 64 --tokenizer-type NullTokenizer --vocab-size 512 --data-path c_text_document \
    --split 90,8,2 --seq-length 64 --global-batch-size 16 --train-iters 20 --lr 0.001 --lr-decay-style cosine \
    --lr-warmup-iters 2 --weight-decay 0.1 --clip-grad "$CLIP" --seed 1234 --eval-interval 10 --eval-iters 2 --log-interval 1 \
    --peak-tflops 0.1 --threads 1 --save "$name.ck" --save-interval 1 --log-jsonl "$name.jsonl" "${architecture[@]}" \
    "$@" </dev/null
}

# check_clipping NAME: all 20 steps of that run have norms above $CLIP, and clipping acts: the first moments of the
# first step are those of a run without it, times $CLIP / norm.
check_clipping() {
  local name=$1 norm ratio
  figures "$name.jsonl" | sed -n 's/^norm //p' >norms
  [ "$(wc -l <norms)" -eq 20 ] || fail "$name: $(wc -l <norms) gradient norms instead of 20"
  while read -r norm; do
    below "$CLIP" "$norm" || fail "$name: a step with the gradient norm $norm does not clip to $CLIP"
  done <norms
  train_layout 1 free --micro-batch-size 2 --clip-grad 0 --exit-interval 1
  read -r _ _ _ ratio _ <<<"$(mtl_compare_checkpoints "$name.ck/iter_0000001" free.ck/iter_0000001)"
  expect_near "$ratio" "$(head -1 norms | awk -v clip="$CLIP" '{ print $1 / clip - 1 }')" 0.05
  rm -r free.*
}

# check_layout NAME: compares with `one`, prints a row.
check_layout() {
  local name=$1 text=$2 loss norm first last start rms
  figures one.jsonl >one.figures
  figures "$name.jsonl" >"$name.figures"
  loss=$(mtl_compare difference one.figures "$name.figures" --key loss --count 44)
  norm=$(mtl_compare difference one.figures "$name.figures" --key norm --count 44)
  read -r start _ _ first _ <<<"$(mtl_compare_checkpoints one.ck/iter_0000001 "$name.ck/iter_0000001")"
  read -r _ rms last _ <<<"$(mtl_compare_checkpoints one.ck/iter_0000020 "$name.ck/iter_0000020")"
  printf '| %-46s | %s | %s | %s | %s | %s |\n' "$text" "$loss" "$norm" "$first" "$rms" "$start"
  below "$loss" "${bounds[0]}" || fail "$text: losses differ by $loss"
  below "$norm" "${bounds[1]}" || fail "$text: gradient norms differ by $norm"
  below "$first" "${bounds[2]}" || fail "$text: first gradients differ by $first"
  below "$rms" "${bounds[3]}" || fail "$text: weights differ by $rms, in $last"
  [ "$start" = same ] || fail "$text: different initial weights"
}

# The flags of a line of layouts.txt, and its title.
set_layout() {
  local tp=$1 sp=$2 pp=$3 schedule=$4 dp=$5 zero=$6 overlap=$7 micro=$8
  ranks=$((tp * pp * dp))
  flags=(--tensor-model-parallel-size "$tp" --pipeline-model-parallel-size "$pp" --micro-batch-size "$micro")
  title=""
  [ "$tp" -eq 1 ] || title+="TP$tp "
  [ "$sp" -eq 0 ] || { flags+=(--sequence-parallel); title+="SP "; }
  [ "$pp" -eq 1 ] || { flags+=(--pipeline-schedule "$schedule"); title+="PP$pp $schedule "; }
  [ "$dp" -eq 1 ] || title+="DP$dp "
  [ "$zero" -eq 0 ] || { flags+=(--use-distributed-optimizer); title+="ZeRO-1 "; }
  [ "$overlap" -eq 0 ] || { flags+=(--overlap-grad-reduce --ddp-bucket-size 20000); title+="overlapped "; }
  [ $((zero * overlap)) -eq 0 ] || flags+=(--overlap-param-gather)
  title+="micro-batches $((16 / micro / dp)) x $micro"
}

# prepare_layouts: makes the token files.
prepare_layouts() {
  expect_exit 0 mtl-preprocess --input "$TESTS/golden/end_to_end/corpus.jsonl" --output-prefix c \
    --tokenizer-type NullTokenizer --vocab-size 512 --append-eod
}

# same_bits NAME OTHER WHAT: two runs of train_layout have the same figures, and the same bits in every checkpoint.
same_bits() {
  local answer step
  figures "$1.jsonl" >"$1.figures"
  figures "$2.jsonl" >"$2.figures"
  mtl_compare near "$1.figures" "$2.figures" --relative 0 --count 44 || fail "$3: different figures"
  for step in 0000001 0000020; do
    answer=$(mtl_compare_checkpoints --exact "$1.ck/iter_$step" "$2.ck/iter_$step" 2>&1) || fail "$3: $answer"
  done
}

# check_recompute KEPT FLAG...: recomputation changes no bit of the run KEPT, whose layout is in `flags`.
check_recompute() {
  local kept=$1
  shift
  train_layout "$ranks" again "${flags[@]}" "$@"
  same_bits "$kept" again "$title, $*"
  echo "$title, $*: same bits"
  rm -rf again.*
}

run_layouts() {
  local name=${3:-gpt} most=${4:-8} line number=0
  set_architecture "$name"
  [ -e c_text_document.bin ] || prepare_layouts
  train_layout 1 one --micro-batch-size 2
  check_clipping one
  echo "| layout                                         | loss    | norm    | gradient | weights | start |"
  echo "|---|---|---|---|---|---|"
  while read -r -a line; do
    [ "${line[0]}" != '#' ] || continue
    number=$((number + 1))
    { [ "$number" -ge "$1" ] && [ "$number" -le "$2" ] && [ "${line[0]}" -le "$most" ]; } || continue
    set_layout "${line[@]}"
    [ "$name" = gpt ] || title="$name $title"
    train_layout "$ranks" other "${flags[@]}"
    check_layout other "$title"
    rm -rf other.*
  done <"$TESTS/cli/layouts.txt"
  rm -rf one.*
  set_architecture gpt
}
