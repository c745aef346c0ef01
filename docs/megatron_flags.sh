#!/usr/bin/env bash
# Prints how mtl-train answers the flags of Megatron-LM that it does not have, by subject: the table at the end of
# docs/megatron.md. Usage: megatron_flags.sh BIN, or megatron_flags.sh BIN --write to update the page.
set -euo pipefail
page=$(dirname "$0")/megatron.md
table() {
  cat <<'END'
## Megatron-LM's other flags

A flag that would change the result is refused with the reason, and mtl-train exits with status 2; a flag without an
effect is reported once. `mtl-train --list-foreign-flags` prints all of them with the reasons; `*` stands for the rest
of a name.

| subject | refused | without an effect |
|---|---|---|
END
  "$1/mtl-train" --list-foreign-flags | awk -F'\t' '
    { key = $4 "\t" $1
      if (!($4 in seen)) { seen[$4] = 1; subjects[++count] = $4 }
      if (++flags[key] <= 4) names[key] = names[key] (flags[key] > 1 ? ", " : "") "`" $2 "`" }
    function cell(subject, kind,   key) {
      key = subject "\t" kind
      return names[key] (flags[key] > 4 ? " and " flags[key] - 4 " more" : "")
    }
    END {
      for (i = 1; i <= count; ++i)
        printf "| %s | %s | %s |\n", subjects[i], cell(subjects[i], "refused"), cell(subjects[i], "acknowledged")
    }' | sort
}
if [ "${2:-}" = --write ]; then
  { sed "/^## Megatron-LM's other flags/,\$d" "$page"; table "$1"; } >"$page.new"
  mv "$page.new" "$page"
else
  table "$1"
fi
