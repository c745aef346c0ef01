#!/bin/bash
# The Debian packages: lintian accepts them, two builds give the same bytes, and in an empty Debian 12 they install and
# work as a new user would try them. An upgrade from the commit before continues its run. Needs Debian's archive.
. "$(dirname "$0")/lib.sh" "$1"
build=$(cd "$1" && pwd)
tree=$(cd "$TESTS/.." && pwd)
. "$TESTS/cli/room.sh" lintian dh
ninja -C "$build" packages >log || { cat log; exit 1; }
for folder in first second; do
  expect_exit 0 sh "$tree/packaging/deb.sh" "$build" $folder 1.0+2
  cat out
done
for package in first/*.deb; do expect_same "$package" "second/${package##*/}"; done
expect_exit 0 lintian --allow-root --fail-on error,warning first/*.deb
[ ! -s out ] || fail "lintian: $(cat out)"
for package in first/*.deb; do
  rm -rf unpacked
  dpkg-deb -x "$package" unpacked
  with_kernels=$(grep -la nv_fatbin unpacked/usr/bin/* | xargs -r -n1 basename | xargs)
  case $package in
    */mtl-cuda_*) [ -n "$with_kernels" ] || fail 'mtl-cuda has no kernels' ;;
    *) [ -z "$with_kernels" ] || fail "programs of mtl have kernels: $with_kernels" ;;
  esac
done

# install PACKAGE: from the files in apt's cache.
install() {
  cp "$1" "$room/tmp/package.deb"
  chroot "$room" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends --allow-downgrades \
    /tmp/package.deb >installed 2>&1 || { cat installed; return 1; }
}
make_room
cp first/mtl_*.deb "$room/tmp/package.deb"
chroot "$room" apt-get install -y -qq --no-install-recommends --download-only /tmp/package.deb >/dev/null 2>&1
echo "mtl needs $(find "$room/var/cache/apt/archives" -name '*.deb' | wc -l) packages, $(du -sh "$room/var/cache/apt/archives" | cut -f1)"

# The package of the commit before, whose programs start a run.
run=(mtl-train --num-layers 1 --hidden-size 32 --num-attention-heads 2 --seq-length 64 --max-position-embeddings 64
  --micro-batch-size 2 --global-batch-size 4 --lr 1e-3 --data-path text_text_document --split 100,0,0 --vocab-file gpt2
  --save-interval 10 --log-interval 1 --lr-decay-iters 20)
xz -dc "$tree/share/demo/tinyshakespeare.txt.xz" | head -c 100000 | awk -f "$tree/share/demo/documents.awk" -v heldout=/dev/null >"$room/home/user/text.jsonl"
if git -C "$tree" cat-file -e HEAD~1:packaging/deb.sh 2>/dev/null; then
  git -C "$tree" worktree add -q --detach "$WORK/before" HEAD~1
  (cd before && cmake --preset release -DMTL_CUDA=OFF && ninja -C build/release packages && sh packaging/deb.sh build/release .. 1.0+1) >log 2>&1 || fail "the commit before: $(tail -20 log)"
  git -C "$tree" worktree remove --force "$WORK/before"
  install mtl_1.0+1_amd64.deb || fail 'the package of the commit before does not install'
  expect_exit 0 in_room mtl-preprocess --input text.jsonl --output-prefix text --append-eod --vocab-file gpt2
  expect_exit 0 in_room "${run[@]}" --save checkpoints --train-iters 10
  echo 'num-layers = 1' >"$room/home/user/run.conf"
else
  echo 'the commit before has no packages: no upgrade is tried'
fi
time install "$(echo first/mtl_*.deb)" || fail 'the package does not install'
[ -z "$(chroot "$room" dpkg -V mtl)" ] || fail "dpkg -V: $(chroot "$room" dpkg -V mtl)"
if [ -d "$room/home/user/checkpoints" ]; then
  expect_exit 0 in_room "${run[@]}" --config run.conf --save checkpoints --train-iters 20 --load checkpoints
  grep -E 'iteration +20/' err out | grep -oE 'lm loss: [^|]*' >resumed
  expect_exit 0 in_room "${run[@]}" --save anew --train-iters 20
  grep -E 'iteration +20/' err out | grep -oE 'lm loss: [^|]*' >whole
  [ -s whole ] || fail 'no loss of iteration 20'
  expect_same whole resumed
fi

# As a new user would.
for tool in mtl-{preprocess,vocab,data,train,eval,generate,convert,topo,plot,demo}; do
  expect_exit 0 in_room $tool --version
  expect_exit 0 in_room $tool --help
  [ -f "$room/usr/share/man/man1/$tool.1.gz" ] || fail "no manual page of $tool"
done
expect_exit 0 in_room mtl-train --version --verbose
expect_text out '^share files +/usr/share/mtl$'
expect_exit 0 in_room mkdir demo
time in_room sh -c 'cd demo && mtl-demo' >demo 2>&1 || fail "mtl-demo: $(tail demo)"
[ -f "$room/home/user/demo/run/hf/model.safetensors" ] || fail 'mtl-demo made no model'
du -sh "$room/usr/share/mtl"

# The containers' recipes: both install the package with the same line.
grep -h '^\(RUN\|   \) *apt-get update' "$tree"/packaging/{Dockerfile,apptainer.def} | sed 's/^RUN//; s/^ *//' | sort -u >lines
[ "$(wc -l <lines)" -eq 1 ] || fail 'the recipes of the containers differ'
chroot "$room" apt-get purge -y -qq --auto-remove mtl >/dev/null
cp first/mtl_*.deb "$room/tmp/"
cp lines "$room/tmp/lines.sh"
rm "$room/tmp/package.deb"
expect_exit 0 chroot "$room" env DEBIAN_FRONTEND=noninteractive bash -e /tmp/lines.sh
chroot "$room" apt-get update -qq
expect_exit 0 in_room mpirun -n 2 --oversubscribe mtl-train --version

# mtl-cuda takes mtl's place. Without a driver it computes on the CPU, and says what a GPU needs.
if ls first/mtl-cuda_*.deb >/dev/null 2>&1; then
  install "$(echo first/mtl-cuda_*.deb)" || fail 'mtl-cuda does not install'
  [ -z "$(chroot "$room" dpkg-query -W -f '${db:Status-Status}' mtl 2>/dev/null | grep -x installed)" ] || fail 'mtl stays beside mtl-cuda'
  expect_exit 0 in_room mtl-train --version --verbose
  expect_text out '^GPU +kernels for sm_'
  expect_exit 2 in_room "${run[@]}" --train-iters 1 --device cuda
  expect_text err 'no NVIDIA driver is installed on this machine'
  expect_exit 0 in_room mtl-vocab --input text.jsonl --vocab-size 300 --output-prefix tiny
else
  echo 'mtl-cuda: not tried, because this build has no kernels'
fi
finish
