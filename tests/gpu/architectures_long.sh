#!/usr/bin/env bash
# Compiles every kernel for sm_80, sm_90a and sm_100: architectures_long.sh BUILD_FOLDER prints one line per file and
# architecture with the highest register count of any kernel, and then what sass.sh says about the object code. Fails if
# a file does not compile, if ptxas spills registers or loses performance, or if sass.sh fails. Needs nvcc and the
# build's compile_commands.json; skipped without them, and, when everything has compiled, without cuobjdump.
set -uo pipefail
build=${1:?the build folder}
commands=$build/compile_commands.json
by_nvcc=$(grep -o '"command": "[^" ]*nvcc [^"]*_cuda[a-z_]*\.cu [^"]*' "$commands" 2>/dev/null | cut -d'"' -f4)
[ -n "$by_nvcc" ] || { echo "skipped: $build was configured without nvcc"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# compile SOURCE ARCH OUTPUT: prints nvcc's errors and ptxas' report.
compile() {
  local words word nvcc=() skip=
  read -ra words <<<"$(grep -F -- " -c $1 " <<<"$by_nvcc")"
  for word in "${words[@]}"; do
    case $word in
      --generate-code=*) ;;
      -c | -o) skip=1 ;;
      *) [ -n "$skip" ] || nvcc+=("$word") ; skip= ;;
    esac
  done
  "${nvcc[@]}" -gencode "arch=compute_$2,code=sm_$2" -Xptxas -v -fatbin -o "$3" "$1" 2>&1
}
failures=0 files=0
mapfile -t sources < <(grep -o -- '-c [^ ]*\.cu ' <<<"$by_nvcc" | cut -d' ' -f2)
for source in "${sources[@]}"; do
  for arch in 80 90a 100; do
    files=$((files + 1))
    if ! compile "$source" $arch "$work/$(basename "$source" .cu).sm_$arch.fatbin" >"$work/report"; then
      cat "$work/report"
      echo "FAILED: $(basename "$source") does not compile for sm_$arch"
      failures=$((failures + 1))
      continue
    fi
    awk -v file="$(basename "$source")" -v arch="sm_$arch" '
      / bytes stack frame, / {
        kernels++
        if ($5 + 0 > 0 || $9 + 0 > 0) bad = bad "\n  " $0
        if ($1 + 0 > stack) stack = $1 + 0 # sincos keeps the digits for large angles there
      }
      /Potential Performance Loss/ {bad = bad "\n  " $0} # a note: wgmma serialized, setmaxnreg ignored
      match($0, /Used [0-9]+ registers/) {used = substr($0, RSTART + 5) + 0; if (used > most) most = used}
      END {
        printf "%-32s %-7s %3d kernels, at most %3d registers, %2d bytes of stack%s\n", file, arch, kernels, most, stack,
          bad == "" ? "" : "  FAILED:" bad
        exit bad != "" || most == 0
      }' "$work/report" || failures=$((failures + 1))
  done
done
[ $files -gt 0 ] || { echo "architectures_long.sh: no kernel in $commands"; exit 1; }
[ $failures -eq 0 ] || { echo "$failures of $files compilations failed"; exit 1; }
bash "$(dirname "$0")/sass.sh" "$build" "$work"/*.fatbin
