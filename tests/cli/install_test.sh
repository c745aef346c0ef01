#!/usr/bin/env bash
# What `make install DESTDIR=... PREFIX=...` puts where, and that it works from there.
. "$(dirname "$0")/lib.sh"
build=$(cd "$1" && pwd)
cd "$WORK" || exit 1

expect_exit 0 env DESTDIR="$WORK/destination" cmake --install "$build" --prefix /opt/mtl
root=$WORK/destination/opt/mtl
for path in "$BIN"/mtl-*; do
  tool=$(basename "$path")
  expect_exit 0 "$root/bin/$tool" --version
  [ -f "$root/share/man/man1/$tool.1" ] || fail "no manual page of $tool"
done
for file in man/man5/mtl-idx.5 man/man5/mtl-checkpoint.5 mtl/gpt2/vocab.json mtl/demo/Makefile doc/mtl/LICENSE doc/mtl/NOTICE; do
  [ -f "$root/share/$file" ] || fail "share/$file was not installed"
done

# The installed vocabulary serves the installed programs.
echo '{"text": "Hello world"}' |
  expect_exit 0 "$root/bin/mtl-preprocess" --input - --output-prefix hello --append-eod \
    --vocab-file "$root/share/mtl/gpt2/vocab.json" --merge-file "$root/share/mtl/gpt2/merges.txt"
[ "$("$root/bin/mtl-data" cat hello_text_document)" = "15496 995 50256" ] || fail 'the installed programs do not work'
finish
