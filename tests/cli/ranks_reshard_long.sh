#!/bin/bash
# Runs are saved after 5 iterations in each of these layouts and resumed for 5 more in each of them. The losses equal one
# process's, and resuming in the same layout gives the same bits. All tools read the same model from all checkpoints.
# Also tests a Llama in four of the layouts.
# shellcheck disable=SC2034 # the sourced files use LENGTH
source "$(dirname "$0")/lib.sh" "$1"
source "$(dirname "$0")/train_runs.sh"
source "$(dirname "$0")/ranks_runs.sh"
source "$(dirname "$0")/layouts.sh"
cd "$WORK" || exit 1
preprocess "$CORPUS" c
HALF=whole/save/iter_0000005
LENGTH=(--train-iters 10 --save-interval 5 --eval-interval 4 --log-interval 1)

# largest_difference KIND NAME: compares its losses or norms with the uninterrupted single process, and prints the
# largest relative difference.
largest_difference() {
  mtl_compare difference <(metrics_after "$WORK/one/whole" 5 | metrics -) <(metrics_after "$2" 5 | metrics -) --key "$1" --count 13
}

# resume_in TO FROM: resumes the run saved in layout FROM in layout TO. Sets $loss to the loss difference.
resume_in() {
  local norm file
  enter_layout "$1"
  expect_exit 0 run_in "$2" --load "../$2/$HALF"
  expect_text "$WORK/err" "^mtl-train: resuming ../$2/$HALF at iteration 5"
  loss=$(largest_difference loss "$2")
  norm=$(largest_difference norm "$2")
  below "$loss" 1e-6 || fail "saved in $2, resumed in $1: losses differ by $loss"
  below "$norm" 1e-5 || fail "saved in $2, resumed in $1: gradient norms differ by $norm"
  [ "$1" = "$2" ] || return
  diff <(metrics_after "$2" 5) <(metrics_after whole 5) >/dev/null ||
    fail "$1: different metrics after resuming in the same layout"
  for file in whole/save/iter_0000010/*.safetensors; do expect_same "$2/${file#whole/}" "$file"; done
}

# reshard LAYOUT...: saves in each layout, resumes each save in each layout, and prints a table of loss differences.
reshard() {
  local layout from to
  for layout in "$@"; do
    enter_layout "$layout"
    expect_exit 0 run_in whole
  done
  printf '| saved in \\ resumed in |'
  printf ' %-7s |' "$@"
  printf '\n|---%s|\n' "$(printf '|---%.0s' "$@")"
  for from in "$@"; do
    printf '| %-21s |' "$from"
    for to in "$@"; do
      resume_in "$to" "$from"
      printf ' %s |' "$loss"
    done
    printf '\n'
  done
}

# use_tools LAYOUT...: compares the tools' results for each layout's checkpoint.
use_tools() {
  local layout difference
  cd "$WORK" || exit 1
  for layout in "$@"; do
    expect_exit 0 mtl-eval --load "$layout/$HALF" --data-path c_text_document --seq-length 32 --threads 1 --json --quiet
    sed -E 's/.*"loss": ([0-9.e+-]+).*/loss \1/' out >"$layout.loss"
    difference=$(mtl_compare difference one.loss "$layout.loss" --count 1)
    below "$difference" 1e-6 || fail "mtl-eval, $layout: losses differ by $difference"
    expect_exit 0 mtl-generate --load "$layout/$HALF" --ids --greedy --max-new-tokens 24 --threads 1 --prompt '5 40 300'
    cp out "$layout.ids"
    [ "$(wc -w <out)" -ge 20 ] || fail "mtl-generate, $layout: $(wc -w <out) ids"
    expect_same "$layout.ids" one.ids
    expect_exit 0 mtl-convert --load "$layout/$HALF" --save "$layout.hf" --to hf --threads 1 --verify
    expect_text err 'verified: all tensors equal'
    echo "$layout: mtl-eval differs by $difference, mtl-generate and mtl-convert agree"
  done
}

reshard one tp pp chunks zb vee dp cp ring zero2 zero3 tp-pp tp-dp
use_tools one tp pp chunks zb vee dp cp ring zero2 zero3 tp-pp tp-dp

# A Llama: its gated, grouped and untied tensors are sharded differently.
rm -rf "$WORK"/{one,tp,pp,chunks,zb,vee,dp,cp,ring,zero2,zero3,tp-pp,tp-dp}{,.*}
set_architecture llama
MODEL+=("${architecture[@]}")
reshard one zero3 tp-pp tp-dp
use_tools one zero3 tp-pp tp-dp
finish
