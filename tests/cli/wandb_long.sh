#!/bin/bash
# `wandb sync` uploads the runs that --wandb-project writes: several sessions are one run, with every figure of the JSON
# lines once, and what comes before an incomplete record is uploaded. The server is wandb_server.py. Skipped without
# wandb for MTL_WANDB_PYTHON (default: MTL_PYTHON, else python3).
source "$(dirname "$0")/lib.sh" "$1"
source "$(dirname "$0")/train_runs.sh"
python=${MTL_WANDB_PYTHON:-${MTL_PYTHON:-python3}}
"$python" -c 'import wandb' 2>"$WORK/why" || { echo "skipped: $python: $(tail -1 "$WORK/why")"; exit 77; }
cd "$WORK" || exit 1
preprocess "$CORPUS" c

# Does not touch the user's settings or accounts.
export HOME=$WORK WANDB_API_KEY=0123456789012345678901234567890123456789 WANDB_ERROR_REPORTING=false
# Old versions append to a run only on request.
append=()
"$python" -m wandb sync --help 2>/dev/null | grep -q -- --append && append=(--append)
# sync NAME FOLDER...: uploads folders to a new server, which writes NAME.json.
sync() {
  local name=$1 server code=0
  shift
  rm -f port
  "$python" "$TESTS/cli/wandb_server.py" port "$name.json" 2>server.err &
  server=$!
  for _ in $(seq 100); do [ -e port ] && break; sleep 0.1; done
  WANDB_BASE_URL=http://127.0.0.1:$(cat port) timeout 120 "$python" -m wandb sync "${append[@]}" "$@" >"$name.out" 2>&1 || code=$?
  kill $server
  wait $server 2>/dev/null
  [ $code -eq 0 ] || { fail "wandb sync: status $code"; cat "$name.out" server.err >&2; }
}
# compare NAME LOG COUNT: the upload has COUNT figures, those of LOG.
compare() {
  local count
  count=$("$python" "$TESTS/cli/wandb_compare.py" "$1.json" "$2" 2>compare.err) || { fail "$1: $(tail -1 compare.err)"; return; }
  [ "$count" -eq "$3" ] || fail "$1: $count figures were compared, not $3"
}

# Session 1 saves at 3 and ends after 7, session 2 goes back to 3 and ends after 6, session 3 ends the run. Session 1's
# file ends in an incomplete record, and session 3's is longer than a block.
wandb=(--wandb-project p --wandb-exp-name 'a b' --wandb-entity team --wandb-save-dir w --log-interval 1 --train-iters 40)
expect_exit 0 run_in run "${wandb[@]}" --exit-interval 7
head -c 20 /dev/zero | tr '\0' x >>"$(echo w/wandb/offline-run-*/*.wandb)"
expect_exit 0 run_in run "${wandb[@]}" --ckpt-step 3 --exit-interval 6
expect_exit 0 run_in run "${wandb[@]}"
[ "$(find w/wandb -name '*.wandb' | wc -l)" -eq 3 ] || fail 'not one file for each session'
sync run w/wandb/offline-run-*
compare run run/log.jsonl 618
[ -n "$(find w/wandb -name '*.wandb' -size +32k)" ] || fail 'no file is longer than a block'
# A killed run: its file ends in the middle of a record.
cp -r w cut
rm -f cut/wandb/*/*.sync*
file=$(find cut/wandb -name '*.wandb' | sort | tail -1)
truncate -s -100 "$file"
sync cut "$(dirname "$file")"
grep -qi incomplete cut.out || fail 'wandb does not see that the file is incomplete'
"$python" - cut.json <<'END' || fail 'the rows before an incomplete record are not uploaded'
import json, sys
(run,) = json.load(open(sys.argv[1])).values()
steps = [row["_step"] for row in run["rows"]]
assert steps == list(range(7, 41)), steps
END
finish
