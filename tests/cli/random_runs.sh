# shellcheck shell=bash disable=SC2034,SC2086 # used by scripts that source this; words
# Draws configurations of mtl-train at random. Source lib.sh and layouts.sh first. STEPS is the length of a run.
source "$TESTS/cli/random.sh"

# prepare_data: makes the token files of all commands, and prints how.
prepare_data() {
  local files shuffled='mtl-data shuffle c_text_document --output-prefix d_text_document'
  files="mtl-preprocess --input $TESTS/golden/end_to_end/corpus.jsonl --output-prefix c --append-eod"
  files+=' --tokenizer-type NullTokenizer --vocab-size 512'
  expect_exit 0 $files
  expect_exit 0 $shuffled
  echo "data: $files && $shuffled"
}

# fail_case WHAT: shows $command, and its messages in `err`.
fail_case() {
  fail "case $number: $1:"
  printf '%q ' "${command[@]}" >&2
  echo >&2
  sed 's/^/    /' err >&2
}

# check_metrics: compares one.metrics with other.metrics, and adds the differences to the file `differences`.
check_metrics() {
  local key difference bound=0
  for key in loss norm; do
    difference=$(mtl_compare difference one.metrics other.metrics --key $key) || difference=NaN
    echo "$precision $key $difference" >>"$WORK/differences"
    below "$difference" "${bounds[bound++]}" || fail_case "a $key differs by $difference"
  done
}
# show_differences: prints the largest ones.
show_differences() {
  echo 'largest differences:'
  sort -k1,2 -k3,3gr "$WORK/differences" | sort -u -k1,2
}

# settings FLAG...: adds flags that determine a run's results. layout FLAG...: adds flags that must not change them.
settings() { settings+=("$@"); }
layout() { layout+=("$@"); }

# draw_run: sets $ranks, $settings, $layout, $micro (the micro-batch size), $precision and $bounds.
draw_run() {
  settings=() layout=()
  draw_ranks
  draw_stages
  draw_model
  draw_batches
  draw_data
  draw_optimizer
  draw_memory
}

draw_ranks() {
  local factor
  tp=1 pp=1 cp=1 dp=1
  one_of 1 2 2 2 3 '2 2' '2 2' '2 2' '2 3' '2 2 2'
  for factor in $drawn; do
    one_of tp pp pp cp dp dp
    printf -v "$drawn" %d $((${!drawn} * factor))
  done
  ranks=$((tp * pp * cp * dp))
  layout --tensor-model-parallel-size $tp --pipeline-model-parallel-size $pp --context-parallel-size $cp
  [ $tp -eq 1 ] || ! one_in 2 || layout --sequence-parallel
  ! one_in 3 || layout --use-tp-pp-dp-mapping
  one_of all_gather p2p
  [ $cp -eq 1 ] || layout --cp-comm-type "$drawn"
}

# draw_stages: sets $layers, $schedule and $passes, the micro-batches of the smallest step. Divides the layers over the
# stages.
draw_stages() {
  local chunks=1 part first
  one_of 1f1b 1f1b gpipe zb-h1 zb-h2 zb-v zb-v interleaved interleaved interleaved
  schedule=$drawn layers=$((1 + RANDOM % 4)) passes=$((1 + RANDOM % 4))
  [ $pp -gt 1 ] || { schedule=1f1b; return; }
  layout --pipeline-schedule $schedule
  case $schedule in
    zb-v) chunks=2 ;;
    interleaved)
      chunks=$((2 + RANDOM % 2)) passes=$((pp * (1 + RANDOM % 2)))
      if one_in 3; then
        passes=$((pp + RANDOM % 3))
        layout --microbatch-group-size-per-virtual-pipeline-stage $passes
      fi ;;
  esac
  one_of even text balanced counted first last
  case $drawn in
    even)
      layers=$((1 + RANDOM % 2))
      drawn=''
      if [ $chunks -gt 1 ]; then
        one_of "--num-virtual-stages-per-pipeline-rank $chunks" "--num-layers-per-virtual-pipeline-stage $layers"
      fi
      layout $drawn
      layers=$((pp * chunks * layers + (chunks > 1 ? 0 : RANDOM % pp))) ;;
    text) draw_layout_text $chunks ;;
    balanced)
      layers=$((pp * chunks + RANDOM % 3))
      layout --pipeline-split balanced
      [ $schedule != interleaved ] || layout --num-virtual-stages-per-pipeline-rank $chunks ;;
    counted)
      layers=$((2 * pp * chunks - 1))
      [ $schedule != interleaved ] || layout --num-virtual-stages-per-pipeline-rank $chunks
      one_of embedding loss
      layout --account-for-$drawn-in-pipeline-split ;;
    first | last)
      part=$drawn first=$((chunks * (1 + RANDOM % 2)))
      layers=$((first + (pp - 1) * chunks * (1 + RANDOM % 2)))
      [ $schedule != interleaved ] || layout --num-virtual-stages-per-pipeline-rank $chunks
      layout --num-layers-in-$part-pipeline-stage $first ;;
  esac
}

# draw_layout_text CHUNKS: some chunks have no layer, but every stage has one.
draw_layout_text() {
  local text=E position least count
  layers=0
  for ((position = 0; position < pp * $1; ++position)); do
    [ $position -eq 0 ] || text+='|'
    least=$((position < pp)) count=$((RANDOM % 3))
    [ $count -ge $least ] || count=1
    layers=$((layers + count))
    while ((count-- > 0)); do text+=t; done
  done
  layout --pipeline-model-parallel-layout "${text}L"
}

draw_model() {
  local heads dims
  heads=$((tp * (1 + RANDOM % 2)))
  one_of 4 8 16
  dims=$drawn
  one_of gpt gpt llama qwen neox
  [ $drawn != neox ] || [ $dims -gt 4 ] || dims=8  # of which it rotates a quarter
  set_architecture $drawn
  settings "${architecture[@]}" --num-layers $layers --hidden-size $((heads * dims)) --num-attention-heads $heads
  settings --seed $RANDOM
  case $drawn in
    llama | qwen)
      one_of $tp $heads
      settings --num-query-groups "$drawn" --ffn-hidden-size $((tp * (8 + RANDOM % 24))) ;;
  esac
  one_of 1 2 3
  seq=$((2 * tp * cp * drawn * (tp * cp < 4 ? 4 : 1)))
  settings --seq-length $seq --max-position-embeddings $seq
  ! one_in 4 || settings --window-size $((1 + RANDOM % seq)),0
  ! one_in 2 || settings --hidden-dropout 0 --attention-dropout 0
  ! one_in 3 || settings --make-vocab-size-divisible-by $((1 + RANDOM % 200))
}

draw_batches() {
  local unit
  micro=$((1 + RANDOM % 2))
  unit=$((micro * dp * passes))
  one_of fixed fixed rampup steps
  case $drawn in
    fixed) settings --global-batch-size $unit --train-iters $STEPS ;;
    rampup)
      settings --global-batch-size $((3 * unit)) --train-samples $((unit * (2 * STEPS + RANDOM % 3)))
      settings --rampup-batch-size $unit $unit $((unit * STEPS)) ;;
    steps)
      settings --global-batch-size $((2 * unit)) --train-samples $((unit * (2 * STEPS - 1)))
      settings --step-batch-size-schedule "0:$unit $((unit * seq * 2)):$((2 * unit))" ;;
  esac
  [ "$drawn" = fixed ] || ! one_in 2 || settings --lr-warmup-samples $((2 * unit))
}
draw_data() {
  local flag
  one_of one one blend splits mock
  case $drawn in
    one) settings --data-path c_text_document --split 90,8,2 --vocab-size 512 ;;
    blend) settings --data-path 0.3 c_text_document 0.7 d_text_document --split 90,8,2 --vocab-size 512 ;;
    splits) settings --train-data-path d_text_document --valid-data-path c_text_document --vocab-size 512 ;;
    mock) settings --mock-data --vocab-size $((30 + RANDOM % 600)) ;;
  esac
  for flag in --reset-position-ids --reset-attention-mask --eod-mask-loss; do ! one_in 3 || settings $flag; done
  one_of '' '' '' '--data-order feistel' '--dataloader-type cyclic'
  [[ $dp -gt 1 && $drawn == *cyclic ]] || settings $drawn
  one_of 0 1 2
  settings --eval-iters "$drawn" --eval-interval $((1 + RANDOM % 3))
}
# has_fixed_micro: true if the losses depend on the samples that share a micro-batch.
has_fixed_micro() { [[ "${settings[*]}" =~ --eod-mask-loss|cyclic ]]; }

# draw_optimizer: the precision, which determines the bounds of losses and norms, and the schedule of the learning rate.
draw_optimizer() {
  one_of fp32 fp32 fp32 bf16 fp16 fsdp-low fsdp-mixed deepspeed
  precision=$drawn
  settings --precision $precision
  bounds=(1e-3 2e-2)
  case $precision in
    fp32) bounds=(1e-6 1e-5) ;;
    fp16) settings --initial-loss-scale 4096; bounds=(2e-4 2e-3) ;;
    fsdp-low) ! one_in 2 || settings --stochastic-rounding ;;
    bf16 | deepspeed)
      ! one_in 3 || settings --fp32-residual-connection
      ! one_in 3 || settings --bf16-logits
      ! one_in 3 || settings --grad-reduce-in-bf16
      ! one_in 3 || settings --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16 ;;
  esac
  one_of constant linear cosine inverse-square-root
  settings --lr-decay-style "$drawn"
  ! one_in 3 || settings --weight-decay-incr-style cosine --start-weight-decay 0.01 --end-weight-decay 0.2
  one_of 0 0.5 1
  settings --clip-grad "$drawn"
}

# draw_memory: what the ranks shard, recompute and offload.
draw_memory() {
  local stage
  one_of 0 1 2 3
  stage=$drawn
  [[ $schedule != zb-* ]] || [ $stage -lt 2 ] || stage=1
  [ $pp -eq 1 ] || [ $stage -lt 3 ] || stage=2
  case $stage$((RANDOM % 3)) in
    1?) one_of --use-distributed-optimizer '--zero-stage 1' \
      '--use-megatron-fsdp --data-parallel-sharding-strategy optim' ;;
    2?) one_of '--zero-stage 2' '--fsdp shard_grad_op' \
      '--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads' ;;
    3?) one_of '--zero-stage 3' '--fsdp full_shard' --use-torch-fsdp2 \
      '--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params' ;;
    *) drawn='' ;;
  esac
  layout $drawn
  if one_in 2; then
    layout --overlap-grad-reduce
    [ $stage -eq 0 ] || ! one_in 2 || layout --use-distributed-optimizer --overlap-param-gather
  fi
  one_of '' '' '--ddp-bucket-size 1' '--ddp-bucket-size 2000' '--ddp-bucket-size 100000'
  layout $drawn
  one_of '' '' --recompute-activations --checkpoint-activations '--recompute-granularity selective' \
    "--activations-checkpoint-method block --checkpoint-num-layers $((1 + RANDOM % 3))" \
    "--recompute-granularity full --recompute-method uniform --recompute-num-layers $((1 + RANDOM % 3))" \
    "--recompute-granularity full --recompute-method block --recompute-num-layers $((1 + RANDOM % 3))"
  layout $drawn
  one_of '' '' '' '--offload-optimizer .' --optimizer-cpu-offload
  layout $drawn
}
