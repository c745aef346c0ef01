#!/bin/bash
# share/experiments and share/slurm: trains the tiny models, checks the tables, and plans the real models' runs.
source "$(dirname "$0")/lib.sh" "$1"
SHARE=$(cd "$SHARE" && pwd)
cd "$WORK" || exit 1
export MTL_BIN=$BIN

if command -v shellcheck >/dev/null; then
  find "$SHARE" \( -name '*.sh' -o -name '*.sbatch' \) -print0 | xargs -0 shellcheck ||
    fail 'shellcheck reports problems in share/'
fi

# A vocabulary of 4000 tokens trains in a third of the time. The plans and the precision runs below use GPT-2's.
small=$TESTS/golden/tokenizer/bpe_wikitext2-test_4000
export THREADS=1 VOCAB=$small/vocab.json MERGES=$small/merges.txt

# seed-345m: the layouts, two iterations each. A second run trains nothing and prints the same table.
expect_exit 0 env MODEL=tiny ITERATIONS=2 OUT=run bash "$SHARE/experiments/seed-345m/run.sh" 1x1 2x1 1x2 2x2
grep -A4 '^layout' out >table
expect_text table '^layout +tensor +pipeline +ranks +MiB per rank +of 1x1 +samples/s +of 1x1 +loss at end +difference$'
row() { awk -v layout="$1" '$1 == layout' table; }
number='[0-9]+\.[0-9]+'
for layout in '1x1 1 1 1' '2x1 2 1 2' '1x2 1 2 2' '2x2 2 2 4'; do
  expect_text table "^${layout// / +} +$number +[0-9]+% +$number +[0-9]+% +8\.[0-9]{6} +-?[0-9.e+-]+$"
done
[ "$(wc -l <table)" -eq 5 ] || fail 'not one line per layout in the table'
# Model parallelism reduces the memory per rank. Tensor parallelism reduces it more than pipeline parallelism. All
# losses agree.
memory_of() { row "$1" | awk '{ print $5 }'; }
for pair in '1x2 1x1' '2x1 1x2' '2x2 1x2'; do
  below "$(memory_of "${pair% *}")" "$(memory_of "${pair#* }")" ||
    fail "${pair% *} does not need less memory than ${pair#* }: $(cat table)"
done
for layout in 1x1 2x1 1x2 2x2; do
  difference=$(row $layout | awk '{ print $10 }')
  below "${difference#-}" 1e-6 || fail "$layout: the loss differs by $difference"
done
mv table first
expect_exit 0 env MODEL=tiny ITERATIONS=2 OUT=run bash "$SHARE/experiments/seed-345m/run.sh" 2x2
expect_text err 'already complete: 2 of 2'
[ "$(grep '^2x2' out | awk '{ print $5, $7, $9 }')" = "$(awk '$1 == "2x2" { print $5, $7, $9 }' first)" ] ||
  fail 'the second run prints a different table'

# Rejects a layout that needs more nodes than NNODES. Passes HOSTS to mpirun's -H.
expect_exit 2 env MODEL=tiny OUT=run HOSTS=alpha NNODES=1 bash "$SHARE/experiments/seed-345m/run.sh" 2x2
expect_text err '4 ranks need 2 nodes; NNODES is 1'
expect_exit 0 env MODEL=tiny ITERATIONS=2 OUT=run HOSTS=alpha,beta MPIRUN='echo mpirun' bash "$SHARE/experiments/seed-345m/run.sh" 2x2
expect_text out '^mpirun -n 4 -H alpha:2,beta:2 .*mtl-train '

# seed-sizes: a model's last validation is the same with and without model parallelism.
sizes=$SHARE/experiments/seed-sizes/run.sh
expect_exit 0 env MODEL=tiny OUT=sizes RANKS=4 bash "$sizes" '--model_size=345M 345M_without_mp' --train_iters=2
expect_text out '^== 345M: tensor 1, pipeline 1, data 4, tiny$'
expect_text out '^size +tensor +pipeline +data +iterations +PPL +samples/s$'
expect_text out "^345M +2 +2 +1 +2 +$number +$number$"
expect_text out "^345M +1 +1 +4 +2 +$number +$number$"
for row in '2 2 1' '1 1 4'; do awk -v row="345M $row" '$1 " " $2 " " $3 " " $4 == row { print "PPL", $6 }' out >"ppl ${row}"; done
expect_near_lines 'ppl 2 2 1' 'ppl 1 1 4' 'perplexity in both layouts' 1e-6 1
expect_exit 0 env MODEL=tiny OUT=sizes RANKS=4 bash "$sizes" --data_path sizes/my-gpt_text_sentence --model_size 3.7B --train_iters 1 4x1
expect_text out "^3.7B +4 +1 +1 +1 +$number +$number$"
# A performance run neither validates nor saves, and leaves a run's log as it is.
expect_exit 0 env MODEL=tiny OUT=sizes RANKS=2 bash "$sizes" --data_path sizes/my-gpt_text_sentence --performance \
  --model_size 345M_without_mp --train_iters 3
expect_text out "^345M +1 +1 +2 +3 +- +$number$"
grep -q 'validation' sizes/345M-1x1/log-performance.jsonl && fail 'a performance run validates'
# The table for the real sizes shows published and measured numbers side by side. `true` replaces mpirun, and copied
# logs replace those that the runs would write.
for run in 345M-2x2 345M-1x1 1.3B-2x2 2.7B-2x2 3.7B-2x2; do
  mkdir -p "full/$run" && cp sizes/345M-2x2/log.jsonl "full/$run"
done
expect_exit 0 env OUT=full MPIRUN=true bash "$sizes" --data_path sizes/my-gpt_text_sentence --model_size all
ours="2 +$number +$number"
expect_text out "^345M +2 +2 +2 +$ours +26.375 +37.8 +26.485 +59.7 +V100, 500k iterations$"
expect_text out "^345M +1 +1 +8 +$ours +28.67 +235 +28.71 +227 +A100, 100k iterations$"
expect_text out "^1.3B +2 +2 +2 +$ours +- +15.71 +- +21.47 +V100$"
expect_text out "^2.7B +2 +2 +2 +$ours +- +4.125 +- +5.280 +V100$"
expect_text out "^3.7B +2 +2 +2 +$ours +- +3.120 +- +4.558 +V100$"
for wrong in '--model_size 7B' '--model_size 345M_without_mp 2x2' '--train_iters 1e3' '--train_iters' '--data_path=' '--vocab x' 2by2 3x1; do
  # shellcheck disable=SC2086 # words
  expect_exit 2 env MODEL=tiny OUT=wrong bash "$sizes" $wrong
  expect_text err "^run.sh: ${wrong%%[= ]*}"
done
[ ! -e wrong ] || fail 'wrong arguments leave files'

unset VOCAB MERGES
# precision: three modes at two learning rates. bf16 weights without main weights lose updates and end with a higher
# loss. With stochastic rounding, they reach the same loss as fp32 main weights.
precision=$SHARE/experiments/precision/run.sh
expect_exit 0 env MODEL=tiny OUT=precision bash "$precision"
expect_text out '^mode +lr +loss +PPL +lost updates +of the copy +bytes per parameter$'
grep -E '^(fp32|bf16) .* [0-9]+$' out >table
[ "$(wc -l <table)" -eq 6 ] || fail "precision: not six runs in the table: $(cat table)"
share="[0-9.e-]+%"
for rate in 1e-4 4e-4; do
  expect_text table "^fp32 main weights +$rate +$number +$number +$share +$share +18$"
  expect_text table "^bf16 alone +$rate +$number +$number +$share +- +8$"
  expect_text table "^bf16 stochastic +$rate +$number +$number +$share +- +8$"
  for mode in 'fp32 main weights' 'bf16 alone' 'bf16 stochastic'; do expect_text precision/precision.svg ">$mode $rate<"; done
done
# figure_of MODE COLUMN: prints MODE's number at the lower rate. COLUMN counts backwards from the last column, 0.
figure_of() { awk -v mode="$1 +1e-4 " -v column="$2" '$0 ~ "^" mode { sub("%", "", $(NF - column)); print $(NF - column) }' table; }
below "$(figure_of 'fp32 main weights' 2)" 0.1 || fail "main weights lose updates: $(cat table)"
below 10 "$(figure_of 'bf16 alone' 2)" || fail "bf16 alone loses no updates: $(cat table)"
# excess_loss MODE: prints how much higher its loss is than with fp32 main weights.
excess_loss() {
  awk -v loss="$(figure_of "$1" 4)" -v main="$(figure_of 'fp32 main weights' 4)" 'BEGIN { print loss - main }'
}
below 0.001 "$(excess_loss 'bf16 alone')" || fail "the loss of bf16 alone is not higher: $(cat table)"
difference=$(excess_loss 'bf16 stochastic')
below "${difference#-}" 0.001 || fail "stochastic rounding does not reach the loss of main weights: $(cat table)"
mv table first
expect_exit 0 env MODEL=tiny OUT=precision bash "$precision" 4e-4
expect_text err 'already complete: 20 of 20'
[ "$(grep -E '^(fp32|bf16) .* [0-9]+$' out)" = "$(grep 4e-4 first)" ] ||
  fail 'precision: a second run of one rate prints different rows'
expect_exit 2 env MODEL=tiny OUT=wrong bash "$precision" fast
expect_text err '^run.sh: fast: not a learning rate'

# Rejects unknown names.
for experiment in seed-345m codeparrot-110m seed-sizes precision; do
  expect_exit 2 env MODEL=345 bash "$SHARE/experiments/$experiment/run.sh"
  expect_text err '^run.sh: MODEL=345: choose .* or tiny$'
done
[ ! -e run-345 ] || fail 'an unknown model leaves files'
expect_exit 2 env MODEL=tiny OUT=run bash "$SHARE/experiments/seed-345m/run.sh" 1x1 foo
expect_text err '^run.sh: foo: not a layout; write TENSOR x PIPELINE, such as 1x1, 2x1, 1x2 or 2x2$'

# mtl-train accepts and plans the real models' command lines.
export PLAN=1
expect_exit 0 bash "$SHARE/experiments/seed-345m/run.sh"
for layout in 1x1 2x1 1x2 2x2; do expect_text out "^== $layout"; done
[ "$(grep -c 'parameters  *354,823,168' out)" -eq 4 ] || fail 'not every plan of 345M has its parameter count'
expect_exit 0 bash "$SHARE/experiments/codeparrot-110m/run.sh"
expect_text out 'parameters +124,439,808'
expect_text out 'samples x tokens +192 x 1024'
expect_text out 'micro-batches of a rank +2$'
expect_exit 0 env MODEL=tiny bash "$SHARE/experiments/codeparrot-110m/run.sh"
expect_exit 0 bash "$precision"
[ "$(awk '/bytes per parameter on a rank/ { print $NF }' out | xargs)" = '18 8 8' ] ||
  fail 'precision: wrong bytes per parameter in the plans'
expect_exit 0 bash "$sizes"
expect_text out '^== 345M: tensor 2, pipeline 2, data 2, full$'
[ "$(grep -c '^==' out)" -eq 1 ] || fail 'seed-sizes: more than 345M by default'
grep -qE '^  main gradients +(fp16|fp32)|fp16' out || fail 'seed-sizes: not in fp16'
expect_exit 0 bash "$sizes" --model_size all
[ "$(grep '^  parameters  ' out | awk '{ print $2 }' | xargs)" = '354,823,168 354,823,168 1,313,626,112 2,651,553,280 3,574,312,192' ] ||
  fail 'seed-sizes: wrong parameter counts in the plans'
for seq in 1024 2048; do
  [ "$(grep -cE "samples x tokens +(16|64) x $seq" out)" -eq $((seq == 1024 ? 3 : 2)) ] ||
    fail "seed-sizes: wrong number of plans with sequences of $seq"
done
[ "$(grep -c 'saved by recomputation' out)" -eq 5 ] || fail 'seed-sizes: not every plan recomputes activations'
expect_exit 0 env RECOMPUTE= bash "$sizes" --model_size 345M_without_mp
grep -q 'saved by recomputation' out && fail 'RECOMPUTE= does not turn recomputation off'
[ -z "$(find . -name 'run-*')" ] || fail 'a plan left files'
for template in "$SHARE"/slurm/{one-node,several-nodes}.sbatch; do  # cli/install_test.sh: elastic.sbatch
  # Instead of srun, plans the template's run for its rank count.
  ranks=$(awk '/^#SBATCH --nodes/ { split($2, n, "=") } /^#SBATCH --ntasks-per-node/ { split($2, t, "=") } END { print n[2] * t[2] }' "$template")
  sed "s|^srun .*|mtl-train \"\${RUN[@]:1}\" --vocab-file $SHARE/gpt2/vocab.json --merge-file $SHARE/gpt2/merges.txt --dry-run --world-size $ranks|" "$template" >planned.sh
  expect_exit 0 env SLURM_CPUS_PER_TASK=1 SLURM_JOB_ID=1 bash planned.sh
  expect_text out 'parameters +354,823,168'
done
finish
