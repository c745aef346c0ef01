#!/usr/bin/env bash
# Prints the path of a cuobjdump with nvdisasm beside it: MTL_CUOBJDUMP, or one in PATH, in the CUDA toolkit, or among
# the packages of MTL_PYTHON (default: python3), such as triton. cuobjdump.sh FOLDER also looks there, and if there is
# none, fetches NVIDIA's packages into it, unless MTL_NO_INSTALL is set. Prints nothing if it finds none.
set -uo pipefail
folder=${1:-}
[ -z "${MTL_CUOBJDUMP:-}" ] || { echo "$MTL_CUOBJDUMP"; exit; }

print_first() {
  local place
  for place in "$(dirname "$(command -v cuobjdump || echo /none/cuobjdump)")" /usr/local/cuda/bin "${packages[@]/%//triton/backends/nvidia/bin}" \
    "${packages[@]/%//nvidia/cu13/bin}"; do
    [ -x "$place/cuobjdump" ] && [ -x "$place/nvdisasm" ] && { echo "$place/cuobjdump"; exit; }
  done
}
python=${MTL_PYTHON:-python3}
mapfile -t packages < <("$python" -c 'import sys; print(*filter(None, sys.path), sep="\n")' 2>/dev/null)
[ -z "$folder" ] || packages+=("$PWD/$folder")
print_first
[ -n "$folder" ] && [ -z "${MTL_NO_INSTALL:-}" ] || exit 0
echo "fetching cuobjdump into $folder" >&2
"$python" -m pip install --quiet --disable-pip-version-check --root-user-action ignore --timeout 10 --retries 1 \
  --no-deps --target "$folder" 'nvidia-cuda-cuobjdump==13.*' 'nvidia-cuda-nvdisasm==13.*' >&2
print_first
