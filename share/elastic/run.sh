#!/usr/bin/env bash
# Trains on the hosts that answer, and goes on without those that are lost: asks each host whether it answers, asks
# `mtl-topo plan` for the fastest layout of their ranks, and starts the command in this layout with mpirun. When a rank
# or a host is lost, it does the same again, within a minute, and the run resumes from its newest checkpoint.
#
#   run.sh HOSTFILE PLAN_FLAG... -- mtl-train FLAG...
#   run.sh hosts --hardware H100 --vocab-size 50257 -- mtl-train ... --global-batch-size 64 --save checkpoints
#
# HOSTFILE has a line "NAME slots=N" for each host, as for mpirun. PLAN_FLAGs are those of `mtl-topo plan` that the
# command lacks: devices, links, the size of the vocabulary. Layout flags among them stay, such as
# --tensor-model-parallel-size 8; those of the command are replaced. The global batch stays. If no layout of all ranks
# fits or divides it, the last hosts are left out. In a Slurm job, srun asks the hosts and starts the ranks:
# share/slurm/elastic.sbatch.
#
# The script starts the run again after any end but complete (status 0), refused (2) and bad data (65), if a checkpoint
# was saved since the last start, or if fewer hosts answer than then. Otherwise the fault would repeat, and the script
# ends with the status of the run. TERM, INT and HUP end the run; USR1 saves. In a Slurm job, status 75 ends it, too.
#
# Every host needs the programs, the data and the folder of --save under the same path. Start the script where it
# outlives them. A lost host ends the run after --distributed-timeout-minutes, here 0.4 if the command does not say.
# A host that answers is not left out, even if MPI fails there.
set -u
slurm=${SLURM_JOB_ID:-} ask='ssh -o BatchMode=yes -o ConnectTimeout=5'
[ -z "$slurm" ] || ask='srun --overlap --nodes=1 --ntasks=1 --nodelist'
AGENT=${AGENT:-$ask}         # AGENT HOST true: HOST answers
LIMIT=${LIMIT:-5}            # seconds in which a host must answer
PAUSE=${PAUSE:-3}            # seconds until the ranks of the start before are gone
MPIRUN=${MPIRUN:-mpirun}     # with its flags, such as mpirun --oversubscribe

say() { echo "run.sh: $*" >&2; }
refuse() { say "$*"; exit 2; }

# --- What is asked for ----------------------------------------------------------------------------------------------
[ -r "${1:-}" ] || refuse "usage: run.sh HOSTFILE PLAN_FLAG... -- mtl-train FLAG...; cannot read the host file '${1:-}'"
lines=$(sed -E 's/#.*//; s/^[[:space:]]+//; /^$/d' "$1")
mapfile -t hosts < <(sed -E 's/[[:space:]].*//; /^$/d' <<<"$lines")
mapfile -t slots < <(sed -E 's/.*slots *= *([0-9]+).*/\1/; t; s/.*/1/' <<<"$lines")
[ ${#hosts[@]} -gt 0 ] || refuse "$1: has no hosts; write a line NAME slots=N for each"
shift
plan=() save='' timeout=(--distributed-timeout-minutes 0.4)
while [ $# -gt 0 ] && [ "$1" != -- ]; do plan+=("$1"); shift; done
[ $# -gt 1 ] || refuse "there is no command; write it after --"
command=("$2")
shift 2

# The command without its layout flags, with a value and without.
valued='(tensor|pipeline)-model-parallel-size|context-parallel-size|pipeline-(schedule|split|model-parallel-layout)
|num-layers-per-virtual-pipeline-stage|num-virtual-stages-per-pipeline-rank|num-layers-in-(first|last)-pipeline-stage
|microbatch-group-size-per-virtual-pipeline-stage|decoder-(first|last)-pipeline-num-layers|micro-batch-size
|zero-stage|data-parallel-sharding-strategy|fsdp|recompute-(granularity|method|num-layers)
|(activations-)?checkpoint-(num-layers|method)|cpu-offloading-num-layers|offload-optimizer'
switches='account-for-(embedding|loss)-in-pipeline-split|sequence-parallel|use-(distributed-optimizer|megatron-fsdp)
|use-torch-fsdp2|overlap-(grad-reduce|param-gather)|(recompute|checkpoint)-activations|(optimizer-)?cpu-offload(ing)?'
valued=${valued//$'\n'/} switches=${switches//$'\n'/}
while [ $# -gt 0 ]; do
  case $1 in
    --save) save=${2:-} ;;
    --save=*) save=${1#*=} ;;
    --distributed-timeout-*) timeout=() ;;
  esac
  if [[ $1 =~ ^--($valued)$ ]]; then
    shift
  elif [[ ! $1 =~ ^--(($valued|$switches)=.*|$switches)$ ]]; then
    command+=("$1")
  fi
  shift
done
[ -n "$save" ] || refuse "--save is missing: without checkpoints, a run cannot go on elsewhere"

# --- The steps of a start -------------------------------------------------------------------------------------------
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
saved() { cat "$save/latest_checkpointed_iteration.txt" 2>/dev/null; }

# Sets `up` to the numbers of the hosts that answer. All are asked at the same time.
find_hosts() {
  local i
  rm -f "$work"/up.*
  for i in "${!hosts[@]}"; do
    # shellcheck disable=SC2086 # words
    { [[ ${hosts[i]} =~ ^(localhost|$(hostname))$ ]] || timeout -k 1 "$LIMIT" $AGENT "${hosts[i]}" true; } \
      </dev/null &>/dev/null && : >"$work/up.$i" &
  done
  wait
  up=()
  for i in "${!hosts[@]}"; do
    if [ -e "$work/up.$i" ]; then up+=("$i"); else say "${hosts[i]} does not answer"; fi
  done
}

# Sets `layout` to the flags of the fastest layout, and `start` to the launcher for its ranks. After 10 seconds, the
# search ends with the fastest so far.
choose_layout() {
  local i code list names world used=("${up[@]}")
  for (( ; ${#used[@]} > 0; )); do
    list='' names='' world=0
    for i in "${used[@]}"; do
      list+=,${hosts[i]}:${slots[i]} names+=,${hosts[i]} world=$((world + slots[i]))
    done
    timeout -s INT --preserve-status 10 mtl-topo plan "${command[@]:1}" "${plan[@]}" --world-size "$world" \
      --gpus-per-node "${slots[used[0]]}" >"$work/plan" 2>"$work/why"
    code=$?
    read -ra layout < <(sed -n 's/^flags: //p' "$work/plan")
    [ ${#layout[@]} -eq 0 ] || break
    [ $code -eq 1 ] || { cat "$work/why" >&2; exit $code; }
    say "no layout for $world ranks: $(sed -n 's/^mtl-topo plan: //p' "$work/why" | tail -n 1)"
    used=("${used[@]:0:${#used[@]}-1}")
  done
  [ ${#used[@]} -gt 0 ] || exit 1
  say "$world ranks on ${list#,}: $(sed -nE 's/^ 1\. .*[KMGT]iB  (.*)/\1/p' "$work/plan")," \
    "the fastest of $(sed -nE 's/^ *([0-9,]+ layouts).*/\1/p' "$work/plan")"
  say "flags: ${layout[*]}"
  read -ra start <<<"$MPIRUN -H ${list#,} -n $world"
  [ -z "$slurm" ] || start=(srun --nodelist="${names#,}" --nodes="${#used[@]}" --ntasks="$world" --distribution=block
    --mpi=pmix --kill-on-bad-exit=1 --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}")
}

# --- Start, and start again -----------------------------------------------------------------------------------------
job='' stopped='' code=1 before='' asked=$((${#hosts[@]} + 1))
trap 'stopped=1; [ -z "$job" ] || kill -TERM "$job"' TERM INT HUP
trap '[ -z "$job" ] || kill -USR1 "$job"' USR1
while find_hosts && [ -z "$stopped" ]; do
  [ ${#up[@]} -gt 0 ] || { say "no host answers"; break; }
  [ "$(saved)" != "$before" ] || [ ${#up[@]} -lt "$asked" ] ||
    { say "nothing was saved since the last start, and as many hosts answer: not started again"; break; }
  choose_layout
  before=$(saved) asked=${#up[@]}
  "${start[@]}" "${command[@]}" "${layout[@]}" "${timeout[@]}" </dev/null &
  job=$!
  while wait "$job"; code=$?; kill -0 "$job" 2>/dev/null; do :; done # a signal for this script ends a wait, too
  job=''
  [[ ! $code =~ ^(0|2|65${slurm:+|75})$ ]] || break
  say "${start[0]} ended with status $code; newest checkpoint: iteration $(saved)"
  [ -n "$stopped" ] || sleep "$PAUSE"
done
exit "$code"
