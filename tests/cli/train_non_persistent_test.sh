#!/bin/bash
# --non-persistent-save-interval: saves in between, each of which is removed when the next save is complete.
source "$(dirname "$0")/lib.sh" "$1"
source "$(dirname "$0")/train_runs.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
cd "$WORK" || exit 1
preprocess "$CORPUS" c
LENGTH=(--train-iters 12 --save-interval 5 --non-persistent-save-interval 2 --eval-interval 100 --log-interval 2 --threads 1)
# iterations NAME: prints the iterations of its checkpoints, in one line.
iterations() { find "$1/save" -maxdepth 1 -regex '.*/iter_[0-9]+' 2>/dev/null | grep -oE '[1-9][0-9]*$' | sort -n | tr '\n' ' '; }
# expect_saved ITERATION...: the last run saved these, in this order.
expect_saved() {
  local saved
  saved=$(sed -nE 's/^mtl-train: saved .*iter_0*([0-9]+) in .*/\1/p' err | tr '\n' ' ')
  [ "$saved" = "$* " ] || fail "saved $saved instead of $*"
}

expect_exit 0 run_in whole
expect_saved 2 4 5 6 8 10 12
[ "$(iterations whole)" = '5 10 12 ' ] || fail "keeps $(iterations whole)"
expect_exit 0 run_in behind --async-save
expect_saved 2 4 5 6 8 10 12
[ "$(iterations behind)" = '5 10 12 ' ] || fail "--async-save keeps $(iterations behind)"
same_as_whole behind '--async-save'
! grep -q non_persistent whole/save/*/manifest.json || fail 'a checkpoint that stays is marked'

# Killed at any write: what is there is what a commit leaves, before or after it has removed others. The newest of both
# kinds is resumed, and the repeated command ends in the same way.
kills=0 marked=0
for ((n = 1; ; n += 47)); do
  rm -rf killed
  killed_at killed $n || break
  kills=$((kills + 1))
  found=$(iterations killed)
  case $found in
    '' | '2 ' | '2 4 ' | '2 4 5 ' | '4 5 ' | '4 5 6 ' | '5 6 ' | '5 6 8 ' | '5 8 ' | '5 8 10 ' | '5 10 ' | '5 10 12 ') ;;
    *) fail "kill:$n: there are $found" ;;
  esac
  completes_as_whole killed "kill:$n"
  newest=$(awk '{ print $NF }' <<<"$found")
  [ -z "$newest" ] || grep -q "^mtl-train: resuming .* at iteration $newest$" err || fail "kill:$n: does not resume $newest"
  [ "$(iterations killed)" = '5 10 12 ' ] || fail "kill:$n: keeps $(iterations killed)"
  [ $((${newest:-0} % 5)) -eq 0 ] || marked=$((marked + 1))
done
[ $kills -ge 10 ] && [ $marked -ge 3 ] || fail "$kills kills, after $marked of which the newest was not persistent"

# What ends a run stays, although a save in between is due, and only what stays gets a command. --keep-last counts only
# that, too.
# shellcheck disable=SC2016  # for the command's shell
command='echo "$MTL_ITERATION" >>commands'
expect_exit 0 run_in cut --after-save "$command" --exit-interval 8
[ "$(iterations cut)" = '5 8 ' ] || fail "--exit-interval keeps $(iterations cut)"
expect_exit 0 run_in cut --after-save "$command"
[ "$(iterations cut)" = '5 8 10 12 ' ] || fail "the save of --exit-interval does not stay: $(iterations cut)"
[ "$(tr '\n' ' ' <commands)" = '5 8 10 12 ' ] || fail "commands after $(tr '\n' ' ' <commands)"
expect_exit 0 run_in rotated --keep-last 2 --save-interval 3 --non-persistent-save-interval 1
expect_saved 1 2 3 4 5 6 7 8 9 10 11 12
[ "$(iterations rotated)" = '9 12 ' ] || fail "--keep-last 2 keeps $(iterations rotated)"
expect_exit 0 run_in alone --save-interval 0
expect_saved 2 4 6 8 10 12
[ "$(iterations alone)" = '10 12 ' ] || fail "without --save-interval, keeps $(iterations alone)"

# What was saved in between stays if the run ends there after all, or fails in the next step.
is_marked() { grep -q '"non_persistent": *true' "$1/manifest.json"; }
rm -r alone/save/iter_0000012
is_marked alone/save/iter_0000010 || fail 'there is no checkpoint to keep'
expect_exit 0 run_in alone --save-interval 0 --train-iters 10 --lr-decay-iters 12 --skip-train --eval-iters 1
is_marked alone/save/iter_0000010 || fail '--skip-train changes a checkpoint'
expect_exit 0 run_in alone --save-interval 0 --train-iters 10 --lr-decay-iters 12
is_marked alone/save/iter_0000010 && fail 'the checkpoint of a complete run would be removed'
expect_exit 1 run_in fails --save-interval 100 --lr 1e30 --lr-warmup-iters 5
expect_text err 'iteration 3: .* the state after iteration 2 is saved'
is_marked fails/save/iter_0000002 && fail 'the checkpoint before a failure would be removed'

# Two ranks agree.
expect_exit 0 mpirun --oversubscribe -n 2 mtl-train "${MODEL[@]}" "${LENGTH[@]}" --save two/save --use-distributed-optimizer --async-save
[ "$(iterations two)" = '5 10 12 ' ] || fail "two ranks keep $(iterations two)"

# A USR1 in the validation of an iteration whose save would not stay: the requested one does, and so does the one that
# replaces it when the repeated validation is complete.
run_in asked --eval-interval 4 --eval-iters 1000000 >asked.out 2>asked.err &
job=$!
# wait_for PATTERN: waits for a matching line of the job.
wait_for() {
  local end=$((SECONDS + 120))
  until grep -qE -- "$1" asked.out asked.err 2>/dev/null; do
    kill -0 "$job" 2>/dev/null && [ $SECONDS -lt $end ] || { fail "no line like '$1'"; break; }
    sleep 0.05
  done
}
wait_for ' iteration +4/'
kill -USR1 "$(sed -E 's/^pid ([0-9]+) .*/\1/' asked/save/lock)"
wait_for 'saved asked/save/iter_0000004'
kill -KILL "$(sed -E 's/^pid ([0-9]+) .*/\1/' asked/save/lock)"
{ wait "$job"; } 2>/dev/null
expect_exit 0 run_in asked --eval-interval 4
expect_saved 4 5 6 8 10 12
[ "$(iterations asked)" = '4 5 10 12 ' ] || fail "keeps $(iterations asked), not the checkpoint that USR1 requested"

# The flags that belong to it.
expect_exit 0 run_in flags --non-persistent-ckpt-type global --dry-run
expect_exit 2 run_in flags --non-persistent-ckpt-type local --non-persistent-local-ckpt-dir /tmp/x --non-persistent-global-ckpt-dir y
expect_text err '^  --non-persistent-ckpt-type local +is not supported in this version, in which all ranks write one checkpoint to --save'
expect_text err '^  --non-persistent-local-ckpt-dir .* use --non-persistent-save-interval alone$'
expect_text err '^  --non-persistent-global-ckpt-dir .* in --save, where a resume finds them; leave it out$'
expect_exit 0 run_in flags --non-persistent-save-interval 10 --dry-run
expect_text err '^mtl-train: --non-persistent-save-interval has no effect with a --save-interval that divides it$'
expect_exit 0 run_in flags --persistent-save-interval 3 --train-iters 4 --non-persistent-save-interval 0
expect_saved 3 4
finish
