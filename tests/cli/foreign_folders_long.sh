#!/bin/bash
# Golden model folders with one random damage: mtl-convert never crashes or hangs, and leaves nothing when it fails,
# with a message. When it succeeds,
# - after a damage of entire files (removed, truncated, ...), the output is that of the sound folder, or a message that
#   the sound folder does not cause says what is missing;
# - after flipped bytes, which may be weights, or an exchange of files that do not state their place, the output has
#   the same tensors of the same shapes;
# - after an edit of a text, such as a value in config.json, the output is a model that loads.
source "$(dirname "$0")/lib.sh" "$1"
source "$(dirname "$0")/random.sh"
export OMP_WAIT_POLICY=passive LC_ALL=C
cd "$WORK" || exit 1

golden=$TESTS/golden
folders=("$golden"/{gpt2_model,llama_model,family_model,rotary_model,deepspeed,dist_ckpt/made}/*/
  "$golden"/megatron_ckpt/{[!bv],v[12]}*/ "$golden"/{megatron_chunks,distrib_optim/*_*,dist_ckpt/{tag,core,titan}*}/)

convert() {
  rm -rf out*
  (is_sanitized mtl-convert || ulimit -v 4000000
    exec timeout -s KILL 20 mtl-convert --load model --save out --to mtl --quiet) >stdout 2>err </dev/null
}
# copy_folder FOLDER: makes the sound folder `model`.
copy_folder() {
  rm -rf model
  cp -rL "$1" model
  rm -rf model/{expected,{batch,golden,activations}.safetensors,rope.json,config_old.json}  # are not of the format
  rm -f model/generation_config.json                                                        # is only copied
  case $1 in
    */titan_fp32/) cp "$golden/dist_ckpt/models/tiny/config.json" model/step-*/ ;;
    */titan_bf16/) cp "$golden/dist_ckpt/models/llama/config.json" model/step-*/ ;;
  esac
}
# prepare_sound FOLDER: sets $sound, the folder with the sound folder's `out` and `err`.
prepare_sound() {
  sound=sound/${1#"$golden/"}
  [ ! -e "$sound" ] || return 0
  convert || fail "$1: cannot convert the sound folder: $(cat err)"
  mkdir -p "$sound"
  without_time out
  mv out err "$sound"
}

# draw_file [GLOB]: sets $file to one of the model's files.
draw_file() {
  mapfile -t files < <(find model -type f -name "${1:-*}" | sort)
  [ ${#files[@]} -gt 0 ] || return 1
  file=${files[RANDOM % ${#files[@]}]}
}
# other_file: sets $other to another file of the same kind, if there is one.
other_file() {
  mapfile -t files < <(find model -type f -name "*.${file##*.}" ! -path "$file" | sort)
  [ ${#files[@]} -gt 0 ] || return 1
  other=${files[RANDOM % ${#files[@]}]}
}
# rank_of FILE, stage_of FILE: print the ranks in its name, and the pipeline stage, if there are any.
rank_of() { grep -oE 'mp_rank_[0-9_]*[0-9]' <<<"$1"; }
stage_of() { sed -nE 's|.*/mp_rank_[0-9]+_([0-9]+)/.*|\1|p' <<<"$1"; }

# draw_damage: sets $damage, shell words that damage the model, and $asked, what is asked of the output. Returns false
# if the model has no file for it.
draw_damage() {
  local at byte
  draw_file
  at=$(((RANDOM * 32768 + RANDOM) % ($(stat -c %s "$file") + 1)))
  asked=same
  one_of flip flip flip truncate extend remove empty duplicate exchange rename fifo folder dangling edit edit edit
  case $drawn in
    flip)
      printf -v byte '\\x%02x' $((RANDOM % 256))
      damage="printf '$byte' | dd of=$file bs=1 seek=$at conv=notrunc status=none"
      case $file in *.json | *.yml | *latest*) asked=loads ;; *) asked=tensors ;; esac ;;
    truncate) damage="truncate -s $at $file" ;;
    extend) damage="printf '%${RANDOM}s' x >>$file" ;;
    remove) damage="rm $file" ;;
    empty) damage=": >$file" ;;
    duplicate | exchange)
      other_file || return
      if [ "$drawn" = duplicate ]; then
        damage="cp $file $other"
        [ "$(rank_of "$file")" != "$(rank_of "$other")" ] || asked=tensors
      else
        damage="mv $file x; mv $other $file; mv x $other"
        [ "$(stage_of "$file")" != "$(stage_of "$other")" ] || asked=tensors
      fi ;;
    rename)
      other=${file##*/}
      other=${file%/*}/$(tr 0-8 1-9 <<<"$other")
      [ "$other" != "$file" ] || other+=.bak
      damage="mv $file $other" ;;
    fifo) damage="rm $file; mkfifo $file" ;;
    folder) damage="rm $file; mkdir $file" ;;
    dangling) damage="rm $file; ln -s nowhere $file" ;;
    edit) draw_edit ;;
  esac
}
# draw_edit: a number or a word in a text is replaced, or a line removed.
draw_edit() {
  local line lines words
  one_of '*.json' '*.yml' 'latest*'
  draw_file "$drawn" || return
  asked=loads
  lines=$(wc -l <"$file")
  line=$((1 + RANDOM % (lines + 1)))
  one_of 0 -1 1 7 1e999 99999999999999999999 4294967296 0.5 null true '""' '[]' '{}' '"x"' NaN
  words=$drawn
  one_of "s/[0-9.e+-][0-9.e+-]*/$words/" "s/: *[^,]*/: $words/" d "s/\"[a-z_]*\"/\"x\"/"
  damage="sed -i '$line$drawn' $file"
}
# shapes: prints the name, dtype and shape of every tensor in `out`.
shapes() { grep -ahoE '"[^"]+": ?\{"dtype": ?"[A-Z0-9]+", ?"shape": ?\[[0-9, ]*\]' out/iter_*/*.safetensors; }

fail_case() {
  fail "case $number: $1: cp -rL $folder model; $damage; mtl-convert --load model --save out --to mtl"
  sed 's/^/    /' err >&2
}

check_case() {
  local folder code damage sound asked
  folder=${folders[RANDOM % ${#folders[@]}]}
  copy_folder "$folder"
  prepare_sound "$folder"
  until draw_damage; do :; done
  eval "$damage"
  convert
  code=$?
  case $code in
    0) ;;
    2 | 65 | 74)
      grep -q '^mtl-convert: ' err || fail_case 'no message'
      ! compgen -G 'out*' >/dev/null || fail_case "leaves $(echo out*)"
      refused=$((refused + 1))
      return ;;
    137) fail_case 'no end within 20 s'; return ;;
    *) fail_case "exit $code"; return ;;
  esac
  ! compgen -G 'out?*' >/dev/null || fail_case "leaves $(echo out?*)"
  case $asked in
    same)
      without_time out
      if diff -rq out "$sound/out" >differences; then same=$((same + 1)); return; fi
      new_message || fail_case "another model without a message: $(head -1 differences)" ;;
    tensors)
      [ "$(cd "$sound" && shapes)" = "$(shapes)" ] || new_message || fail_case 'other tensors without a message' ;;
    loads)
      mtl-convert --load out --save back --to mtl --quiet >stdout 2>back.err ||
        fail_case "an output that does not load: $(<back.err)"
      rm -rf back ;;
  esac
}
# new_message: mtl-convert says something that it does not say of the sound folder.
new_message() { grep -vxFf "$sound/err" err >/dev/null; }

same=0 refused=0
run_cases 1500 check_case
echo "$refused damages are refused, $same have no effect"
finish
