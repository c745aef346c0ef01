#!/usr/bin/env bash
# Prints the flags of Megatron-LM that mtl-train refuses, or accepts without an effect, by reason: the tables at the end
# of docs/megatron.md. Usage: megatron_flags.sh BIN, or megatron_flags.sh BIN --write to update the page.
set -euo pipefail
page=$(dirname "$0")/megatron.md
tables() {
  "$1/mtl-train" --list-foreign-flags | awk -F'\t' '
    { key = $1 "\t" $3
      if (key in names) names[key] = names[key] ", "
      names[key] = names[key] "`" $2 "`" }
    function table(kind, title, text,   i, part) {
      printf "## %s\n\n%s\n\n| flags | message |\n|---|---|\n", title, text
      for (i = 1; i <= count; ++i) {
        split(order[i], part, "\t")
        if (part[1] == kind) printf "| %s | %s |\n", names[order[i]], part[2]
      }
    }
    !(($1 "\t" $3) in seen) { seen[$1 "\t" $3] = 1; order[++count] = $1 "\t" $3 }
    END {
      table("acknowledged", "Flags without an effect", "mtl-train accepts these and prints the message once.")
      print ""
      table("refused", "Flags that are refused", "mtl-train ends with exit status 2, all reasons listed; `*` stands for the rest of a name.")
    }'
}
if [ "${2:-}" = --write ]; then
  { sed '/^## Flags without an effect/,$d' "$page"; tables "$1"; } >"$page.new"
  mv "$page.new" "$page"
else
  tables "$1"
fi
