#!/bin/bash
# From text to losses: forty iterations equal PyTorch's. The terminal, the log's JSON lines and TensorBoard agree.
source "$(dirname "$0")/lib.sh" "$1"
source "$(dirname "$0")/metrics.sh"
export OMP_WAIT_POLICY=passive
GOLDEN=$TESTS/golden/end_to_end
cd "$WORK" || exit 1

# terminal_of FILE: prints the lines that Megatron-LM would print, derived from JSON lines. mtl's own metrics end a
# line.
terminal_of() {
  awk "$VALUE"'
    function rate(x) { return x > 0 && x < 1 ? sprintf("%.*f", 3 + int(-log(x) / log(10)), x) : sprintf("%.1f", x) }
    /"type": "step"/ {
      printf " [TIME] iteration %8d/%8d | consumed samples: %12d | elapsed time per iteration (ms): %.1f |", \
        value("iteration"), 40, value("consumed_samples"), value("elapsed_ms_per_iteration")
      printf " throughput per GPU (TFLOP/s/GPU): %s | learning rate: %.6E | global batch size: %5d |", \
        rate(value("tflops_per_device")), value("learning_rate"), value("global_batch_size")
      printf " lm loss: %.6E | loss scale: %.1f | grad norm: %.3f |", \
        value("lm_loss"), value("loss_scale"), value("grad_norm")
      printf " number of skipped iterations: %3d | number of nan iterations: %3d |", \
        value("skipped_iterations"), value("nan_iterations")
      printf " tokens per second: %.1f | MFU A: %s%% | MFU B: %s%% | data stall (ms): %.1f |\n", \
        value("tokens_per_second"), rate(100 * value("mfu_a")), rate(100 * value("mfu_b")), value("data_stall_ms")
    }
    /"type": "(validation|test)"/ {
      set = /"final": true/ ? (/"type": "test"/ ? " on test set" : " on validation set") : ""
      name = /"type": "test"/ ? "test" : "validation"
      samples[name] += 24  # --eval-iters 3 --global-batch-size 8
      line = sprintf(" validation loss at iteration %d%s | lm loss value: %.6E | lm loss PPL: %.6E | ", \
        value("iteration"), set, value("loss"), value("ppl"))
      line = line sprintf("%s samples %d to %d | ", name, samples[name] - 23, samples[name])
      dashes = line "-"
      gsub(/./, "-", dashes)
      print dashes "\n" line "\n" dashes
    }' "$1"
}

# scalars TAG FILE...: prints TAG's values in TensorBoard files, one per line. If the tag's bytes are followed by a
# float's key (field 2, type 5), the next four bytes are the value.
scalars() {
  local tag=$1
  shift
  cat "$@" | od -An -v -tu1 -w1 | awk -v tag="$(printf '%s' "$tag" | od -An -v -tu1)" '
    { byte[NR] = $1 + 0 }
    END {
      n = split(tag, want, " ")
      for (at = 2; at + n + 4 <= NR; ++at) {
        if (byte[at - 1] != n) continue
        for (i = 1; i <= n && byte[at + i - 1] == want[i]; ++i);
        if (i <= n || byte[at + n] != 21) continue
        v = at + n + 1
        exponent = byte[v + 3] % 128 * 2 + int(byte[v + 2] / 128)
        fraction = (byte[v + 2] % 128 * 65536 + byte[v + 1] * 256 + byte[v]) / 8388608
        printf "%.7g\n", exponent == 0 ? 0 : (byte[v + 3] < 128 ? 1 : -1) * (1 + fraction) * 2 ^ (exponent - 127)
      }
    }'
}

expect_exit 0 mtl-preprocess --input "$GOLDEN/corpus.jsonl" --output-prefix c --tokenizer-type NullTokenizer \
  --vocab-size 512 --append-eod --workers 1

# train NAME FLAG...: writes NAME.jsonl, NAME.out and NAME.tb.
train() {
  local name=$1
  shift
  expect_exit 0 mtl-train --load "$TESTS/golden/gpt2_model/a" --finetune --tokenizer-type NullTokenizer --vocab-size 512 \
    --data-path c_text_document --split 90,8,2 --seq-length 64 --micro-batch-size 2 --global-batch-size 8 \
    --train-iters 40 --lr 0.002 --min-lr 0.0002 --lr-warmup-iters 4 --lr-decay-iters 40 --lr-decay-style cosine \
    --weight-decay 0.1 --adam-beta2 0.95 --clip-grad 1.0 --seed 1234 --eval-interval 20 --eval-iters 3 \
    --hidden-dropout 0 --attention-dropout 0 --log-interval 1 --peak-tflops 0.1 \
    --log-jsonl "$name.jsonl" --tensorboard-dir "$name.tb" "$@"
  mv out "$name.out"
}
for variant in plain documents; do
  flags=()
  [ "$variant" = documents ] && flags=(--eod-mask-loss --reset-position-ids --reset-attention-mask)
  train "$variant" "${flags[@]}"
  compare_losses "$GOLDEN/$variant.jsonl" "$variant.jsonl"

  sed -E 's/^ \[[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}\]/ [TIME]/' "$variant.out" >terminal
  terminal_of "$variant.jsonl" >terminal_of_jsonl
  expect_same terminal terminal_of_jsonl

  [ "$(find "$variant.tb" -name 'events.out.tfevents.*' | wc -l)" -eq 1 ] || fail 'not one event file per session'
  expect_text "$variant.tb"/events* 'brain.Event:2'
  for name in lm_loss:'lm loss' grad_norm:grad-norm learning_rate:learning-rate; do
    awk "$VALUE"'/"type": "step"/ { print value("'"${name%%:*}"'") }' "$variant.jsonl" >metrics
    for tag in "${name##*:}" "${name##*:} vs samples"; do
      scalars "$tag" "$variant.tb"/events* >stored
      expect_near_lines metrics stored "$tag" 1e-6 40
    done
  done
  awk "$VALUE"'/"type": "validation"/ { print value("loss") }' "$variant.jsonl" >metrics
  scalars 'lm loss validation' "$variant.tb"/events* >stored
  expect_near_lines metrics stored 'lm loss validation' 1e-6 3
done

# The losses are the same with any thread count and micro-batch size, up to rounding.
metrics plain.jsonl | grep '^loss' >plain.losses
for variation in '--threads 1' '--threads 3' '--micro-batch-size 8'; do
  # shellcheck disable=SC2086
  train other $variation
  metrics other.jsonl | grep '^loss' >other.losses
  expect_near_lines other.losses plain.losses "the losses with $variation" 1e-6 44
  rm -r other.*
done
finish
