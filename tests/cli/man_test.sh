#!/bin/bash
# Every tool has a manual page that lists exactly the flags in --help, with the values that --help lists, and formats
# without errors. The flag tables in docs/megatron.md are up to date, and those in docs/deepspeed-fsdp.md name flags
# that exist.
. "$(dirname "$0")/lib.sh" "$1"
MAN=$TESTS/../man

# flags_of_help TOOL [COMMAND]: prints the flags listed by --help, one per line.
flags_of_help() {
  "$@" --help | grep -oE '^  -.*' | sed -E 's/^  ((-[A-Za-z_-]+[A-Za-z0-9_-]*(, )?)+).*/\1/' |
    grep -oE -- '-[A-Za-z-][A-Za-z0-9_-]*'
}

# commands_of TOOL: prints the commands listed in its help, if it requires a COMMAND; mtl-topo's are optional.
commands_of() {
  [ "$1" != mtl-topo ] || echo plan
  "$1" --help | grep -q "^usage: $1 COMMAND" || return
  "$1" --help | sed -nE 's/^  ([a-z][a-z-]*) .*/\1/p'
}

# flags_of_page PAGE: prints the flags that start a line, such as *--flag* or *-f* _VALUE_.
flags_of_page() {
  grep -E '^\*-' "$1" | sed 's/\\//g' | grep -oE '\*-[A-Za-z-][A-Za-z0-9_-]*\*' | tr -d '*'
}

# values_of TOOL [COMMAND]: prints the flags that list their values, each with these values.
values_of() {
  "$@" --list-completions | awk -F'\t' '$1 == "flag" && $4 != "" { sub(/,.*/, "", $2); print $2, $4 }'
}

# words_of PAGE FLAG: prints the words of the flag's entries. An entry that refers to another flag has none.
words_of() {
  sed 's/\\//g' "$1" | awk -v flag="*$2*" '
    /^\*-/ { is_entry = index($0, flag) } /^#/ { is_entry = 0 } is_entry { text = text " " $0 }
    END { if (text !~ /The same as/) print text }' | tr -s ' ,;:()\t' '\n' | sed -E 's/^[*_]+|[*_.]+$//g'
}

check_page() {
  local tool=$1 page=$MAN/$1.1.scd command
  [ -f "$page" ] || { fail "$tool has no manual page man/$tool.1.scd"; return; }
  {
    flags_of_help "$tool"
    for command in $(commands_of "$tool"); do flags_of_help "$tool" "$command"; done
  } | sort -u >"$WORK/help"
  flags_of_page "$page" | sort -u >"$WORK/page"
  [ -s "$WORK/help" ] || fail "$tool --help lists no flags"
  for flag in $(comm -23 "$WORK/help" "$WORK/page"); do fail "man/$tool.1.scd does not describe $flag"; done
  for flag in $(comm -13 "$WORK/help" "$WORK/page"); do fail "man/$tool.1.scd describes $flag, which $tool --help does not list"; done
  {
    values_of "$tool"
    for command in $(commands_of "$tool"); do values_of "$tool" "$command"; done
  } | sort -u >"$WORK/values"
  while read -r flag values; do
    words_of "$page" "$flag" >"$WORK/words"
    [ "$(wc -w <"$WORK/words")" -gt 0 ] || continue
    for value in $values; do
      grep -qxF -- "$value" "$WORK/words" || fail "man/$tool.1.scd does not list the value $value of $flag"
    done
  done <"$WORK/values"
  for heading in NAME SYNOPSIS DESCRIPTION OPTIONS EXAMPLES "EXIT STATUS"; do
    grep -q "^# $heading\$" "$page" || fail "man/$tool.1.scd has no section $heading"
  done
}

tools=0
PATH=$TESTS/../apps:$PATH  # mtl-demo
for path in "$BIN"/mtl-* "$TESTS/../apps/mtl-demo"; do
  [ -x "$path" ] || continue
  check_page "$(basename "$path")"
  tools=$((tools + 1))
done
[ "$tools" -gt 0 ] || fail "no tools in $BIN"

if command -v scdoc >/dev/null && command -v mandoc >/dev/null; then
  for page in "$MAN"/*.scd; do
    scdoc <"$page" >"$WORK/page.man" 2>"$WORK/err" || { fail "$page: $(cat "$WORK/err")"; continue; }
    mandoc -T lint -W error "$WORK/page.man" >"$WORK/lint" 2>&1 || fail "$page: $(cat "$WORK/lint")"
  done
else
  echo "scdoc or mandoc not found: the pages' formatting is not checked"
fi

# docs/megatron.md contains the program's table of flags. Each flag that the page describes as mtl's own exists.
bash "$TESTS/../docs/megatron_flags.sh" "$BIN" >"$WORK/tables"
[ "$(grep -c "^| .*\`--" "$WORK/tables")" -gt 10 ] || fail "mtl-train --list-foreign-flags lists too few flags"
sed -n "/^## Megatron-LM's other flags/,\$p" "$TESTS/../docs/megatron.md" | cmp - "$WORK/tables" ||
  fail "docs/megatron.md differs from the program: run docs/megatron_flags.sh $BIN --write"
mtl-train --list-flags | cut -d" " -f1 >"$WORK/flags"
for flag in $(sed -n "/^## mtl's own flags/,/^## Megatron-LM.s other/p" "$TESTS/../docs/megatron.md" | grep -oE '`--[a-z-]+`' | tr -d '`'); do
  grep -qxF -- "$flag" "$WORK/flags" || fail "docs/megatron.md names $flag, which mtl-train does not have"
done
for flag in $(grep '^| ' "$TESTS/../docs/deepspeed-fsdp.md" | grep -oE -- '--[a-z0-9-]+' | sort -u); do
  grep -qxF -- "$flag" "$WORK/flags" || fail "docs/deepspeed-fsdp.md names $flag, which mtl-train does not have"
done

finish
