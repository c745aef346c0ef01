# Writes a program's completions for one shell, -v shell=bash, zsh or fish. Reads what --list-completions prints
# (apps/cli/flags.h) for -v program=NAME and, after a line "of<TAB>COMMAND", for each of its commands.
BEGIN {
  FS = "\t"
  print (shell == "zsh" ? "#compdef " program "\n" : "") "# Completions of " program ". Written by the build."
  count = 1
  of[1] = ""
}
$1 == "of" { of[++count] = $2 }
$1 == "command" {
  commands = commands (commands == "" ? "" : " ") $2
  command[++command_count] = $2
  summary[command_count] = $3
}
$1 == "words" { positional[count] = $2 }
$1 == "flag" {
  n = ++flags[count]
  names[count, n] = $2; value[count, n] = $3; values[count, n] = $4; help[count, n] = $5
}
END { shell == "bash" ? bash() : shell == "zsh" ? zsh() : fish() }

# What a value is, apart from its known words: "switch", "file", "folder", or "any".
function kind(value) {
  sub(/\.\.\.$/, "", value)
  if (value == "") return "switch"
  if (value ~ /^(FILE|PATH|PREFIX|LOG|GPU|WORD)$/) return "file"
  return value == "DIR" ? "folder" : "any"
}
# Whether words that follow no flag may be files: zsh and fish do not know flags that take lists of them.
function takes_files(c,   f) {
  for (f = 1; f <= flags[c]; ++f)
    if (value[c, f] ~ /\.\.\.$/ && kind(value[c, f]) == "file") return 1
  return positional[c] != "" && kind(positional[c]) == "file"
}
function quoted(text) {
  if (shell == "fish") gsub(/\\/, "\\\\", text)
  gsub(/'/, shell == "fish" ? "\\'" : "'\\''", text)
  return "'" text "'"
}

function bash(   c, f, name, offered, others) {
  name = "_" program
  gsub(/-/, "_", name)
  print name "() {"
  print "  local cur=${COMP_WORDS[COMP_CWORD]} at=$((COMP_CWORD - 1)) before=0 flags= value= words= is_list= flag"
  print "  [ \"$cur\" != = ] || cur="
  print "  # The last flag, and how many words stand between it and this one."
  print "  while [ $at -gt 0 ] && [[ ${COMP_WORDS[at]} != -* ]]; do"
  print "    [ \"${COMP_WORDS[at]}\" = = ] || before=$((before + 1))"
  print "    at=$((at - 1))"
  print "  done"
  print "  flag=${COMP_WORDS[at]}"
  print "  case ${COMP_WORDS[1]} in"
  for (c = count; c >= 1; --c) {
    print "    " (of[c] == "" ? "*" : of[c]) ")"
    offered = others = ""
    for (f = 1; f <= flags[c]; ++f) {
      offered = offered " " joined(names[c, f], " ")
      if (kind(value[c, f]) == "any" && values[c, f] == "") others = others " | " joined(names[c, f], " | ")
    }
    print "      flags='" substr(offered, 2) "'"
    print "      case $flag in"
    for (f = 1; f <= flags[c]; ++f) {
      if (kind(value[c, f]) == "switch" || (kind(value[c, f]) == "any" && values[c, f] == "")) continue
      printf "        %s) value=%s", joined(names[c, f], " | "), kind(value[c, f])
      if (values[c, f] != "") printf " words='%s'", values[c, f]
      print (value[c, f] ~ /\.\.\.$/ ? " is_list=1" : "") " ;;"
    }
    if (others != "") print "        " substr(others, 4) ") value=any ;;"
    print "      esac"
    print "      if [ -z \"$value\" ] || { [ $before -gt 0 ] && [ -z \"$is_list\" ]; }; then"
    print "        value=" (positional[c] == "" ? "any" : kind(positional[c]))
    print "        words=" (of[c] == "" && commands != "" ? "\n        [ \"$COMP_CWORD\" -gt 1 ] || words='" commands "'" : "")
    print "      fi"
    print "      ;;"
  }
  print "  esac"
  print "  [[ $cur != -* ]] || words=$flags value=any"
  print "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")"
  print "  case $value in"
  print "    file) mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- \"$cur\") ;;"
  print "    folder) mapfile -t COMPREPLY < <(compgen -d -- \"$cur\") ;;"
  print "    *) return ;;"
  print "  esac"
  print "  compopt -o filenames"
  print "}"
  print "complete -F " name " " program
}

function zsh(   c, name) {
  name = "_" program
  print name "() {"
  if (commands != "") {
    print "  local -a commands=("
    for (c = 1; c <= command_count; ++c) print "    " quoted(command[c] ":" summary[c])
    print "  )"
    print "  case $words[2] in"
    for (c = 2; c <= count; ++c) {
      print "    " of[c] ")"
      print "      shift words"
      print "      (( CURRENT-- ))"
      zsh_arguments(c, "      ")
      print "      return"
      print "      ;;"
    }
    print "  esac"
  }
  zsh_arguments(1, "  ")
  print "}"
  print name " \"$@\""
}
function zsh_arguments(c, indent,   f, n, part, action, text, i) {
  printf "%s_arguments", indent
  for (f = 1; f <= flags[c]; ++f) {
    action = zsh_action(value[c, f], values[c, f])
    text = help[c, f]
    gsub(/\[/, "\\[", text); gsub(/\]/, "\\]", text)
    n = split(names[c, f], part, ",")
    for (i = 1; i <= n; ++i) {
      printf " \\\n%s  %s", indent, quoted("*" part[i] (value[c, f] == "" ? "" : part[i] ~ /^--/ ? "=" : "+") "[" text "]" \
        (value[c, f] == "" ? "" : ":" value[c, f] ":" action))
    }
  }
  if (c == 1 && commands != "") printf " \\\n%s  '1:command:{_describe command commands}'", indent
  else if (takes_files(c)) printf " \\\n%s  '*:FILE:_files'", indent
  print ""
}
function zsh_action(value, values,   words) {
  if (values != "") words = "(" values ")"
  if (kind(value) == "file") return words == "" ? "_files" : "{_alternative \"words\\:value\\:" words "\" \"files\\:file\\:_files\"}"
  if (kind(value) == "folder") return "_path_files -/"
  return words
}

function fish(   c, f, n, i, part, when, line) {
  for (c = 1; c <= count; ++c) {
    when = of[c] != "" ? " -n '__fish_seen_subcommand_from " of[c] "'" : \
           commands != "" ? " -n 'not __fish_seen_subcommand_from " commands "'" : ""
    if (!takes_files(c)) print "complete -c " program when " -f"
    for (f = 1; f <= flags[c]; ++f) {
      n = split(names[c, f], part, ",")
      for (i = 1; i <= n; ++i) {
        line = "complete -c " program when (part[i] ~ /^--/ ? " -l " substr(part[i], 3) : " -s " substr(part[i], 2))
        if (kind(value[c, f]) == "file") line = line " -r -F"
        if (kind(value[c, f]) == "folder") line = line " -x -a '(__fish_complete_directories)'"
        if (kind(value[c, f]) == "any") line = line " -x"
        if (values[c, f] != "") line = line " -a '" values[c, f] "'"
        print line " -d " quoted(help[c, f])
      }
    }
  }
  for (c = 1; c <= command_count; ++c)
    print "complete -c " program " -n 'not __fish_seen_subcommand_from " commands "' -a " command[c] " -d " quoted(summary[c])
}

function joined(names, by) {
  gsub(/,/, by, names)
  return names
}
