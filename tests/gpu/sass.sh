#!/usr/bin/env bash
# Checks compiled kernels without a GPU: sass.sh BUILD_FOLDER prints one line per kernel and architecture with its
# registers, local memory and tensor-core instructions. Fails if a kernel uses local memory, or does not use the tensor
# cores or the copy engine it was written for. Needs cuobjdump and nvdisasm (MTL_CUOBJDUMP, or in PATH); skipped without
# them.
set -uo pipefail
build=${1:?the build folder}
cuobjdump=${MTL_CUOBJDUMP:-$(command -v cuobjdump || echo /usr/local/cuda/bin/cuobjdump)}
[ -x "$cuobjdump" ] || { echo "skipped: cuobjdump is missing; MTL_CUOBJDUMP names it"; exit 77; }
PATH=$(dirname "$cuobjdump"):$PATH
objects=("$build"/CMakeFiles/mtl_cuda.dir/*/*_cuda*.cu.o)
[ -e "${objects[0]}" ] || { echo "sass.sh: $build has no compiled kernels: ninja -C $build mtl_cuda"; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# One line "ARCH NAME registers stack local" per kernel, and one line "ARCH NAME instruction count" per relevant
# instruction.
facts() {
  "$cuobjdump" --dump-resource-usage "$1" | awk '
    /^arch = / {arch = $3}
    /^ Function / {name = $2; sub(/:$/, "", name)}
    /REG:/ {
      match($0, /REG:[0-9]+/); reg = substr($0, RSTART + 4, RLENGTH - 4)
      match($0, /STACK:[0-9]+/); stack = substr($0, RSTART + 6, RLENGTH - 6)
      match($0, /LOCAL:[0-9]+/); local = substr($0, RSTART + 6, RLENGTH - 6)
      print "use", arch, name, reg, stack, local
    }' &&
    "$cuobjdump" --dump-sass "$1" | awk '
    /code for sm_/ {arch = $3}
    /Function : / {name = $3}
    /HGMMA|[^G]HMMA|UTMALDG|STL|LDL/ {
      match($0, /HGMMA|HMMA|UTMALDG|STL|LDL/); count[arch " " name " " substr($0, RSTART, RLENGTH)]++
    }
    END {for (key in count) print "has", key, count[key]}'
}
failures=0
for object in "${objects[@]}"; do
  facts "$object" >"$work/facts" || { echo "sass.sh: $cuobjdump cannot read $object"; exit 1; }
  awk -v file="$(basename "$object" .cu.o)" '
    $1 == "use" {order[++kernels] = $2 " " $3; registers[$2 " " $3] = $4; stack[$2 " " $3] = $5 + $6}
    $1 == "has" {count[$2 " " $3, $4] = $5}
    function number(key, word) {return count[key, word] + 0}
    END {
      if (kernels == 0) {print file ": no kernels"; exit 1}
      for (i = 1; i <= kernels; ++i) {
        key = order[i]; split(key, part, " "); why = ""
        # sincos keeps the digits for large angles in local memory.
        if (part[2] !~ /angles/ && (stack[key] > 0 || number(key, "STL") + number(key, "LDL") > 0)) why = why " local memory"
        if (file ~ /hopper/ && part[1] == "sm_90a" && (number(key, "HGMMA") == 0 || number(key, "UTMALDG") == 0)) why = why " no HGMMA or UTMALDG"
        if (file ~ /tiles/ && number(key, "HMMA") == 0) why = why " no HMMA"
        if (why != "") bad = 1
        printf "%-8s %3d registers %5d bytes local %4d HMMA %4d HGMMA %3d UTMALDG  %s: %s%s\n", part[1], registers[key], stack[key],
          number(key, "HMMA"), number(key, "HGMMA"), number(key, "UTMALDG"), file, part[2], why == "" ? "" : "  FAILED:" why
      }
      exit bad
    }' "$work/facts" >"$work/table" || failures=$((failures + 1))
  c++filt <"$work/table" | sed -E 's/: void /: /; s/mtl::cuda::\(anonymous namespace\):://g; s/mtl:://g; s/\(.*\)( *FAILED.*)?$/\1/'
done
[ $failures -eq 0 ] || { echo "$failures of ${#objects[@]} files failed"; exit 1; }
