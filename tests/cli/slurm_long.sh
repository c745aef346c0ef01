#!/bin/bash
# Runs jobs from share/slurm on a Slurm cluster in a temporary folder, with two nodes on this machine. After a signal,
# preemption and its time limit, a job is requeued and resumes. Once complete, it equals an uninterrupted run in metrics
# and bits. A job on both nodes goes on when one is lost. Skipped if Slurm is not installed.
source "$(dirname "$0")/lib.sh" "$1"
source "$(dirname "$0")/train_runs.sh"
for program in munged slurmctld slurmd; do
  command -v $program >/dev/null || { echo "skipped: no $program (packages slurm-wlm and munge)"; exit 77; }
done
[ "$(id -u)" -eq 0 ] || { echo 'skipped: slurmd needs root'; exit 77; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
cd "$WORK" || exit 1

# --- The cluster ---
CLUSTER=$(mktemp -d /tmp/mtl-slurm.XXXXXX)  # socket paths must be short
export SLURM_CONF=$CLUSTER/slurm.conf
trap stop_cluster EXIT

# stop_daemon NAME: stops it and waits until it ends, at most 5 s.
stop_daemon() {
  local pid
  pid=$(cat "$CLUSTER/$1.pid" 2>/dev/null) || return 0
  kill "$pid" 2>/dev/null
  for _ in $(seq 50); do kill -0 "$pid" 2>/dev/null || return 0; sleep 0.1; done
  kill -KILL "$pid" 2>/dev/null
}

stop_cluster() {
  [ -z "${job:-}" ] || scancel --full --signal=KILL "$job" 2>/dev/null
  [ -z "${job:-}" ] || scancel "$job" 2>/dev/null
  for _ in $(seq 50); do [ -n "$(squeue -h 2>/dev/null)" ] || break; sleep 0.1; done
  for name in slurmctld slurmd.n1 slurmd.n2 munged; do stop_daemon $name; done
  rm -rf "$CLUSTER"
  end_test
}

start_cluster() {
  local host port=$((20000 + $$ % 10000))
  host=$(hostname -s)
  mkdir "$CLUSTER"/{munge,state,spool.n1,spool.n2,tmp.n1,tmp.n2}
  chmod 755 "$CLUSTER"
  head -c 64 /dev/urandom >"$CLUSTER/munge/key"
  chmod 600 "$CLUSTER/munge/key"
  munged --force --key-file="$CLUSTER/munge/key" --seed-file="$CLUSTER/munge/seed" --log-file="$CLUSTER/munge/log" \
    --pid-file="$CLUSTER/munged.pid" --socket="$CLUSTER/munge/socket" || return 1
  cat >"$SLURM_CONF" <<END
ClusterName=mtl
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
AuthType=auth/munge
# A requeued job waits for cred_expire seconds, 120 by default.
AuthInfo=socket=$CLUSTER/munge/socket,cred_expire=5
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$CLUSTER/state
SlurmdSpoolDir=$CLUSTER/spool.%n
TmpFS=$CLUSTER/tmp.%n
SlurmctldPidFile=$CLUSTER/slurmctld.pid
SlurmdPidFile=$CLUSTER/slurmd.%n.pid
SlurmctldLogFile=$CLUSTER/slurmctld.log
SlurmdLogFile=$CLUSTER/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/linear
ReturnToService=2
KillWait=20
SlurmdTimeout=30
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1
PlugStackConfig=/dev/null
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 1)) CPUs=2 RealMemory=1000 State=UNKNOWN
NodeName=n2 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 2)) CPUs=2 RealMemory=1000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
  slurmctld -c && slurmd -c -N n1 && slurmd -c -N n2
}

# wait_for SECONDS WHAT COMMAND...: waits until COMMAND succeeds. Ends the test after SECONDS.
wait_for() {
  local limit=$1 what=$2 deadline=$((SECONDS + $1))
  shift 2
  while ! "$@"; do
    [ $SECONDS -lt $deadline ] ||
      { fail "waited $limit s for $what"; tail -n 20 "$CLUSTER"/*.log turns.log >&2; finish; }
    sleep 0.2
  done
}
node_is_idle() { [ "$(sinfo -h -o %T 2>/dev/null)" = idle ]; }
job_has() { scontrol show job "$job" 2>/dev/null | grep -qE "$1"; }
log_has() { grep -qE -- "$1" turns.log 2>/dev/null; }
# A turn is the part of the run between two requeues. in_turn N: turn N is running and has logged 20 steps.
in_turn() {
  awk -v turn="$1" '/"type": "start"/ { turns++; steps = 0 } /"type": "step"/ { steps++ }
    END { exit !(turns == turn && steps >= 20) }' turns/log.jsonl 2>/dev/null
}

start_cluster || { fail 'the cluster did not start'; finish; }
wait_for 30 'the nodes' node_is_idle
srun --mpi=list 2>&1 | grep -q pmix || { echo "skipped: this Slurm has no pmix"; exit 77; }

# --- The run, uninterrupted and in turns ---
LENGTH=(--train-iters 500 --global-batch-size 32 --save-interval 500 --eval-interval 100 --log-interval 1)
MODEL+=(--tensor-model-parallel-size 2 --threads 1)
preprocess "$CORPUS" c
command_of() { COMMAND=(mtl-train "${MODEL[@]}" "${LENGTH[@]}" --save "$1/save" --log-jsonl "$1/log.jsonl"); }
mkdir whole turns
command_of whole
expect_exit 0 mpirun --oversubscribe -n 2 "${COMMAND[@]}"

command_of turns
sed '/gpus-per-node/d' "$SHARE/slurm/one-node.sbatch" >cpu.sbatch
job=$(sbatch --parsable --ntasks-per-node=2 --cpus-per-task=1 --time=10 --output=turns.log \
  cpu.sbatch "${COMMAND[@]}") || { fail 'sbatch refused the job'; finish; }

# end_turn N COMMAND...: runs COMMAND in turn N and waits for the requeue.
end_turn() {
  local turn=$1
  shift
  wait_for 60 "turn $turn" in_turn "$turn"
  "$@" || fail "turn $turn: failed: $*"
  wait_for 150 "requeue after turn $turn" job_has "Restarts=$turn "
}
# Stops the ranks until the time limit. The shortest limit is a minute, and the ranks would complete in seconds. Slurm
# continues them, first for the template's USR1, then for TERM.
reach_time_limit() {
  scontrol update jobid="$job" TimeLimit=1 && scancel --signal=STOP "$job" || return 1
  wait_for 90 'a save at USR1' saved_in_turn 3
  scancel --signal=STOP "$job"
}
# saved_in_turn N: turn N has logged its save.
saved_in_turn() {
  awk -v turn="$1" '/ resuming / { turns++ } / saved / && turns + 1 == turn { found = 1 } END { exit !found }' turns.log
}

end_turn 1 scancel --signal=TERM "$job"
end_turn 2 scontrol requeue "$job"
end_turn 3 reach_time_limit
scontrol update jobid="$job" TimeLimit=20 || fail 'cannot extend the time limit of the last turn'
wait_for 300 'the end' job_has 'JobState=COMPLETED'
job_has 'Restarts=3 .*ExitCode=0:0' || fail "no exit status 0 after three requeues: $(scontrol show job "$job")"
[ "$(grep -c 'ended by a signal after iteration' turns.log)" -eq 3 ] || fail 'not three ends by a signal'
log_has 'DUE TO TIME LIMIT' || fail 'the time limit did not end a turn'
[ "$(grep -c 'resuming turns/save/' turns.log)" -eq 3 ] || fail 'not three resumptions'

# --- Both runs are equal ---
diff <(metrics_of turns) <(metrics_of whole) >difference || { fail 'different metrics than without interruption'; head -4 difference >&2; }
[ "$(metrics_of whole | grep -c '"type": "step"')" -eq 500 ] || fail 'the uninterrupted run does not have 500 steps'
for shard in whole/save/iter_0000500/*.safetensors; do
  cmp -s "$shard" "${shard/whole/turns}" || fail "${shard#whole/} differs"
done
[ "$(find whole/save/iter_0000500 -name '*.safetensors' | wc -l)" -eq 2 ] || fail 'not one shard per rank'

# If another job is started for a completed run, it ends immediately with 0 and is not requeued.
job=$(sbatch --parsable --ntasks-per-node=2 --cpus-per-task=1 --output=again.log cpu.sbatch "${COMMAND[@]}")
wait_for 60 'the end of a complete run' job_has 'JobState=COMPLETED'
job_has 'Restarts=0 .*ExitCode=0:0' || fail 'a complete run was requeued'
expect_text again.log 'already complete: 500 of 500'

# A job on both nodes loses one, and goes on with the other. It ends like a run that was resumed by hand. (Ranks on both
# nodes are on this machine, and must not use the same files in shared memory.)
export OMPI_MCA_btl=tcp,self OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_mpi_yield_when_idle=1
sed '/gpus-per-node/d; s/ --vocab-size 50257//' "$SHARE/slurm/elastic.sbatch" >elastic.sbatch
WITHOUT_LAYOUT=("${MODEL[@]:0:${#MODEL[@]}-4}")
TRAIN=(mtl-train "${WITHOUT_LAYOUT[@]}" "${LENGTH[@]}" --train-iters 150 --save-interval 30 --threads 1)
job=$(sbatch --parsable --nodes=1-2 --ntasks-per-node=2 --cpus-per-task=1 --time=10 --output=turns.log \
  --open-mode=truncate elastic.sbatch "${TRAIN[@]}" --save elastic) || { fail 'sbatch refused the job'; finish; }
wait_for 120 'a save on both nodes' log_has 'saved elastic/iter_0000060'
mapfile -t lost < <(scontrol listpids "$job" n2 | awk '$1 > 0 && $2 ~ /^[0-9]/ { print $1 }')
[ ${#lost[@]} -ge 2 ] || fail "no ranks on n2: $(scontrol listpids "$job" n2)"
kill -KILL "$(<"$CLUSTER/slurmd.n2.pid")" "${lost[@]}"
wait_for 300 'the end on one node' job_has 'JobState=COMPLETED'
job_has 'Restarts=0 .*ExitCode=0:0' || fail "the job did not go on: $(scontrol show job "$job")"
expect_text turns.log '^run.sh: 4 ranks on n1:2,n2:2: '
expect_text turns.log '^run.sh: n2 does not answer$'
at=$(sed -nE 's/^mtl-train: resuming elastic\/(iter_[0-9]+) at .*/\1/p' turns.log)
read -ra flags < <(sed -n 's/^run.sh: flags: //p' turns.log | tail -n 1)
mkdir hand && cp -r "elastic/$at" hand/
expect_exit 0 mpirun --oversubscribe -n 2 "${TRAIN[@]}" "${flags[@]}" --save hand
expect_text err "^mtl-train: resuming hand/$at at "
expect_exit 0 mtl_compare_checkpoints --exact elastic/iter_0000150 hand/iter_0000150
finish
