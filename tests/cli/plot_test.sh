#!/bin/bash
# mtl-plot: plots valid logs and logs from killed runs, and rejects files that are not logs.
. "$(dirname "$0")/lib.sh" "$1"
unset COLUMNS LINES NO_COLOR
export LC_ALL=C.UTF-8

# write_run OFFSET: prints a log with ten steps and two validations. OFFSET is added to the steps' losses.
write_run() {
  echo '{"type": "start", "version": 1, "iteration": 0, "seq_length": 64}'
  for k in 1 2 3 4 5 6 7 8 9 10; do
    echo "{\"type\": \"step\", \"iteration\": $((k * 10)), \"consumed_samples\": $((k * 80)), \"lm_loss\": $((12 - k + $1)).5, \"learning_rate\": 0.000$k, \"elapsed_ms_per_iteration\": 200.0}"
    [ $((k % 5)) -eq 0 ] && echo "{\"type\": \"validation\", \"iteration\": $((k * 10)), \"consumed_samples\": $((k * 80)), \"loss\": 4.25, \"ppl\": 70.1}"
  done >"$WORK/steps"
  cat "$WORK/steps"
}
write_run 0 >"$WORK/a.jsonl"
write_run 2 >"$WORK/b & <c>.jsonl"
echo '{"type": "test", "iteration": 100, "loss": 99.0, "ppl": 5.0, "final": true}' >>"$WORK/a.jsonl"

cat >"$WORK/megatron.log" <<'LOG'
using world size: 8, data-parallel size: 8
 [2026-11-21 12:00:00] iteration       10/     100 | consumed samples:          160 | elapsed time per iteration (ms): 597.0 | learning rate: 1.500000E-05 | global batch size:    16 | lm loss: 1.050000E+01 | loss scale: 1.0 | grad norm: 2.346 | number of skipped iterations:   0 | number of nan iterations:   0 |
 iteration       20/     100 | consumed samples:          320 | elapsed time per iteration (ms): 597.0 | learning rate: 3.000000E-05 | global batch size:    16 | lm loss: 9.250000E+00 | loss scale: 1.0 | grad norm: 1.346 | number of skipped iterations:   0 | number of nan iterations:   0 | MFU A: 41.5% |
-----------------------------------------------------------------------------------------------
 validation loss at iteration 20 | lm loss value: 9.125000E+00 | lm loss PPL: 9.181967E+03 | 
-----------------------------------------------------------------------------------------------
 validation loss at iteration 20 on test set | lm loss value: 1.000000E+00 | lm loss PPL: 2.7E+00 | 
LOG

# Never overwrites a log.
cp "$WORK/a.jsonl" "$WORK/own.svg"
expect_exit 2 mtl-plot "$WORK/own.svg" --output "$WORK/own.svg"
expect_text "$WORK/err" 'own.svg +is one of the inputs and would be overwritten; choose another --output'
expect_exit 74 mtl-plot "$WORK/own.svg" --output "$WORK/absent/a.svg"
expect_text "$WORK/err" 'absent/a.svg: there is no folder .*/absent; make it, or choose another --output$'
expect_same "$WORK/own.svg" "$WORK/a.jsonl"
# Does not overwrite a configuration file either. A signal leaves nothing behind.
printf 'y = lm_loss\n' >"$WORK/plot.txt"
expect_exit 2 mtl-plot "$WORK/a.jsonl" --config "$WORK/plot.txt" -o "$WORK/plot.txt"
expect_text "$WORK/err" 'plot.txt +is one of the inputs and would be overwritten; choose another --output'
expect_clean_end "$WORK/late.svg" mtl-plot "$WORK/a.jsonl" -o "$WORK/late.svg"
# A signal that was ignored at the start, as INT in a background job, does not.
MTL_FAULT=slow:1 mtl-plot "$WORK/a.jsonl" -o "$WORK/late.svg" &
until compgen -G "$WORK/late.svg.tmp.*" >/dev/null || ! kill -0 $! 2>/dev/null; do sleep 0.01; done
kill -INT $! || fail 'ended before INT'
wait $! || fail "exit $? after INT, which is ignored"
[ -s "$WORK/late.svg" ] || fail 'no plot after INT, which is ignored'

# --follow waits for a log, draws it, and draws it again when it grows.
mtl-plot --follow "$WORK/grows.jsonl" -o "$WORK/grows.txt" 2>"$WORK/err" &
follower=$!
until grep -q 'waiting for a log' "$WORK/err" || ! kill -0 $follower; do sleep 0.05; done
write_run 0 | head -n 4 >"$WORK/grows.jsonl"
until [ -s "$WORK/grows.txt" ] || ! kill -0 $follower; do sleep 0.05; done
cp "$WORK/grows.txt" "$WORK/first.txt"
write_run 0 | tail -n +5 >>"$WORK/grows.jsonl"
until ! cmp -s "$WORK/grows.txt" "$WORK/first.txt" || ! kill -0 $follower; do sleep 0.05; done
kill -TERM $follower
wait $follower
[ $? -eq 143 ] || fail 'a follower ends by itself'
mtl-plot "$WORK/grows.jsonl" -o "$WORK/once.txt"
expect_same "$WORK/grows.txt" "$WORK/once.txt"
[ "$(wc -l <"$WORK/err")" -eq 1 ] || fail 'more than one message while waiting'
for wrong in - "$WORK/a.jsonl" "--json $WORK/a.jsonl" "-o - $WORK/a.jsonl"; do
  # shellcheck disable=SC2086 # words
  expect_exit 2 mtl-plot --follow $wrong
  expect_text "$WORK/err" '^  --follow +(reads logs again|draws on a terminal)'
done

# SVG has the same bytes in a file and in a pipe.
expect_exit 0 mtl-plot "$WORK/a.jsonl" "$WORK/b & <c>.jsonl" --title "one < two" -o "$WORK/two.svg"
expect_text "$WORK/two.svg" '^<svg xmlns='
expect_text "$WORK/two.svg" 'one &lt; two'
expect_text "$WORK/two.svg" 'b &amp; &lt;c&gt;<'
mtl-plot "$WORK/a.jsonl" "$WORK/b & <c>.jsonl" --title "one < two" >"$WORK/pipe.svg"
expect_same "$WORK/two.svg" "$WORK/pipe.svg"
if command -v xmllint >/dev/null; then expect_exit 0 xmllint --noout "$WORK/two.svg"; fi

# JSON: both formats give the same metrics, without the test set.
expect_exit 0 mtl-plot --json "$WORK/a.jsonl" --y lm_loss
expect_text "$WORK/out" '"format": "mtl-plot", "version": 1'
expect_text "$WORK/out" '"kind": "validation", "x": \[50.0, 100.0\], "y": \[4.25, 4.25\]'
expect_exit 0 mtl-plot --json - --y lm_loss,mfu_a --x samples <"$WORK/megatron.log"
expect_text "$WORK/out" '"x": \[160.0, 320.0\], "y": \[10.5, 9.25\]'
expect_text "$WORK/out" '"x": \[320.0\], "y": \[9.125\]'
expect_text "$WORK/out" '"y": \[null, 0.415\]'
expect_exit 0 mtl-plot --json "$WORK/a.jsonl" --x tokens --y learning_rate
expect_text "$WORK/out" '"x": \[5120.0, 10240.0,'
expect_exit 0 mtl-plot --json "$WORK/a.jsonl" --x time --y lm_loss --smooth 2
expect_text "$WORK/out" '"x": \[2.0, 4.0,'
expect_text "$WORK/out" '"kind": "training", .*"y": \[11.5, 11.0, 10.0,'
expect_exit 2 mtl-plot "$WORK/megatron.log" --x tokens
expect_text "$WORK/err" '--seq-length'

# Terminal: no line is longer than COLUMNS, and braille appears only in a UTF-8 locale.
export COLUMNS=60
expect_exit 0 mtl-plot --terminal "$WORK/a.jsonl"
expect_text "$WORK/out" '⣀|⠤'
[ "$(wc -L <"$WORK/out")" -le 60 ] || fail "a line is longer than COLUMNS"
LC_ALL=C expect_exit 0 mtl-plot --terminal "$WORK/a.jsonl" "$WORK/b & <c>.jsonl"
LC_ALL=C grep -q '[^ -~]' "$WORK/out" && fail "not ASCII in the C locale"
[ "$(wc -L <"$WORK/out")" -le 60 ] || fail "a line is longer than COLUMNS"

# The log of a run that was killed in the middle of a line.
head -c -20 "$WORK/b & <c>.jsonl" >"$WORK/cut.jsonl"
expect_exit 0 mtl-plot "$WORK/cut.jsonl" -o "$WORK/cut.svg"
expect_text "$WORK/err" 'cut.jsonl:1[0-9]: the last line is incomplete'

# Files that are not logs.
: >"$WORK/empty.jsonl"
expect_exit 65 mtl-plot "$WORK/empty.jsonl" -o "$WORK/none.svg"
expect_text "$WORK/err" 'has no point to draw'
[ -e "$WORK/none.svg" ] && fail "a failed run left a file"
echo '{"type": "start", "iteration": 0}' >"$WORK/start.jsonl"
expect_exit 65 mtl-plot "$WORK/start.jsonl"
printf 'some text\nthat is not a log\n' >"$WORK/text.txt"
expect_exit 65 mtl-plot "$WORK/text.txt"
gzip -c "$WORK/a.jsonl" >"$WORK/a.jsonl.gz"
expect_exit 65 mtl-plot "$WORK/a.jsonl.gz"
expect_text "$WORK/err" 'a.jsonl.gz: the log is compressed; decompress it: gzip -dc '
printf '{"iteration": 1, "lm_loss": 3}\n{"iteration": 2, "lm\n{"iteration": 3, "lm_loss": 3}\n' >"$WORK/broken.jsonl"
expect_exit 65 mtl-plot "$WORK/broken.jsonl"
expect_text "$WORK/err" 'broken.jsonl:2: '
expect_exit 65 mtl-plot "$WORK/a.jsonl" --y nonsense
expect_text "$WORK/err" 'no run has a metric named nonsense; .*--y: .*lm_loss'
expect_exit 74 mtl-plot "$WORK/no such file.jsonl"

# Misuse.
expect_exit 2 mtl-plot
expect_exit 2 mtl-plot "$WORK/a.jsonl" -o "$WORK/x.png"
expect_text "$WORK/err" 'rsvg-convert'
expect_exit 2 mtl-plot "$WORK/a.jsonl" --smoth 3
expect_text "$WORK/err" 'did you mean --smooth'
expect_exit 2 mtl-plot "$WORK/a.jsonl" --terminal --json --smooth 0
expect_text "$WORK/err" '^mtl-plot: 2 problems'
expect_exit 2 mtl-plot "$WORK/a.jsonl" --names a,b
expect_text "$WORK/err" '--names a,b has 2 names for 1 run;'
expect_exit 2 mtl-plot "$WORK/a.jsonl" --y ,
expect_text "$WORK/err" '--y , +contains an empty name'

# Messages give the file name as passed. A read error is not treated as the end of the file.
expect_exit 65 mtl-plot /dev/null
expect_text "$WORK/err" '^mtl-plot: /dev/null has no point to draw'
expect_exit 74 mtl-plot - <"$WORK"
expect_text "$WORK/err" 'standard input: cannot read: Is a directory'

# Reports metrics that cannot be drawn.
for i in 1 2 3; do echo "{\"iteration\": $i, \"lm_loss\": NaN}"; done >"$WORK/nan.jsonl"
expect_exit 65 mtl-plot "$WORK/nan.jsonl"
expect_text "$WORK/err" 'nan.jsonl has no finite value of lm_loss, '
for y in 3 -1 0 2; do echo "{\"iteration\": $((i += 1)), \"lm_loss\": $y}"; done >"$WORK/signs.jsonl"
expect_exit 0 mtl-plot "$WORK/signs.jsonl" --log-y -o "$WORK/signs.svg"
expect_text "$WORK/err" 'warning: loss: 2 points are not drawn: a logarithmic axis shows only values above 0'
for y in 1 1e308 -1e308 2 3; do echo "{\"iteration\": $((i += 1)), \"lm_loss\": $y}"; done >"$WORK/huge.jsonl"
expect_exit 0 mtl-plot "$WORK/huge.jsonl" -o "$WORK/huge.svg"
expect_text "$WORK/err" 'warning: loss: 2 points are not drawn: an axis shows only values from -1e300 to 1e300'
grep -qE 'nan|inf' "$WORK/huge.svg" && fail 'a coordinate is not finite'
expect_text "$WORK/huge.svg" '^<path class="l"'

# A resumed run: later lines replace the lines they repeat.
{
  for i in 10 20 30 40; do echo "{\"iteration\": $i, \"lm_loss\": $i}"; done
  for i in 30 40 50; do echo "{\"iteration\": $i, \"lm_loss\": 1$i}"; done
} >"$WORK/resumed.jsonl"
expect_exit 0 mtl-plot --json "$WORK/resumed.jsonl"
expect_text "$WORK/out" '"x": \[10.0, 20.0, 30.0, 40.0, 50.0\], "y": \[10.0, 20.0, 130.0, 140.0, 150.0\]'
expect_text "$WORK/err" 'resumed.jsonl: the run was resumed: later lines replace 2 earlier ones'
cat "$WORK/megatron.log" "$WORK/megatron.log" >"$WORK/twice.log"
expect_exit 0 mtl-plot --json "$WORK/twice.log" --y lm_loss
expect_text "$WORK/out" '"x": \[10.0, 20.0\], "y": \[10.5, 9.25\]'
expect_text "$WORK/out" '"x": \[20.0\], "y": \[9.125\]'

# Runs that share a log are separate curves, numbered and in different colors. --names names them all.
mkdir "$WORK/shared"
{
  echo '{"type": "start", "iteration": 0, "run": "a"}'
  for i in 10 20; do echo "{\"type\": \"step\", \"iteration\": $i, \"lm_loss\": $i}"; done
  echo '{"type": "start", "iteration": 0, "run": "b"}'
  for i in 10 20; do echo "{\"type\": \"step\", \"iteration\": $i, \"lm_loss\": 1$i}"; done
  echo '{"type": "start", "iteration": 0, "run": "a"}'
  echo '{"type": "step", "iteration": 30, "lm_loss": 30}'
} | tee "$WORK/shared.jsonl" >"$WORK/shared/shared.jsonl"
expect_exit 0 mtl-plot --json "$WORK/shared.jsonl" "$WORK/shared/shared.jsonl"
[ -s "$WORK/err" ] && fail "runs that share a log gave a warning"
for name in shared "$WORK/shared/shared.jsonl"; do
  expect_text "$WORK/out" "\"$name \(1\)\", \"kind\": \"training\", \"x\": \[10.0, 20.0, 30.0\], \"y\": \[10.0, 20.0, 30.0\]"
  expect_text "$WORK/out" "\"$name \(2\)\", \"kind\": \"training\", \"x\": \[10.0, 20.0\], \"y\": \[110.0, 120.0\]"
done
expect_exit 0 mtl-plot --json "$WORK/shared.jsonl" "$WORK/a.jsonl" --names one,two,three
expect_text "$WORK/out" '"run": "two", "kind": "training", "x": \[10.0, 20.0\]'
expect_exit 2 mtl-plot "$WORK/shared.jsonl" --names one
expect_text "$WORK/err" '--names one has .* 2 runs'

# --smooth does not get slower with a larger window.
awk 'BEGIN { for (i = 1; i <= 300000; ++i) print "{\"iteration\": " i ", \"lm_loss\": " i % 7 "}" }' >"$WORK/long.jsonl"
expect_exit 0 timeout 60 mtl-plot "$WORK/long.jsonl" --smooth 150000 -o "$WORK/long.svg"

# For any bytes in a title, name or path, SVG and JSON are valid, and no control character reaches a terminal.
odd=$'t\xff\xef\xbf\xbf\xed\xa0\x80\e[31m\x07\xc2\x9bx'
cp "$WORK/a.jsonl" "$WORK/$odd.jsonl"
cp "$WORK/a.jsonl" "$WORK/b.jsonl"
expect_exit 0 mtl-plot "$WORK/$odd.jsonl" "$WORK/b.jsonl" --title "$odd" -o "$WORK/odd.svg"
expect_text "$WORK/odd.svg" '>t��(�)+\[31mx</text>'
if command -v xmllint >/dev/null; then expect_exit 0 xmllint --noout "$WORK/odd.svg"; fi
for form in --terminal --json; do
  expect_exit 0 mtl-plot "$WORK/$odd.jsonl" "$WORK/b.jsonl" --title "$odd" $form
  iconv -f UTF-8 -t UTF-8 "$WORK/out" >/dev/null 2>&1 || fail "$form is not UTF-8"
  LC_ALL=C grep -q $'[\x01-\x09\x0b-\x1f\x7f]' "$WORK/out" && fail "$form prints control characters"
done
expect_exit 74 mtl-plot "$WORK/$odd/absent"
expect_text "$WORK/err" '^mtl-plot: .*/t��+\[31mx/absent: cannot open'
LC_ALL=C grep -q $'\e' "$WORK/err" && fail 'a message prints control characters'
(failures=0; ulimit -f 1; expect_exit 74 mtl-plot "$WORK/long.jsonl" -o "$WORK/limited.svg"; exit "$failures") ||
  fail 'a limit on file sizes was not reported'
finish
