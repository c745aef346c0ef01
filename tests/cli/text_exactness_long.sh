#!/bin/bash
# The fast tokenizer equals the plain tokenizer on up to 1 GB of files installed on this machine, such as documentation
# and sources. They are shuffled. The same files always give the same order.
source "$(dirname "$0")/lib.sh" "$1"
megabytes=${MTL_EXACTNESS_MB:-1000}
find /usr/share /usr/include /usr/lib/python3* /usr/lib/perl* /usr/src /etc -xdev -type f -readable -size -20000k -printf '%s %p\n' 2>/dev/null |
  grep -vE '\.(pyc|png|gif|jpe?g|svgz|gz|xz|zst|zip|jar|so|a|o|mo|ttf|otf|pfb|woff2?)$' | sort | shuf --random-source="$SHARE/gpt2/vocab.json" |
  awk -v limit="${megabytes}000000" 'total + $1 <= limit {total += $1; sub(/^[0-9]+ /, ""); print}' >"$WORK/list"
expect_exit 0 "$BIN/mtl_text_exactness" "$SHARE/gpt2/vocab.json" "$SHARE/gpt2/merges.txt" "$TESTS/golden/tokenizer/unicode_classes.json" <"$WORK/list"
cat "$WORK/out"
finish
