#!/bin/bash
# completions_test.sh with all shells and all flags.
for shell in zsh fish; do
  command -v $shell >/dev/null || { echo "$shell is not installed"; exit 77; }
done
MTL_ALL_SHELLS=1 exec bash "$(dirname "$0")/completions_test.sh" "$1"
