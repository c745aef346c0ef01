#!/bin/bash
# Entire tests detect wrong output. In each run, one program corrupts its output, and the test must report a failed
# check. mutations_test.sh tests only the comparisons.
source "$(dirname "$0")/lib.sh" "$1"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_WAIT_POLICY=passive
cd "$WORK" || exit 1
mutants=0

# shadow_programs: makes the build folder `shadow` with links to the real programs. The caller replaces one of them.
shadow_programs() {
  rm -rf shadow
  mkdir -p shadow/bin
  ln -s "$BIN"/* shadow/bin
}

# write_program NAME AFTER FILTER: replaces NAME with a program that runs the original, filters its standard output
# through FILTER, and then runs the shell words AFTER. They can use `log` (its --log-jsonl), `save` (its --save),
# `output` (its -o or --output-prefix) and `board` (its --tensorboard-dir). A variable is "" if its flag is absent.
write_program() {
  rm "shadow/bin/$1"
  cat >"shadow/bin/$1" <<EOF
#!/bin/bash
log= save= output= board=
words=("\$@")
for ((i = 0; i + 1 < \$#; ++i)); do
  case \${words[i]} in
    --log-jsonl) log=\${words[i + 1]} ;;
    --save) save=\${words[i + 1]} ;;
    -o | --output-prefix) output=\${words[i + 1]} ;;
    --tensorboard-dir) board=\${words[i + 1]} ;;
  esac
done
"$BIN/$1" "\$@" | { $3; }
code=\${PIPESTATUS[0]}
[ \$code -ne 0 ] || { $2; } >/dev/null 2>&1
exit \$code
EOF
  chmod +x "shadow/bin/$1"
}

# mutant TEST PROGRAM WHAT AFTER [FILTER [PATTERN]]: the test must end with a failed check that matches PATTERN.
mutant() {
  local test=$1 program=$2 what=$3
  shadow_programs
  write_program "$program" "$4" "${5:-cat}"
  expect_failure "$test" "$what" "${6:-}"
}
# expect_failure TEST WHAT PATTERN: does the same for the programs in `shadow`.
expect_failure() {
  local test=$1 what=$2 pattern=$3
  mutants=$((mutants + 1))
  if FAIL_FAST=1 bash "$TESTS/cli/$test" "$PWD/shadow" >mutant.log 2>&1; then
    fail "$test passes with $what"
  elif grep -qE "^FAILED: .*$pattern" mutant.log; then
    echo "$test, $what: $(grep -m1 '^FAILED' mutant.log | cut -c1-120)"
  else
    fail "$test, $what: fails, but not by a check like '$pattern':"
    tail -5 mutant.log >&2
  fi
}
# in_log PROGRAM: prints shell words that run the sed PROGRAM on the log. to_nan KEY: likewise, sets KEY's values to
# NaN.
in_log() { echo "[ -z \"\$log\" ] || sed -i -E '$1' \"\$log\""; }
to_nan() { in_log "s/(\"$1\": *)[^,}]+/\\1NaN/"; }
# flip FILE N: prints shell words that flip a bit in FILE (shell words), N bytes before its end.
flip() {
  echo "f=$1; at=\$((\$(stat -c %s \"\$f\") - $2)); old=\$(od -An -tu1 -j \$at -N 1 \"\$f\"); " \
    "printf \"\\\\x\$(printf %02x \$((old ^ 16)))\" | dd of=\"\$f\" bs=1 seek=\$at conv=notrunc"
}
# swap_words: prints a filter that swaps a line's two numbers.
swap_words() { echo "sed -E 's/^([0-9]+) ([0-9]+)/\\2 \\1/'"; }

# With unmodified programs, a test passes.
shadow_programs
write_program mtl-train : cat
FAIL_FAST=1 bash "$TESTS/cli/train_end_to_end_test.sh" "$PWD/shadow" >sound.log 2>&1 ||
  { fail 'train_end_to_end_test.sh fails on unmodified programs'; tail -5 sound.log >&2; }

END_TO_END=train_end_to_end_test.sh
mutant $END_TO_END mtl-train 'gradient norms NaN' "$(to_nan grad_norm)" cat 'plain.jsonl differ from '
mutant $END_TO_END mtl-train 'losses NaN' "$(to_nan lm_loss)" cat 'plain.jsonl differ from '
mutant $END_TO_END mtl-train 'validation losses NaN' "$(to_nan loss)" cat 'plain.jsonl differ from '
mutant $END_TO_END mtl-train 'a line dropped' "$(in_log 9d)" cat 'plain.jsonl differ from '
mutant $END_TO_END mtl-train 'an empty log' "$(in_log d)" cat 'plain.jsonl differ from '
mutant $END_TO_END mtl-train 'an empty event file' '[ -z "$board" ] || : >"$board"/events*' cat 'events|stored'
mutant $END_TO_END mtl-train 'a line missing on the terminal' : 'sed 3d' 'terminal'
mutant layouts_test.sh mtl-train 'gradient norms NaN' "$(to_nan grad_norm)"
mutant layouts_test.sh mtl-train 'losses NaN' "$(to_nan lm_loss)"
mutant layouts_test.sh mtl-train 'no first checkpoint' '[ -z "$save" ] || rm -rf "$save/iter_0000001"'
mutant train_resume_test.sh mtl-train 'a line of metrics lost' "$(in_log '/"iteration": 8,/d')"
mutant train_resume_test.sh mtl-train 'losses NaN' "$(to_nan lm_loss)" cat 'whole: metrics are missing'
mutant train_data_test.sh mtl-train 'losses NaN' "$(to_nan lm_loss)" cat 'plain: metrics are missing'
mutant train_data_test.sh mtl-data 'a sample lost' : 'sed 5d' 'samples'
mutant eval_test.sh mtl-eval 'a NaN loss' : "sed -E 's/(\"loss\": *)[^,}]+/\\1NaN/'" 'is not near'
mutant eval_test.sh mtl-eval 'a loss off by 1e-5' : "sed -E 's/(\"loss\": [0-9]\\.[0-9]{3})[0-9]+/\\19999999/'" 'is not near'
mutant eval_test.sh mtl-eval 'nothing on stdout' : 'cat >/dev/null' 'is not near'
mutant generate_test.sh mtl-generate 'two ids swapped' : "$(swap_words)" 'output differs'
mutant preprocess_test.sh mtl-preprocess 'a flipped bit' "$(flip '${output}_text_document.bin' 3)" cat 'differ'
mutant vocab_test.sh mtl-vocab 'two merges swapped' 'sed -i "20{h;d};21G" "$output-merges.txt"' cat 'merges.txt differ'
mutant vocab_test.sh mtl-vocab 'two ids swapped' 'sed -i -E "s/:300,/:x,/; s/:301,/:300,/; s/:x,/:301,/" "$output-vocab.json"' cat 'vocab.json differ'
mutant convert_test.sh mtl-convert 'a flipped bit' "$(flip '$save/model.safetensors' 100)" cat 'differ'
mutant data_test.sh mtl-data 'two tokens swapped' : "$(swap_words)" 'output differs'
mutant topo_groups_test.sh mtl-topo 'traffic without figures' : "sed -E 's/[0-9]+ all-/NaN all-/'"
mutant plot_test.sh mtl-plot 'an empty picture' '[ -z "$output" ] || : >"$output"'

# ignored PROGRAM VALUES FLAG...: flags_act_test.sh fails if PROGRAM accepts but ignores any FLAG. Each FLAG has VALUES
# values.
ignored() {
  local program=$1 values=$2 flag
  shift 2
  for flag in "$@"; do
    shadow_programs
    rm "shadow/bin/$program"
    cat >"shadow/bin/$program" <<EOF
#!/bin/bash
words=()
while [ \$# -gt 0 ]; do
  if [ "\$1" = $flag ]; then shift $((values + 1)); else words+=("\$1"); shift; fi
done
exec "$BIN/$program" "\${words[@]}"
EOF
    chmod +x "shadow/bin/$program"
    expect_failure flags_act_test.sh "$flag ignored by $program" ''
  done
}
ignored mtl-preprocess 1 --null-tokenizer-eod --tiktoken-pattern --tiktoken-num-special-tokens
ignored mtl-preprocess 3 --tiktoken-special-tokens
ignored mtl-preprocess 0 --tokenizer-hf-include-special-tokens
ignored mtl-train 1 --lr-warmup-init --lr-warmup-samples --lr-wsd-decay-iters --lr-wsd-decay-samples --lr-wsd-decay-style \
  --weight-decay-incr-style --start-weight-decay --end-weight-decay --adam-beta1 --adam-eps --init-method-std --norm-epsilon \
  --test-data-path
ignored mtl-train 0 --no-load-optim --account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split
ignored mtl-topo 0 --account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split
ignored mtl-topo 1 --microbatch-group-size-per-virtual-pipeline-stage
ignored mtl-plot 0 --log-x --log-y

[ "$mutants" -ge 40 ] || fail "only $mutants mutants"
finish
