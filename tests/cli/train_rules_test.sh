#!/bin/bash
# Update rules and objectives: what each saves, which states a run resumes, what is refused, and that a loss per token
# does not depend on the micro-batches.
source "$(dirname "$0")/lib.sh" "$1"
source "$(dirname "$0")/train_runs.sh"
source "$TESTS/cli/metrics.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
cd "$WORK" || exit 1
preprocess "$CORPUS" c
# shellcheck disable=SC2054  # the comma belongs to a flag's value
tiny=(mtl-train --num-layers 2 --hidden-size 32 --num-attention-heads 2 --max-position-embeddings 32 --seq-length 32
  --tokenizer-type NullTokenizer --vocab-size 512 --data-path c_text_document --split 100,0,0 --eval-iters 0
  --global-batch-size 8 --lr-decay-style constant --lr 0.002 --log-interval 1 --peak-tflops 0.1 --threads 1)

# --- Every rule resumes to the bits of the uninterrupted run, also in another layout with the states in files ---
mkdir state
for rule in adam sgd muon; do
  run=("${tiny[@]}" --micro-batch-size 2 --optimizer "$rule")
  expect_exit 0 "${run[@]}" --train-iters 4 --save "$rule.whole"
  expect_exit 0 "${run[@]}" --train-iters 4 --save "$rule.parts" --exit-interval 2
  expect_exit 0 "${run[@]}" --train-iters 4 --save "$rule.parts"
  mtl_compare_checkpoints --exact "$rule.whole/iter_0000004" "$rule.parts/iter_0000004" >out 2>&1 ||
    fail "$rule: the resumed run differs: $(cat out)"
  rm -r "$rule.parts/iter_0000004"
  expect_exit 0 mpirun -n 2 --oversubscribe "${run[@]}" --train-iters 4 --save "$rule.parts" --zero-stage 2 --offload-optimizer state
  read -r _ rms _ <<<"$(mtl_compare_checkpoints "$rule.whole/iter_0000004" "$rule.parts/iter_0000004")"
  below "$rms" 1e-5 || fail "$rule: the weights of a run that resumed with ZeRO-2 and files differ by $rms"
done
tensors() { grep -o '"[a-z_]*\.layers\.0\.mlp\.up\.weight"' "$1.whole/iter_0000004/manifest.json" | sort -u | tr '\n' ' '; }
[ "$(tensors sgd)" = '"momentum_buffer.layers.0.mlp.up.weight" "param.layers.0.mlp.up.weight" ' ] || fail "sgd saved $(tensors sgd)"
[ "$(tensors muon)" = '"muon_momentum.layers.0.mlp.up.weight" "param.layers.0.mlp.up.weight" ' ] || fail "muon saved $(tensors muon)"
grep -q '"exp_avg.embedding.tokens.weight"' muon.whole/iter_0000004/manifest.json || fail 'muon gives AdamW no token embedding'

# --- A run does not continue with the states of another rule ---
expect_exit 65 "${tiny[@]}" --micro-batch-size 2 --optimizer sgd --train-iters 5 --save muon.whole
expect_text err 'muon.whole/iter_0000004: the optimizer state is of another --optimizer than sgd: .* has no momentum_buffer; use its --optimizer, or --load it with --no-load-optim or --finetune'
expect_exit 65 "${tiny[@]}" --micro-batch-size 2 --train-iters 5 --load sgd.whole
expect_text err 'of another --optimizer than adam: .* use --no-load-optim to continue at iteration 4 with moments of zero, or use --finetune'
expect_exit 65 "${tiny[@]}" --micro-batch-size 2 --optimizer muon --muon-no-position-embedding --train-iters 5 --save muon.whole
expect_text err 'of another --optimizer than muon, or of another --muon-no-position-embedding: embedding.positions.weight has no exp_avg'
expect_exit 0 "${tiny[@]}" --micro-batch-size 2 --train-iters 5 --load sgd.whole --no-load-optim
expect_exit 2 mtl-convert --load sgd.whole --save megatron --to megatron --ckpt-format torch_dist
expect_text err 'torch_dist checkpoints are written for adam only: use --ckpt-format torch'
expect_exit 0 mtl-convert --load muon.whole --save hf
expect_exit 2 "${tiny[@]}" --micro-batch-size 2 --optimizer muon --train-iters 5 --fp16 --muon-tp-mode blockwise
expect_text err '--optimizer muon +is not supported with --fp16'
expect_text err '--muon-tp-mode blockwise +is not supported in this version, in which the result does not depend on the layout'
expect_exit 0 "${tiny[@]}" --micro-batch-size 2 --optimizer muon --train-iters 1 --muon-tp-mode distributed --dry-run
expect_text out "FLOPs of a rank's update +[0-9.]+e"
expect_text out 'momentum +fp32, 4 bytes per parameter, for [0-9.]+% of them'

# --- A loss per token depends on the micro-batches in the order of additions only; the mean of their means does not ---
masked=("${tiny[@]}" --eod-mask-loss --train-iters 3)
# losses NAME RANKS MICRO FLAG...: writes the losses and norms of a run.
losses() {
  local name=$1 ranks=$2 micro=$3
  shift 3
  rm -f run.jsonl
  expect_exit 0 mpirun -n "$ranks" --oversubscribe "${masked[@]}" --micro-batch-size "$micro" --log-jsonl run.jsonl "$@"
  metrics run.jsonl >"$name"
}
losses token1 1 1 --calculate-per-token-loss
losses token8 1 8 --calculate-per-token-loss
losses token2 2 2 --calculate-per-token-loss --use-distributed-optimizer
losses mean1 1 1
losses mean8 1 8
expect_near_lines token1 token8 'micro-batches of a loss per token' 2e-6 6
expect_near_lines token1 token2 'ranks of a loss per token' 2e-6 6
expect_near_lines token8 mean8 'a single micro-batch' 2e-6 6
mtl_compare near mean1 mean8 --relative 1e-5 --count 6 >out 2>&1 && fail 'means of micro-batches do not depend on them, so this test shows nothing'

# --- A z-loss is logged apart, enters the gradient, and is the same in every layout and after a resume ---
# terms LOG: each step's loss, z-loss and norm, a line each.
terms() { sed -nE 's/.*"lm_loss": ([^,]*).*"z_loss": ([^,]*).*"grad_norm": ([^,]*),.*/loss \1\nz \2\nnorm \3/p' "$1"; }
z=("${masked[@]}" --micro-batch-size 2 --z-loss-coeff 0.01)
expect_exit 0 "${z[@]}" --log-jsonl z1.jsonl
expect_text out ' lm loss: [0-9.E+-]+ \| z loss: [0-9.E+-]+ \| loss scale'
terms z1.jsonl >z1
expect_exit 0 mpirun -n 2 --oversubscribe "${z[@]}" --tensor-model-parallel-size 2 --log-jsonl z2.jsonl
expect_exit 0 mpirun -n 4 --oversubscribe "${z[@]}" --pipeline-model-parallel-size 2 --context-parallel-size 2 --log-jsonl z4.jsonl
for layout in z2 z4; do
  terms "$layout.jsonl" >"$layout"
  expect_near_lines z1 "$layout" "z-losses of $layout" 1e-5 9
done
expect_exit 0 "${z[@]}" --save z --exit-interval 2 --log-interval 3
expect_exit 0 "${z[@]}" --save z --log-interval 3 --log-jsonl z.jsonl
expect_exit 0 "${z[@]}" --log-interval 3 --log-jsonl whole.jsonl
[ "$(terms z.jsonl)" = "$(terms whole.jsonl)" ] || fail "a resumed interval has the terms $(terms z.jsonl), not $(terms whole.jsonl)"
rm -f run.jsonl
expect_exit 0 "${masked[@]}" --micro-batch-size 2 --log-jsonl run.jsonl
[ "$(metrics run.jsonl | head -1)" = "$(head -1 z1)" ] || fail 'the z-loss changes the loss before the first update'
[ "$(metrics run.jsonl | sed -n 2p)" != "$(sed -n 3p z1)" ] || fail 'the z-loss does not change the gradient'
finish
