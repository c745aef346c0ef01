# shellcheck shell=bash
# Shared by the tests for interrupted runs. Source it after lib.sh. The run NAME writes NAME/save and NAME/log.jsonl.
source "$TESTS/cli/metrics.sh"
export OMP_WAIT_POLICY=passive
CORPUS=$TESTS/golden/end_to_end/corpus.jsonl
LAST=iter_0000012/shard_00000.safetensors
# shellcheck disable=SC2054 # the comma belongs to a flag's value
# With dropout, because a resumed run must draw the same masks. Saves and validations fall inside log intervals.
MODEL=(--num-layers 2 --hidden-size 32 --num-attention-heads 4 --max-position-embeddings 32
  --tokenizer-type NullTokenizer --vocab-size 512 --data-path c_text_document --split 90,8,2 --seq-length 32
  --micro-batch-size 2 --global-batch-size 4 --lr 0.002 --min-lr 0.0002 --lr-decay-style cosine --lr-warmup-iters 2
  --hidden-dropout 0.1 --attention-dropout 0.1 --eval-iters 2 --peak-tflops 0.1)
LENGTH=(--train-iters 12 --save-interval 3 --eval-interval 5 --log-interval 2)

# preprocess JSONL PREFIX: makes token files.
preprocess() {
  expect_exit 0 mtl-preprocess --input "$1" --output-prefix "$2" --tokenizer-type NullTokenizer --vocab-size 512 --append-eod
}

# run_in NAME FLAG...: runs NAME with additional flags.
run_in() {
  local name=$1
  shift
  mtl-train "${MODEL[@]}" "${LENGTH[@]}" --save "$name/save" --log-jsonl "$name/log.jsonl" "$@"
}

# run_quietly NAME: runs NAME without the shell's message about a killed process.
run_quietly() {
  { (run_in "$1" >out 2>err); } 2>/dev/null
}

# Makes the token files and the uninterrupted run `whole`.
prepare_runs() {
  preprocess "$CORPUS" c
  expect_exit 0 run_in whole
  [ "$(metrics_of whole | wc -l)" -eq 10 ] || fail 'the uninterrupted run does not have 6 + 2 + 2 lines of metrics'
}

# metrics_of NAME: prints its log lines without session starts and times.
metrics_of() {
  grep -v '"type": "start"' "$1/log.jsonl" |
    sed -E 's/, "(elapsed_ms_per_iteration|tokens_per_second|tflops_per_device|mfu_a|mfu_b|data_stall_ms|communication_wait_ms)": [^,}]+//g'
}

# metrics_after NAME ITERATION: prints those of later iterations.
metrics_after() {
  metrics_of "$1" | awk -v last="$2" 'match($0, /"iteration": [0-9]+/) && substr($0, RSTART + 13, RLENGTH - 13) + 0 > last'
}

# expect_metrics NAME: its log has losses and norms, all finite. Otherwise comparing them would prove nothing.
expect_metrics() {
  metrics "$1/log.jsonl" >metrics.found
  mtl_compare near metrics.found metrics.found --relative 0 || fail "$1: metrics are missing or not finite"
}

# same_run NAME OTHER WHAT: both have the same final weights, moments and metrics. WHAT distinguishes NAME from OTHER.
same_run() {
  expect_metrics "$2"
  cmp -s "$1/save/$LAST" "$2/save/$LAST" || fail "$3: different weights or moments than without it"
  diff <(metrics_of "$1") <(metrics_of "$2") >difference || { fail "$3: different metrics than without it"; head -4 difference >&2; }
}

# same_as_whole NAME WHAT: NAME is like the uninterrupted run, with all checkpoints and without temporary files.
same_as_whole() {
  same_run "$1" whole "$2"
  local shard
  for shard in whole/save/iter_*/*.safetensors; do
    cmp -s "$1/${shard#whole/}" "$shard" || fail "$2: ${shard#whole/} differs"
  done
  expect_same "$1/save/latest_checkpointed_iteration.txt" whole/save/latest_checkpointed_iteration.txt
  [ -z "$(find "$1/save" -name '*.tmp.*')" ] || fail "$2: leaves $(find "$1/save" -name '*.tmp.*')"
}

# completes_as_whole NAME WHAT: repeating the command completes the run, and it ends like the uninterrupted run.
completes_as_whole() {
  run_quietly "$1" || { fail "$2: exit $? when the command is repeated"; sed 's/^/    /' err >&2; }
  same_as_whole "$1" "$2"
}

# killed_at NAME N: runs NAME and kills it at its N-th write operation. Returns false if there are fewer.
killed_at() {
  MTL_FAULT=kill:$2 run_quietly "$1"
  local code=$?
  [ $code -eq 137 ] || [ $code -eq 0 ] || fail "kill:$2: exit $code"
  [ $code -ne 0 ]
}
