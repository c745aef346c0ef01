#!/bin/sh
# Writes the completions of one program for bash, zsh and fish, in the folders where they are installed.
# Usage: completions.sh PROGRAM FOLDER
set -eu
name=$(basename "$1")
list=$2/$name.list
mkdir -p "$2/bash-completion/completions" "$2/zsh/site-functions" "$2/fish/vendor_completions.d"
{
  "$1" --list-completions
  "$1" --list-completions | sed -n 's/^command	\([^	]*\)	.*/\1/p' | while read -r command; do
    [ "$name" != mtl-demo ] || continue # a command has no flags of its own
    printf 'of\t%s\n' "$command"
    "$1" "$command" --list-completions
  done
} >"$list"
write() { awk -f "$(dirname "$0")/completions.awk" -v program="$name" -v shell="$1" "$list" >"$2"; }
write bash "$2/bash-completion/completions/$name"
write zsh "$2/zsh/site-functions/_$name"
write fish "$2/fish/vendor_completions.d/$name.fish"
rm "$list"
