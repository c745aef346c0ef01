#!/bin/bash
# Completions in bash, and in zsh and fish if they are installed: completions_long.sh requires them. The shells complete
# lines themselves: bash through the function that its completion calls, zsh on a pseudo terminal, fish by `complete -C`.
. "$(dirname "$0")/lib.sh" "$1"
cd "$WORK" || exit 1
for path in "$BIN"/mtl-* "$TESTS/../apps/mtl-demo"; do
  [ ! -x "$path" ] || sh "$TESTS/../cmake/completions.sh" "$path" completions || fail "no completions of $path"
done
mkdir empty && touch empty/{corpus.jsonl,'two words.txt'} && mkdir empty/folder

# in_SHELL LINE: prints what the shell offers after LINE, in the folder empty, one word per line.
in_bash() {
  local line=$1
  # shellcheck disable=SC2016 # the inner shell's words
  env -C empty bash -c '
    . "../completions/bash-completion/completions/$1" || exit 1
    compopt() { :; }
    read -ra COMP_WORDS <<<"${2//=/ = }"
    [[ $2 != *" " ]] || COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    function=$(complete -p "$1" | sed "s/.*-F \([^ ]*\).*/\1/")
    $function
    [ "${#COMPREPLY[@]}" -eq 0 ] || printf "%s\n" "${COMPREPLY[@]}"' bash "${line%% *}" "$line"
}
in_fish() {
  env -C empty XDG_CONFIG_HOME="$WORK" XDG_DATA_HOME="$WORK" PATH="$TESTS/../apps:$PATH" fish --no-config -c "
    set fish_complete_path '$WORK/completions/fish/vendor_completions.d'
    complete -C '$1'" | cut -f1
}
# Prints the list that zsh draws, without its control characters.
in_zsh() {
  # shellcheck disable=SC2016 # the inner shell's words
  env -C empty TERM=dumb timeout 60 zsh -f -c '
    zmodload zsh/zpty
    zpty shell zsh -f -i
    zpty -w shell "PS1=; fpath=($1 \$fpath); autoload -Uz compinit; compinit -u -D; stty cols 200 rows 500; LISTMAX=1000; bindkey \"^I\" list-choices; echo IS\"\"READY"
    zpty -r -m shell line "*ISREADY*"
    zpty -w -n shell "$2"$'"'\\t'"'
    output=
    for try in {1..100}; do
      sleep 0.05
      while zpty -r -t shell line; do output+=$line; tries=0; done
      [[ -z $output ]] || (( ++tries < 6 )) || break
    done
    print -r -- "$output"
    zpty -d shell' zsh "$WORK/completions/zsh/site-functions" "$1" |
    sed -E 's/\x1b\[[0-9;?]*[A-Za-z]//g; s/ -- .*//' |
    tr -s '\r\a\t' '\n' | grep -vF "${1%% *}" | tr -s ' ' '\n' | grep -vx '#*'
}

# expect_offers SHELL LINE WORD...: the shell offers at least these words, and not "--quiet" unless it is among them.
expect_offers() {
  local shell=$1 line=$2 word
  shift 2
  "in_$shell" "$line" >offers 2>errors || true
  [ ! -s errors ] || fail "$shell: '$line' prints $(head -1 errors)"
  for word; do grep -qFx -- "$word" offers || fail "$shell: '$line' does not offer $word, but: $(paste -sd' ' offers | cut -c1-300)"; done
  [[ " $* " == *" --quiet "* ]] || ! grep -qFx -- --quiet offers || fail "$shell: '$line' offers flags"
}
# expect_none SHELL LINE: the shell offers nothing.
expect_none() {
  "in_$1" "$2" >offers 2>errors || true
  [ ! -s offers ] && [ ! -s errors ] || fail "$1: '$2' offers $(paste -sd' ' offers errors | cut -c1-300)"
}

# Every flag and every command of every program, as --help lists them.
check_flags() {
  local shell=$1 line=$2 flags
  # shellcheck disable=SC2086 # a program and a command
  mapfile -t flags < <($line --help | grep -oE '^  -.*' | sed -E 's/^  ((-[A-Za-z_-]+[A-Za-z0-9_-]*(, )?)+).*/\1/' |
    grep -oE -- '--[A-Za-z][A-Za-z0-9_-]*')
  [ "${#flags[@]}" -gt 1 ] || fail "$line --help lists no flags"
  expect_offers "$shell" "$line --" "${flags[@]}" --quiet
}

for shell in bash zsh fish; do
  command -v $shell >/dev/null || { echo "$shell is not installed: not tried"; continue; }
  lines=(mtl-{convert,eval,generate,plot,preprocess,topo,train,vocab} 'mtl-topo plan' 'mtl-data import')
  [ -z "${MTL_ALL_SHELLS:-}" ] && [ $shell != bash ] && lines=(mtl-train 'mtl-data import')
  for line in "${lines[@]}"; do check_flags $shell "$line"; done
  expect_offers $shell 'mtl-data ' info verify import order
  expect_offers $shell 'mtl-topo ' plan time
  expect_offers $shell 'mtl-demo ' train clean
  expect_offers $shell 'mtl-convert --to ' hf mtl megatron
  expect_offers $shell 'mtl-convert --to=' "$([ $shell = fish ] && echo --to=)hf"
  expect_offers $shell 'mtl-convert --verify --to m' mtl megatron
  expect_offers $shell 'mtl-train --model gpt2' gpt2-124m gpt2-1558m
  expect_offers $shell 'mtl-train --tokenizer-type ' GPT2BPETokenizer NullTokenizer
  expect_offers $shell 'mtl-train --vocab-file ' gpt2 corpus.jsonl
  expect_offers $shell 'mtl-topo plan --hardware A' A10 A100
  expect_offers $shell 'mtl-data import --format ' npy nanogpt llm.c
  expect_offers $shell 'mtl-data info ' corpus.jsonl
  expect_offers $shell 'mtl-vocab --input ' corpus.jsonl
  expect_offers $shell 'mtl-vocab --input corpus.jsonl c' corpus.jsonl
  expect_offers $shell 'mtl-train --save f' "folder$([ $shell = bash ] || echo /)"
  expect_none $shell 'mtl-train --save c'
  expect_none $shell 'mtl-train --lr '
  expect_none $shell 'mtl-convert --to x'
done
finish
