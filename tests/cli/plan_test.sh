#!/bin/bash
# mtl-topo plan: finds layouts that fit, says what the others wait for, and writes a script that mtl-train understands.
source "$(dirname "$0")/lib.sh" "$1"
cd "$WORK" || exit 1
model=(--num-layers 8 --hidden-size 256 --num-attention-heads 8 --seq-length 512 --max-position-embeddings 512
  --vocab-size 5000 --bf16)
plan=(mtl-topo plan "${model[@]}" --hardware H100 --global-batch-size 32)

expect_exit 0 "${plan[@]}" --world-size 8 --gpus-per-node 4 --output run.sh
expect_text out '^plan for 8 ranks on 2 nodes of 4 H100 with 80 GB \(74.5 GiB\)$'
expect_text out '^ 1\. .* (pp 2, )?dp [48], ZeRO-1, .*micro-batch [0-9]+$'
expect_text out '^ 2\. \+[0-9.]+ %: '
expect_exit 0 "${plan[@]}" --world-size 8 --gpus-per-node 4 --json
[ "$(grep -c '"step_ms"' out)" -eq 5 ] || fail 'not five layouts'
grep -oE '"step_ms": [0-9.e+-]+' out | awk '{ print $2 }' >times
sort -g times | cmp -s - times || fail 'the best layouts are not in order'
# The parts of every stage's time add up to the step's.
awk -F'[:,]' '/"step_ms"/ { step = $2 } /"compute_ms"|"message_wait_ms"|"idle_ms"|^ *"(data|tensor|context|embedding|pipeline)"/ { sum += $2 }
  /"idle_ms"/ { printf "%.12g\n", sum / step; sum = 0 }' out >sums
[ "$(wc -l <sums)" -ge 5 ] || fail 'no stages'
expect_near_lines sums <(sed 's/.*/1/' sums) 'parts of a step' 1e-9

# It says how many layouts it has considered, and plans and simulates few of them.
read -r candidates bounded planned fitting simulated < <(
  grep -E '"(candidates|bounded|planned|fitting|simulated)"' out | grep -oE '[0-9]+' | xargs)
((candidates >= bounded && bounded >= planned && planned >= fitting && fitting >= simulated && simulated >= 5)) ||
  fail "counts: $candidates $bounded $planned $fitting $simulated"
((20 * planned < candidates)) || fail "plans $planned of $candidates layouts"

# mtl-train accepts the flags that the plan gives, also of layouts with savings.
accepts() {
  expect_exit 0 mtl-train "${model[@]}" --tokenizer-type NullTokenizer --mock-data --dry-run --world-size 8 "$@"
}
# So little memory that only five layouts fit, which depends on the workspaces of the build's operators.
expect_exit 1 "${plan[@]}" --world-size 8 --gpus-per-node 4 --device-memory 0.001 --json
little=$(grep -oE '"device_bytes": [0-9]+' out | tr -dc '0-9\n' | sort -g | tail -1 | awk '{ printf "%.9fGB", $1 * 1e-9 }')
for memory in 80GB "$little"; do
  expect_exit 0 "${plan[@]}" --world-size 8 --gpus-per-node 4 --device-memory $memory --json
  sed '/"too_large"/q' out | tr -d '\n' | grep -oE '"flags": \[[^]]*' | sed 's/"flags": \[//; s/[",]//g' >flags
  [ "$(wc -l <flags)" -eq 5 ] || fail "not the flags of five layouts with $memory"
  while read -ra words; do accepts "${words[@]}"; done <flags
done
expect_text flags '--(optimizer-cpu-offload|cpu-offloading)'

# What is offloaded must fit on the hosts.
small_plan=("${plan[@]}" --world-size 8 --gpus-per-node 4 --device-memory "$little" --json)
largest_host_bytes() {
  sed '/"too_large"/q' out | grep -oE '"host_bytes": [0-9]+' | tr -dc '0-9\n' | sort -g | tail -1
}
expect_exit 0 "${small_plan[@]}"
most=$(largest_host_bytes)
expect_exit 0 "${small_plan[@]}" --host-memory "$(awk "BEGIN { printf \"%.9f\", (4 * $most - 1) * 1e-9 }")"
(($(largest_host_bytes) < most)) || fail 'a layout needs more than --host-memory'
expect_exit 1 "${plan[@]}" --world-size 8 --device-memory "$little" --host-memory 0.0001
expect_text err 'no layout fits in 0.0[0-9]* GB and --host-memory 0.0001; '
expect_exit 1 "${plan[@]}" --world-size 8 --host-memory 0.000001
expect_text out '^  [0-9]{1,3} planned, 0 fit$'
expect_text out 'micro-batch [0-9]+: .* (GiB|MiB), and .* (MiB|KiB|GiB) of each host$'
expect_exit 2 "${plan[@]}" --world-size 8 --host-memory 0
expect_text err '--host-memory 0  is not a number of GB from 1e-6 to 1e9'
expect_exit 0 "${plan[@]}" --world-size 8 --gpus-per-node 4
read -ra flags < <(sed -n 's/^flags: //p' out)
[ ${#flags[@]} -ge 4 ] || fail 'no flags'
accepts "${flags[@]}"

# The script repeats the model's flags, and is a job for Slurm on several nodes.
bash -n run.sh || fail 'run.sh is no script'
expect_text run.sh '^#SBATCH --nodes=2$'
expect_text run.sh '^srun --distribution=block --mpi=pmix --kill-on-bad-exit=1 mtl-train '
expect_text run.sh ' --hidden-size 256 '
! grep -q -- --hardware run.sh || fail 'run.sh has flags of the plan'
expect_exit 0 "${plan[@]}" --world-size 2 --gpus-per-node 4 --output one.sh
expect_text one.sh '^exec mpirun -n 2 mtl-train '
# The last of several nodes may have fewer ranks.
expect_exit 0 "${plan[@]}" --world-size 6 --gpus-per-node 4 --global-batch-size 48 --output six.sh
expect_text six.sh '^#SBATCH --ntasks=6$'
expect_text six.sh '^srun --distribution=block,Pack --mpi=pmix --kill-on-bad-exit=1 mtl-train '
# As in share/slurm, status 75 puts the job back into the queue, and the job ends with srun's status.
mkdir slurm
printf '#!/bin/bash\nexit 75\n' >slurm/srun
printf '#!/bin/bash\necho "$@" >requeued\n' >slurm/scontrol
chmod +x slurm/*
expect_exit 75 env PATH="$WORK/slurm:$PATH" SLURM_JOB_ID=7 bash six.sh
[ "$(cat requeued)" = 'requeue 7' ] || fail 'the job is not requeued'
! grep -q -e --ntasks= -e Pack run.sh || fail 'full nodes are packed'

# It has the model's flags however they were given, and no others: mtl-train accepts them.
runs() {  # runs SCRIPT ARGUMENT...: with mtl-train alone in place of mpirun -n N
  sed -E 's/^exec mpirun -n [0-9]+ //' "$1" >alone.sh
  expect_exit 0 bash alone.sh --tokenizer-type NullTokenizer --mock-data --dry-run "${@:2}"
}
printf '%s\n' 'world-size = 2' 'hardware = H100' 'bf16' 'global-batch-size = 32' 'hidden-dropout = 0' >plan.conf
expect_exit 0 mtl-topo plan "${model[@]::12}" --window-size=7,0 --config plan.conf -q -oshort.sh
expect_text short.sh ' --bf16 '
expect_text short.sh ' --hidden-dropout 0 '
! grep -qE -e '--(config|output|hardware)| -[oq]' short.sh || fail 'the script has flags of the plan'
runs short.sh --world-size 2

# With little memory on the host, too, optimizer states may be in files on a disk.
tight=(mtl-topo plan --model gpt2-345m --bf16 --hardware A10 --device-memory 3.6 --host-memory 0.5 --global-batch-size 8 --world-size 1)
expect_exit 1 "${tight[@]}"
expect_exit 0 "${tight[@]}" --disk-gbs 6 --position-embedding-type rope \
  --rope-parameters '{"rope_type": "linear", "factor": 2}' --output files.sh
expect_text out '^ 1\. .* optimizer in files$'
expect_text out '^Files of each rank'
expect_text files.sh " --rope-parameters '[{]\"rope_type\": \"linear\", \"factor\": 2[}]'"
expect_text files.sh '--offload-optimizer "\$\{OFFLOAD_DIR:\?'
! grep -q -e --disk-gbs files.sh || fail 'the script has a flag of the plan'
! bash files.sh 2>err || fail 'the script runs without OFFLOAD_DIR'
expect_text err "OFFLOAD_DIR: is the folder for optimizer states"

# A picture of the best layout's step.
expect_exit 0 "${plan[@]}" --world-size 8 --gpus-per-node 4 --output step.svg
expect_text step.svg "^<title>$(sed -nE 's/^ 1\. .* (GiB|MiB)  (.*)/\2/p' out): a step of $(sed -nE 's/^ 1\. +([0-9.]+) .*/\1/p' out) ms</title>$"
[ "$(grep -c '<g id="stage' step.svg)" -ge 1 ] || fail 'no stages in the picture'

# Slower links make data parallelism wait, and stages of a pipeline worth their idle time.
expect_exit 0 "${plan[@]}" --world-size 4 --gpus-per-node 1 --between-gbs 0.2 --between-us 1 --inside-gbs 400 --inside-us 1 --json
sed '/"step_ms"/q' out | grep -q '"--pipeline-model-parallel-size"' || fail 'no pipeline over slow links'
expect_text out '"what": "(waits for .* between nodes|is idle in the pipeline.s schedule)"'

# Operators take as long as in a profile, here of a CPU. Its ranks have as much time to lose by waiting for slow links.
small=(--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --max-position-embeddings 64 --vocab-size 500)
expect_exit 0 mtl-train "${small[@]}" --tokenizer-type NullTokenizer --mock-data --lr 1e-3 --train-iters 4 --eval-iters 0 \
  --micro-batch-size 2 --threads 1 --profile --profile-step-start 1 --profile-step-end 4
cpus=(mtl-topo plan "${small[@]}" --profile profile/rank0.json --global-batch-size 8 --world-size 2 --device-memory 4)
expect_exit 0 "${cpus[@]}" --inside-gbs 5 --inside-us 3
expect_text out '^plan for 2 ranks on 1 node of 2 CPU, 1 thread with 4 GB'
expect_text out '^  operators: profile/rank0.json$'
expect_exit 0 "${cpus[@]}" --inside-gbs 5 --inside-us 3 --json --efficiency published
expect_text err '--efficiency has no effect with --profile'
expect_text out '"efficiency": "profile"'
sed -nE 's/.*"step_ms": ([0-9.e+-]+).*/\1/p' out | head -1 >quick
expect_exit 0 "${cpus[@]}" --inside-gbs 5e-4 --inside-us 3 --json
sed -nE 's/.*"step_ms": ([0-9.e+-]+).*/\1/p' out | head -1 | paste - quick | awk '{ exit !($1 > $2) }' || fail 'slow links cost no time'
# A rank's memory is mtl-train's.
bytes=$(grep -oE '"device_bytes": [0-9]+,' out | head -1 | tr -dc 0-9)
expect_exit 0 "${cpus[@]}" --inside-gbs 5e-4 --inside-us 3 --output cpus.sh
read -ra flags < <(sed -n 's/^flags: //p' out)
! grep -qe --profile cpus.sh || fail 'the script repeats --profile'
runs cpus.sh --world-size 2
expect_text cpus.sh ' --device cpu --threads 1 '
expect_exit 0 mtl-train "${small[@]}" --tokenizer-type NullTokenizer --mock-data --dry-run --device cpu --threads 1 \
  --world-size 2 "${flags[@]}"
expect_text out "the most, $(sed -E ':a; s/([0-9])([0-9]{3})($|,)/\1,\2\3/; ta' <<<"$bytes") bytes"
expect_exit 1 "${cpus[@]}" --inside-gbs 5 --inside-us 3 --device-memory 0.0001
expect_text out '^no layout fits'
expect_exit 2 "${cpus[@]}"
expect_text err '--inside-gbs and --inside-us  is required: a profile of a CPU has no links'
expect_exit 2 "${cpus[@]}" --inside-gbs 5 --inside-us 3 --hardware H100
expect_text err 'contradicts --profile, which is of a CPU'
expect_exit 2 "${cpus[@]}" --inside-gbs 5 --inside-us 3 --bf16
expect_text err 'has no matrix products in bfloat16; profile a run of the precision to plan for'
expect_exit 65 "${cpus[@]/rank0/trace}" --inside-gbs 5 --inside-us 3
expect_text err 'profile/trace.json: is not a profile; give a file rankN.json'
expect_exit 2 mtl-topo plan "${small[@]}" --global-batch-size 8 --world-size 2
expect_text err '--hardware  is required'
# Rates and latencies with which times overflow.
for flag in '--inside-us 1e308' '--between-gbs 1e-300' '--host-gbs 1e300' '--disk-gbs 0'; do
  # shellcheck disable=SC2086  # words
  expect_exit 2 "${plan[@]}" --world-size 2 $flag
  expect_text err "^  ${flag/ / } +must be from (1e-06|0) to 1000000000"
done
expect_exit 2 "${plan[@]}" --world-size 2 --device-memory 1e-300
expect_text err '--device-memory 1e-300  is not a number of GB from 1e-6 to 1e9, as in 80GB'
# Outputs are looked at before the search.
expect_exit 2 "${plan[@]}" --world-size 2 --output plan.json
expect_text err '--output plan.json  does not end in .sh, .* --json prints the plan'
for output in absent/run.sh absent/a.svg; do
  expect_exit 74 "${plan[@]}" --world-size 2 --output $output
  expect_text err "^mtl-topo plan: $output: there is no folder absent; make it"
  [ -s out ] && fail "searches before it looks at $output"
done
mkdir folder
expect_exit 74 "${plan[@]}" --world-size 2 --output folder
expect_text err '^mtl-topo plan: folder: this is a folder; choose another --output'
[ ! -e plan.json ] || fail 'plan.json is written'
# The vocabulary is a part of the model: no size is assumed, and the other sizes that are missing are named with it.
expect_exit 2 mtl-topo plan "${model[@]:4:6}" --hardware H100 --global-batch-size 32 --world-size 2
expect_text err '^  --vocab-size +is required, because the size of the vocabulary is part of the model$'
expect_text err '^  --num-layers +is required'

# A model that mtl-train cannot build has no plan and no time.
for command in plan 'time --micro-batch-size 1'; do
  for wrong in '--num-attention-heads 3|attention heads 3' '--num-attention-heads 4 --qk-layernorm|norms of queries and keys' \
    '--num-attention-heads 4 --group-query-attention --num-query-groups 3|query groups 3' \
    '--num-attention-heads 4 --use-rotary-position-embeddings --kv-channels 3|the rotary embedding covers 3'; do
    # shellcheck disable=SC2086  # words
    expect_exit 2 mtl-topo $command --num-layers 4 --hidden-size 16 --seq-length 16 --max-position-embeddings 16 \
      --vocab-size 500 --global-batch-size 16 --hardware H100 --world-size 2 ${wrong%|*}
    expect_text err "^  model .*${wrong#*|}"
  done
done

# Given parallel sizes are fixed, all else is searched.
expect_exit 0 "${plan[@]}" --world-size 8 --tensor-model-parallel-size 2 --json
[ "$(grep -A1 -c '"--tensor-model-parallel-size"' out)" -ge 1 ] || fail 'no layouts with tensor-parallel ranks'
grep -A1 '"--tensor-model-parallel-size"' out | grep -o '"[0-9]*"' | sort -u >sizes
expect_same sizes <(echo '"2"')
[ "$(grep -c '"--tensor-model-parallel-size"' out)" -eq "$(grep -c '"flags": ' out)" ] || fail 'layouts without --tensor-model-parallel-size'
grep -q '"--pipeline-model-parallel-size"' out || fail 'the pipeline is not searched'
expect_exit 0 "${plan[@]}" --world-size 8 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --schedule zb-h1 \
  --context-parallel-size 1 --zero-stage 1 --micro-batch-size 2 --recompute-granularity full --output fixed.sh
expect_text out '^ 1\. .* tp 2, pp 2, dp 2, .*ZeRO-1, zb-h1.*, micro-batch 2, recompute full'
[ "$(grep -cE '^ *[0-9]+\. .* dp ' out)" -eq 1 ] || fail 'layouts that differ from the fixed one'
[ "$(grep -o -- '--tensor-model-parallel-size' fixed.sh | wc -l)" -eq 1 ] || fail 'a flag twice in the script'
expect_exit 0 "${plan[@]}" --world-size 4 --pipeline-model-parallel-size 2 --schedule interleaved \
  --num-virtual-stages-per-pipeline-rank 4
! grep -E '^ *[0-9]+\. .* dp ' out | grep -vq 'interleaved x 4' || fail 'chunks that differ from the fixed number'
expect_exit 0 "${plan[@]}" --world-size 2 --micro-batch-size 4 --recompute-granularity none
! grep -E '^ *[0-9]+\. ' out | grep -E ' GiB | MiB ' | grep -vq 'micro-batch 4$' || fail 'micro-batches that differ from the fixed size'
expect_exit 1 "${plan[@]}" --world-size 8 --tensor-model-parallel-size 3
expect_text err '--tensor-model-parallel-size 3: no layout of 8 ranks is like this; '
expect_exit 1 "${plan[@]}" --world-size 1 --micro-batch-size 3 --recompute-activations
expect_text err '--micro-batch-size 3 --recompute-activations: no layout of 1 rank is like this; '

# INT ends the search with the best so far. (The layouts of 10,240 ranks take many seconds.)
set -m  # a background job does not ignore INT
many=(mtl-topo plan --num-layers 80 --hidden-size 8192 --num-attention-heads 64 --seq-length 4096 --bf16
  --max-position-embeddings 4096 --vocab-size 32000 --hardware A100 --world-size 10240 --global-batch-size 10240)
"${many[@]}" --output many.sh >out 2>err &
# INT is held, by the program and not by the shell before it starts it.
until { grep -qx mtl-topo "/proc/$!/comm" && grep -qE 'SigBlk:.*[2367abef]$' "/proc/$!/status"; } || ! kill -0 $!; do sleep 0.05; done
kill -INT $! || fail 'the search ended before INT'
wait $!
[ $? -eq 130 ] || fail "exit $? after INT"
expect_text err '^mtl-topo plan: warning: interrupted'
[ ! -e many.sh ] || fail 'an interrupted search writes a script'
set +m

# Memory that is too small, and mistakes.
expect_exit 1 "${plan[@]}" --world-size 2 --device-memory 0.01GB
expect_text out '^no layout fits; those that need the least memory:$'
expect_text err 'device-memory 0.01GB: no layout fits in 0.01 GB'
# Each setting that is said to fit does.
large=(mtl-topo plan --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 2048 --swiglu --bf16
  --ffn-hidden-size 11008 --max-position-embeddings 2048 --vocab-size 32000 --global-batch-size 16 --hardware A100-40GB)
expect_exit 1 "${large[@]}" --world-size 1
expect_text out '^  micro-batch 1, recompute full, optimizer on the host, [0-9.]+ GiB of host memory: 38.4 GiB$'
expect_text err '^mtl-topo plan: A100-40GB: no layout fits in 40 GB; the first of these layouts fits with$'
expect_text err '^  --grad-reduce-in-bf16: [0-9.]+ GiB of GPU memory, '
expect_text err '^  --tensor-model-parallel-size 2 on 2 ranks: '
expect_exit 0 "${large[@]}" --world-size 1 --grad-reduce-in-bf16
expect_exit 0 "${large[@]}" --world-size 2 --tensor-model-parallel-size 2
expect_exit 1 "${plan[@]}" --world-size 127
expect_text out '^  0 layouts$'
expect_text err '--world-size 127: the ranks cannot be divided: .* --global-batch-size 32;'
expect_exit 2 "${plan[@]/H100/V9000}" --world-size 2
expect_text err '^  --hardware V9000  is not known; use one of A10, A100, A100-40GB, '
# A hardware file of the user's: its rates are used, its mistakes are named with their line.
hardware=$SHARE/hardware
sed 's/"name": "H100"/"name": "mine"/; s/450 GB/45 GB/' "$hardware/H100.json" >mine.json
expect_exit 0 "${plan[@]/H100/mine.json}" --world-size 2
expect_text out '^plan for 2 ranks on 1 node of 8 mine with 80 GB'
expect_text out '^  published shares of peak rates: gemm 80 %, attention 37.5 % forward and 42.7 % backward, memory 90 % \(mine.json\)$'
expect_exit 2 "${plan[@]/H100/mine.json}" --world-size 2 --efficiency mtl
expect_text err '--efficiency mtl: mine.json does not have "efficiency.mtl", .*; use --efficiency published$'
expect_exit 0 "${plan[@]/H100/H200}" --world-size 2 --json
expect_text out '"efficiency": "mtl"'
expect_exit 0 "${plan[@]/H100/H200}" --world-size 2 --efficiency published
expect_text out '^  published shares of peak rates: gemm 80 %'
expect_exit 0 "${plan[@]/H100/mine.json}" --world-size 2
expect_text out 'links in GB/s: 45 inside a node, 50 between nodes'
sed -i 's/45 GB/0.045 TB/' mine.json
expect_exit 65 "${plan[@]/H100/mine.json}" --world-size 2
expect_text err 'mine.json: line 22: "links.inside.bandwidth" is "0.045 TB/s"; write it in GB/s$'
truncate -s 3G large.json
expect_exit 65 "${plan[@]/H100/large.json}" --world-size 2
expect_text err 'large.json: has 3.0 GiB, too many for a hardware file'
expect_exit 74 "${plan[@]/H100/absent.json}" --world-size 2
expect_text err 'absent.json'
expect_exit 2 "${plan[@]}" --world-size 2 --device-memory much
expect_text err 'as in 80GB'
finish
