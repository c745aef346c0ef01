#!/usr/bin/env bash
# `make install DESTDIR=... PREFIX=...` installs the files, and the programs and every script in share/ work there. Both
# paths contain a blank.
. "$(dirname "$0")/lib.sh"
build=$(cd "$1" && pwd)
tree=$(cd "$build/../.." && pwd)
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_WAIT_POLICY=passive THREADS=1
cd "$WORK" || exit 1

# Without building first.
install=(make -s -C "$tree" -o tools PRESET="$(basename "$build")" DESTDIR="$WORK/a destination" PREFIX='/opt/m t l')
expect_exit 0 "${install[@]}" install
root="$WORK/a destination/opt/m t l"
[ -d "$root/bin" ] || { fail 'nothing was installed'; finish; }
for path in "$BIN"/mtl-*; do
  tool=$(basename "$path")
  expect_exit 0 "$root/bin/$tool" --version
  [ -f "$root/share/man/man1/$tool.1" ] || fail "no manual page of $tool"
done
for file in man/man5/mtl-idx.5 man/man5/mtl-checkpoint.5 mtl/gpt2/vocab.json mtl/demo/Makefile doc/mtl/LICENSE doc/mtl/NOTICE; do
  [ -f "$root/share/$file" ] || fail "share/$file was not installed"
done

# Programs find share files beside their folder, in a prefix and in a build, also through a link.
ln -s "$root/bin/mtl-train" linked-train
for program in "$root/bin/mtl-train" ./linked-train; do
  expect_exit 0 "$program" --version --verbose
  expect_text out "^share files +$root/share/mtl\$"
done
expect_exit 0 mtl-train --version --verbose
expect_text out "^share files +$tree/share\$"
echo '{"text": "Hello world"}' |
  expect_exit 0 "$root/bin/mtl-preprocess" --input - --output-prefix hello --append-eod --vocab-file gpt2
[ "$("$root/bin/mtl-data" cat hello_text_document)" = "15496 995 50256" ] || fail 'the installed programs do not work'
mkdir -p alone/bin
cp "$BIN/mtl-preprocess" alone/bin/
expect_exit 0 alone/bin/mtl-preprocess --version --verbose
expect_text out "^share files +$WORK/alone/share/mtl is missing; "
expect_exit 74 alone/bin/mtl-preprocess --input - --output-prefix hello --append-eod --vocab-file gpt2 </dev/null
expect_text err "$WORK/alone/share/mtl/gpt2/vocab.json: does not exist; "

# No script in share/ needs the source tree. Scripts find the programs on the PATH or in MTL_BIN.
share=$root/share/mtl
for script in $(cd "$share" && find * -name '*.sh' ! -perm -100); do
  [ "$(head -c 2 "$share/$script")" != '#!' ] || fail "share/$script is not executable"
done
demo=(make -s --no-print-directory -C "$share/demo" OUT="$WORK/demo" MTL_BIN="$root/bin"
  MODEL='--num-layers 1 --hidden-size 16 --num-attention-heads 2 --max-position-embeddings 128'
  RUN='--seq-length 128 --micro-batch-size 2 --train-iters 4 --lr 1e-3 --split 95,5,0 --eval-interval 2 --eval-iters 1 --log-interval 1')
expect_exit 0 "${demo[@]}"
for file in shakespeare-vocab.json train_text_document.idx checkpoint/iter_0000004/manifest.json loss.svg hf/model.safetensors; do
  [ -f "demo/$file" ] || fail "the demo did not create $file"
done
# try_next FOLDER: the commands that the demo printed last work where the user stands.
try_next() {
  sed '1,/^Try next:$/d' out >commands
  [ "$(wc -l <commands)" -ge 3 ] || fail "the demo printed no commands to try: $(tail -3 out)"
  while read -r command; do expect_exit 0 env -C "$1" bash -c "$command"; done <commands
}
try_next "$WORK"
expect_exit 0 "${demo[@]}" clean
[ ! -e demo ] || fail 'make clean did not remove the demo'
expect_exit 2 "${demo[@]}" OUT="$WORK/the demo"
expect_text err 'make cannot work in a folder whose name contains a space'

# mtl-demo is the same demo in the current folder, which must be its own.
mkdir 'my demo' && cd 'my demo' || exit 1
expect_exit 0 env PATH="$root/bin:$PATH" "$root/bin/mtl-demo" "${demo[@]: -2}"
[ -f run/hf/model.safetensors ] && [ -f Makefile ] || fail 'mtl-demo made no model'
cd .. || exit 1
PATH=$root/bin:$PATH try_next "$WORK/my demo"
expect_exit 2 "$root/bin/mtl-demo"
expect_text err 'is not empty; make a folder for the demo'
expect_exit 2 "$root/bin/mtl-demo" --fast
expect_exit 0 "$root/bin/mtl-demo" --version
expect_text out '^mtl-demo [0-9.]+$'
expect_exit 0 "$root/bin/mtl-demo" --help
expect_text out '^  --version .*--verbose'

# The demo builds what it runs: not the planner and, where it needs none, no CUDA.
ninja -C "$build" -t commands demo-programs >builds
unneeded=planner
[ "$(<"$build/demo-programs")" = bin ] || unneeded='planner|gpu|cuda'
grep -qF 'mtl_core.dir/' builds || fail 'the demo builds nothing'
! grep -qE "mtl_($unneeded)\.dir/" builds || fail "the demo builds $(grep -oE "mtl_($unneeded)\.dir/" builds | sort -u | tr '\n' ' ')"

# In a checkout, commands are for its root.
expect_exit 0 make -s -C "$tree" -o configure demo PRESET="$(basename "$build")" DEMO="$WORK/demo" "${demo[@]: -2}"
try_next "$tree"
expect_text commands "^  build/$(basename "$build")/$(<"$build/demo-programs")/mtl-generate --load $WORK/demo/hf "

# GPT-2's vocabulary, which they use by default, takes most of the time; seed-sizes finds it.
small=$TESTS/golden/tokenizer/bpe_wikitext2-test_4000
vocabulary=(VOCAB="$small/vocab.json" MERGES="$small/merges.txt")
expect_exit 0 env "${vocabulary[@]}" PATH="$root/bin:$PATH" MTL_BIN= MODEL=tiny ITERATIONS=4 RANKS=2 OUT=parrot bash "$share/experiments/codeparrot-110m/run.sh"
[ -f parrot/hf/model.safetensors ] || fail 'codeparrot-110m made no Hugging Face folder'
expect_text out '^def hello_world\(\):'
expect_exit 0 env "${vocabulary[@]}" MTL_BIN="$root/bin" MODEL=tiny ITERATIONS=2 OUT=seed bash "$share/experiments/seed-345m/run.sh" 1x1 2x1
expect_text out '^2x1 '
expect_exit 0 env MTL_BIN="$root/bin" MODEL=tiny RANKS=2 OUT='our sizes' bash "$share/experiments/seed-sizes/run.sh" \
  --model_size 345M --train_iters 2 2x1
expect_text out '^345M +2 +1 +1 +2 +[0-9.]+ +[0-9.]+$'

# The Slurm templates. srun is replaced by a script that plans the run instead of starting it.
mkdir fake
printf '#!/bin/bash\nwhile [[ $1 == -* ]]; do shift; done\nexec "$@" --dry-run --world-size "$RANKS"\n' >fake/srun
printf '#!/bin/bash\nprintf "alpha\\nbeta\\n"\n' >fake/scontrol
chmod +x fake/*
cp "$share/gpt2/vocab.json" gpt2-vocab.json
cp "$share/gpt2/merges.txt" gpt2-merges.txt
for template in one-node:8 several-nodes:16 elastic:16; do
  expect_exit 0 env PATH="$WORK/fake:$root/bin:$PATH" RANKS="${template#*:}" AGENT=true SLURM_CPUS_PER_TASK=1 \
    SLURM_JOB_ID=1 SLURM_JOB_NODELIST=alpha,beta SLURM_NTASKS_PER_NODE=8 bash "$share/slurm/${template%:*}.sbatch"
  expect_text out 'parameters +354,823,168'
done

# The benchmarks report prerequisites that are missing in an installation, and do not fail.
expect_exit 0 env MTL_BENCH=data MTL_BENCH_QUICK=1 bash "$share/bench/run.sh" "$root/bin"
expect_text err 'data: not measured \(no .*mtl_bench_data; ninja mtl_bench_data builds it\)'

# A second installation removes what only the first one had; `make uninstall` removes all files and no others.
mkdir "$root/share/mtl/old"
touch "$root/share/mtl/old/file" "$root/bin/of-the-user"
echo '/opt/m t l/share/mtl/old/file' >>"$root/share/mtl/installed-files"
expect_exit 0 "${install[@]}" install
[ ! -e "$root/share/mtl/old" ] || fail 'a file of an earlier version remains'
"$root/bin/mtl-train" --version >out || fail 'the second installation removed programs'
expect_exit 0 "${install[@]}" uninstall
[ "$(find "$root" -type f)" = "$root/bin/of-the-user" ] || fail "make uninstall left $(find "$root" -type f | grep -v of-the-user | head -3)"
[ ! -e "$root/share/mtl" ] && [ ! -e "$root/share/doc/mtl" ] || fail 'make uninstall left empty folders'
expect_exit 2 "${install[@]}" uninstall
expect_text err 'nothing to remove'
finish
