#!/bin/bash
# A TP 2 x PP 2 job over TCP on two hosts: it computes the same bits as on one host. It ends when a rank is killed on
# the other host, and when the link fails, where mpirun itself would wait forever. A single host can resume it, by hand
# and with share/elastic/run.sh. The hosts are network namespaces with their own host names, joined by a pair of virtual
# interfaces.
# shellcheck disable=SC2034 # the sourced files use LENGTH and LAST
source "$(dirname "$0")/lib.sh" "$1"
source "$(dirname "$0")/train_runs.sh"
source "$(dirname "$0")/ranks_runs.sh"
source "$(dirname "$0")/metrics.sh"
A=mtl$$a B=mtl$$b
remove_hosts() {
  local host pid
  for host in $A $B; do
    for pid in $(ip netns pids $host 2>/dev/null); do kill -KILL "$pid" 2>/dev/null; done
    ip netns del $host 2>/dev/null
  done
}
trap 'remove_hosts; kill_ranks; end_test' EXIT
if ! { ip netns add $A && ip netns add $B && ip link add veth0 netns $A type veth peer name veth0 netns $B; } 2>"$WORK/why"; then
  echo "skipped: cannot create network namespaces: $(tail -1 "$WORK/why")"
  exit 77
fi
ip -n $A addr add 10.77.0.1/24 dev veth0
ip -n $B addr add 10.77.0.2/24 dev veth0
for host in $A $B; do
  for interface in lo veth0; do ip -n $host link set $interface up; done
done
cd "$WORK" || exit 1
preprocess "$CORPUS" c

# agent HOST COMMAND...: runs the command on HOST, like ssh.
cat >agent <<AGENT
#!/bin/bash
host=\$1
shift
[ "\$host" = 10.77.0.2 ] || exit 1
exec ip netns exec $B unshare --uts bash -c "hostname host-b; \$*"
AGENT
chmod +x agent

# run_on_both NAME FLAG...: runs the job with two ranks on each host. mpirun runs on host-a.
run_on_both() {
  local name=$1
  shift
  timeout -s KILL 120 ip netns exec $A unshare --uts bash -c 'hostname host-a; exec "$@"' hosts \
    mpirun --mca plm_rsh_agent "$WORK/agent" --mca btl_tcp_if_include 10.77.0.0/24 --mca oob_tcp_if_include 10.77.0.0/24 \
    --oversubscribe -H 10.77.0.1:2,10.77.0.2:2 -n 4 ../as_rank "$name" mtl-train "${MODEL[@]}" "${LENGTH[@]}" \
    "${LAYOUT[@]}" --threads 1 --save "$name/save" --log-jsonl "$name/log.jsonl" "$@" </dev/null
}

start_on_both() {
  run_on_both "$@" >"$1.out" 2>"$1.err" &
  job=$!
}

# expect_failed_job NAME SECONDS: the job fails within SECONDS and leaves no process on either host.
expect_failed_job() { ! job_exits "$@" || fail "$1: exit 0"; }
# job_exits NAME SECONDS: the job ends within SECONDS and leaves no process on either host. Returns its status.
job_exits() {
  local began=$SECONDS code left
  wait "$job"
  code=$?
  [ $((SECONDS - began)) -le "$2" ] ||
    { fail "$1: exit $code after $((SECONDS - began)) s, not within $2 s"; sed 's/^/    /' "$1.err" >&2; }
  for _ in $(seq 100); do
    left=$(ip netns pids $A; ip netns pids $B)
    [ -n "$left" ] || break
    sleep 0.1
  done
  # shellcheck disable=SC2086  # process ids
  [ -z "$left" ] || fail "$1: still running: $(ps -o pid=,comm= -p ${left//$'\n'/,} | tr '\n' ';')"
  return $code
}

# Two hosts compute the same bits as one.
enter_layout tp-pp
LENGTH=(--train-iters 60 --save-interval 20 --eval-interval 50 --log-interval 5)
LAST=iter_0000060/shard_00000.safetensors
expect_exit 0 run_in whole
expect_exit 0 run_on_both hosts
cp "$WORK/err" err
same_as_whole hosts 'two hosts'

# A rank is killed on the other host.
ENDLESS=(--train-iters 20000 --lr-decay-iters 60 --save-interval 20 --eval-interval 100000 --log-interval 5
  --distributed-timeout-minutes 0.1)
LENGTH=("${ENDLESS[@]}")
start_on_both killed
wait_until killed.err 'saved killed/save/iter_0000020'
send KILL killed 3
expect_failed_job killed 20
expect_text killed.err 'rank 3 with PID [0-9]+ on node .* exited on signal 9'

# The link fails. The messages identify ranks and hosts, and the job ends on both hosts even though mpirun cannot reach
# its daemon.
start_on_both down
wait_until down.err 'saved down/save/iter_0000020'
ip -n $A link set veth0 down
expect_failed_job down 45
expect_text down.err 'rank [01] \(host-a\): .* did not end within 6.00 s'
expect_text down.err 'rank [23] \(host-b\) gave no answer: stopped or hung'
ip -n $A link set veth0 up

# Resumes on one host in another layout. The metrics equal those of an uninterrupted run.
for name in killed down; do
  newest=$(cd "$WORK/tp-pp" && newest_of $name)
  end=$((10#${newest##*_} + 10))
  LENGTH=("${ENDLESS[@]}" --save-interval 100000 --exit-interval $end)
  enter_layout tp
  rm -rf whole
  expect_exit 0 run_in whole
  cp -r "../tp-pp/$name" .
  expect_exit 0 run_in $name
  expect_text "$WORK/err" "^mtl-train: resuming $newest at iteration"
  mtl_compare near <(metrics "$name/log.jsonl") <(metrics whole/log.jsonl) --relative 1e-5 --relative norm=1e-4 \
    --count $((end / 5 * 2)) || fail "$name: different metrics than in an uninterrupted run"
done

# share/elastic/run.sh goes on without the host whose link fails, with the bits of a run that was resumed by hand.
mkdir -p "$WORK/elastic"
cd "$WORK/elastic" || exit 1
ln -sf ../c_text_document.* .
# ssh HOST COMMAND...: without a link, the other host does not answer.
cat >ssh <<SSH
#!/bin/bash
[ "\$1" = 10.77.0.2 ] || exec "\${@:2}"
ip -n $A link show veth0 | grep -q LOWER_UP || exec sleep 60
exec "$WORK/agent" "\$@"
SSH
chmod +x ssh
printf '%s\n' '10.77.0.1 slots=2' '10.77.0.2 slots=2' >hosts
TRAIN=(mtl-train "${MODEL[@]}" --train-iters 400 --save-interval 50 --eval-interval 100000 --log-interval 50 --threads 1)
network="--mca btl_tcp_if_include 10.77.0.0/24 --mca oob_tcp_if_include 10.77.0.0/24"
AGENT=$WORK/elastic/ssh MPIRUN="mpirun --mca plm_rsh_agent $WORK/agent $network --oversubscribe" \
  timeout -s KILL 240 ip netns exec $A unshare --uts bash -c 'hostname host-a; exec "$@"' hosts \
  bash "$SHARE/elastic/run.sh" hosts --hardware H100 -- "${TRAIN[@]}" --save save </dev/null >run.out 2>run.err &
job=$!
wait_until run.err 'saved save/iter_0000100'
ip -n $B link set veth0 down
lost=$SECONDS
wait_until run.err '^run.sh: 2 ranks on 10.77.0.1:2: '
wait_until run.err '^mtl-train: resuming save/iter_'
echo "the run goes on $((SECONDS - lost)) s after the link failed"
job_exits run 180 || fail "exit $? after the link failed"
ip -n $B link set veth0 up
expect_text run.err '^run.sh: 4 ranks on 10.77.0.1:2,10.77.0.2:2: '
expect_text run.err '^run.sh: 10.77.0.2 does not answer$'
at=$(sed -nE 's/^mtl-train: resuming save\/(iter_[0-9]+) at .*/\1/p' run.err)
read -ra flags < <(sed -n 's/^run.sh: flags: //p' run.err | tail -n 1)
mkdir hand && cp -r "save/$at" hand/
expect_exit 0 mpirun --oversubscribe -n 2 "${TRAIN[@]}" "${flags[@]}" --save hand
expect_text "$WORK/err" "^mtl-train: resuming hand/$at at "
expect_exit 0 mtl_compare_checkpoints --exact save/iter_0000400 hand/iter_0000400
finish
