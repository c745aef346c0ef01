#!/bin/bash
# share/elastic/run.sh: a run goes on without a host that is lost, in the layout that mtl-topo plans for the others,
# with the bits of a run that was resumed by hand. The hosts are MPI daemons on this machine; a stand-in for ssh starts
# them.
source "$(dirname "$0")/lib.sh" "$1"
source "$(dirname "$0")/train_runs.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# Daemons on one machine must not use the same files in shared memory.
export OMPI_MCA_btl=tcp,self OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_oob_tcp_if_include=lo
elastic=$SHARE/elastic/run.sh
cd "$WORK" || exit 1
preprocess "$CORPUS" c

# agent HOST COMMAND...: runs the command on HOST, like ssh, in a session of its own. A host that is down never answers.
cat >agent <<'END'
#!/bin/bash
host=$1
shift
[ ! -e "$host.down" ] || exec sleep 60
[ "$*" = true ] || echo $$ >"$host.pid"
export TMPDIR=$PWD/$host.tmp # two daemons that create the same folder at the same time end with an error
mkdir -p "$TMPDIR"
exec setsid --wait bash -c "$*"
END
chmod +x agent
export AGENT=$WORK/agent OMPI_MCA_plm_rsh_agent=$WORK/agent LIMIT=2 PAUSE=1
export OMPI_MCA_mpi_yield_when_idle=1
printf '%s\n' '# two hosts' 'alpha slots=2' '' '  beta  slots=2 # the second' >hosts

# lose HOST: ends all its processes.
lose() {
  local pid
  touch "$1.down"
  for pid in $(ps -o pid= --ppid "$(<"$1.pid")"); do
    # shellcheck disable=SC2046 # process ids
    kill -KILL $(ps -o pid= -s "$pid")
  done
}

# --- A host is lost ---
PLAN=(--hardware H100)
LENGTH=(--train-iters 60 --save-interval 10 --eval-interval 1000 --log-interval 20)
TRAIN=(mtl-train "${MODEL[@]}" "${LENGTH[@]}" --global-batch-size 8 --threads 1)
MPIRUN='mpirun --oversubscribe' timeout -s KILL 300 bash "$elastic" hosts "${PLAN[@]}" -- "${TRAIN[@]}" --save elastic \
  --tensor-model-parallel-size 4 >out 2>err &
job=$!
until grep -q 'saved elastic/iter_0000020' err || ! kill -0 $job; do sleep 0.05; done
lose beta
wait $job
code=$?
[ $code -eq 0 ] || { fail "exit $code after a host was lost"; sed 's/^/    /' err >&2; }
expect_text err '^run.sh: 4 ranks on alpha:2,beta:2: .*, the fastest of [0-9]+ layouts$'
expect_text err '^run.sh: mpirun ended with status [0-9]+; newest checkpoint: iteration [0-9]+$'
expect_text err '^run.sh: beta does not answer$'
expect_text err '^run.sh: 2 ranks on alpha:2: .*, the fastest of [0-9]+ layouts$'
[ "$(grep -c '^run.sh: flags: ' err)" -eq 2 ] || fail 'not two starts'
# By hand: the same checkpoint, in the layout that the script has printed last.
at=$(sed -nE 's/^mtl-train: resuming elastic\/(iter_[0-9]+) at .*/\1/p' err)
read -ra layout < <(sed -n 's/^run.sh: flags: //p' err | tail -n 1)
[ -n "$at" ] && [ ${#layout[@]} -gt 1 ] || { fail "resumed at '$at' with ${layout[*]}"; finish; }
mkdir hand && cp -r "elastic/$at" hand/
expect_exit 0 env -u OMPI_MCA_plm_rsh_agent mpirun --oversubscribe -n 2 "${TRAIN[@]}" "${layout[@]}" --save hand
expect_text err "^mtl-train: resuming hand/$at at "
expect_exit 0 mtl_compare_checkpoints --exact elastic/iter_0000060 hand/iter_0000060

# --- When it starts again: mpirun is a stand-in that ends with the statuses in `codes`, after it has saved if `+` ---
rm -f ./*.down
export PAUSE=0
cat >mpirun <<'END'
#!/bin/bash
echo "$@" >>starts
n=$(wc -l <starts)
read -r code saves < <(sed -n "${n}p" codes)
[ -z "$saves" ] || echo "$n" >trial/latest_checkpointed_iteration.txt
[ "$code" != down ] || { touch beta.down; exit 1; }
[ "$code" != wait ] || exec sleep 60
exit "$code"
END
chmod +x mpirun
mkdir trial
TRIAL=("${TRAIN[@]}" --save trial)
# expect_starts N CODE: the script starts N times, and ends with CODE.
expect_starts() {
  rm -f starts ./*.down trial/*
  expect_exit "$2" env MPIRUN="$WORK/mpirun" bash "$elastic" hosts "${PLAN[@]}" -- "${TRIAL[@]}"
  [ "$(wc -l <starts)" -eq "$1" ] || fail "$(wc -l <starts) starts instead of $1 with: $(tr '\n' ',' <codes)"
}
printf '%s\n' '75 +' '1 +' '137 +' 0 >codes
expect_starts 4 0
printf '%s\n' '1 +' 1 0 >codes
expect_starts 2 1
expect_text err '^run.sh: nothing was saved since the last start, and as many hosts answer: not started again$'
printf '%s\n' down 74 >codes
expect_starts 2 74
for code in 2 65; do
  echo "$code +" >codes
  expect_starts 1 $code
done
# TERM ends the run.
echo 'wait' >codes
rm -f starts
MPIRUN=$WORK/mpirun bash "$elastic" hosts "${PLAN[@]}" -- "${TRIAL[@]}" >out 2>err &
job=$!
until [ -s starts ] || ! kill -0 $job; do sleep 0.05; done
kill -TERM $job
wait $job
[ $? -eq 143 ] && [ "$(wc -l <starts)" -eq 1 ] || fail 'TERM does not end the run'

# --- The command ---
# expect_refused TEXT WORD...: the script does not start anything.
expect_refused() {
  rm -f starts
  expect_exit 2 env MPIRUN="$WORK/mpirun" bash "$elastic" "${@:2}"
  expect_text err "$1"
  [ ! -e starts ] || fail "started: $*"
}
expect_refused "^run.sh: usage: .* cannot read the host file 'absent'" absent -- "${TRIAL[@]}"
expect_refused '^run.sh: /dev/null: has no hosts' /dev/null -- "${TRIAL[@]}"
expect_refused '^run.sh: there is no command' hosts "${PLAN[@]}"
expect_refused '^run.sh: --save is missing' hosts "${PLAN[@]}" -- "${TRAIN[@]}"
expect_refused '--hardware  is required' hosts -- "${TRIAL[@]}"
# Flags of the layout before the command stay. Without a layout of all ranks, the last host is left out.
echo 0 >codes
echo 'gamma slots=3' >>hosts
PLAN+=(--tensor-model-parallel-size 2)
expect_starts 1 0
expect_text err '^run.sh: no layout for 7 ranks: '
expect_text starts '^-H alpha:2,beta:2 -n 4 mtl-train .* --tensor-model-parallel-size 2 '
touch {alpha,beta,gamma}.down
expect_exit 1 env MPIRUN="$WORK/mpirun" bash "$elastic" hosts "${PLAN[@]}" -- "${TRIAL[@]}"
expect_text err '^run.sh: no host answers$'

# All layout flags of mtl-train are replaced, but these, which a plan does not choose. Its own timeout stays.
kept='cp-comm-type|expert-model-parallel-size|use-tp-pp-dp-mapping|ddp-bucket-size|distributed-timeout-minutes'
words=(--micro-batch-size LAYOUT)
while read -r name more; do
  [[ ! $name =~ ^--($kept)$ ]] || continue
  names=("$name")
  [[ $name != *, ]] || read -ra names <<<"$name $more"
  for name in "${names[@]%,}"; do
    case $name$more in
      [!-]*) ;; # a word of the help text
      *[A-Z]*) words+=("$name" LAYOUT "$name=LAYOUT") ;;
      *) words+=("$name") ;;
    esac
  done
done < <(mtl-train --help | awk '/^[A-Z]/ { on = /^Parallelism:/ } on && /^  --/' |
  grep -oE '^ +--[a-z0-9-]+(, --[a-z0-9-]+)*( [A-Z]+)?')
[ ${#words[@]} -gt 80 ] || fail "only the layout flags ${words[*]}"
TRIAL+=("${words[@]}" --distributed-timeout-minutes 3)
PLAN=(--hardware H100 --tensor-model-parallel-size 4)
expect_starts 1 0
[[ $(<starts) != *LAYOUT* ]] || fail "layout flags remain: $(<starts)"
for name in "${words[@]}"; do
  [[ $name != --* ]] || [[ " --tensor-model-parallel-size --sequence-parallel --micro-batch-size " == *" $name "* ]] ||
    [[ " $(<starts) " != *" $name "* ]] || fail "$name remains"
done
expect_text starts ' --distributed-timeout-minutes 3 '
finish
