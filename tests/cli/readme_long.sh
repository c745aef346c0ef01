#!/bin/bash
# README.md's lines for GPT-2 on a GPU, with one iteration and without a GPU.
source "$(dirname "$0")/lib.sh" "$1"
source "$(dirname "$0")/readme.sh"
cd "$WORK" || exit 1
xz -dc "$SHARE/demo/tinyshakespeare.txt.xz" | awk -f "$SHARE/demo/documents.awk" -v heldout=heldout | zstd -q -o corpus.jsonl.zst
run_readme 'GPT-2 on a GPU' 1 4
expect_text out '^Once upon a time'
[ -s hf/model.safetensors ] || fail 'no Hugging Face folder'
finish
