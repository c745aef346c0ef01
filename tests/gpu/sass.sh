#!/usr/bin/env bash
# Checks compiled kernels without a GPU: sass.sh BUILD_FOLDER [OBJECT...] prints one line per kernel and architecture in
# the build, or in these objects, with its registers, local memory and tensor-core instructions. sass.sh --counts
# BUILD_FOLDER prints kernel_counts.txt anew. Fails if a kernel
# - uses local memory,
# - does not use the tensor cores, the copy engine or setmaxnreg although it was written for them,
# - waits for every wgmma before the next one, or uses their registers meanwhile (wgmma_hazards.awk),
# - has packs of 8 elements (kernels/cuda/pack.h) and stores less than 16 bytes, except what narrow_stores() lists,
# or if a kernel of a build for sm_90a differs by more than 10 % from what kernel_counts.txt says of it, in registers,
# instructions, bytes in flight or warps (kernel_counts.awk), and nvcc is the one that made the table.
# Needs cuobjdump and nvdisasm (cuobjdump.sh finds them); skipped without them.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
only_counts=
[ "${1:-}" != --counts ] || { only_counts=1; shift; }
build=${1:?the build folder}
shift
cuobjdump=$(bash "$here/cuobjdump.sh")
[ -x "$cuobjdump" ] || { echo "skipped: cuobjdump is missing; MTL_CUOBJDUMP names it, and make test-all fetches it"; exit 77; }
PATH=$(dirname "$cuobjdump"):$PATH
objects=("$@")
[ $# -gt 0 ] || objects=("$build"/CMakeFiles/mtl_cuda.dir/*/*_cuda*.cu.o)
[ -e "${objects[0]}" ] || { echo "sass.sh: $build has no compiled kernels: ninja -C $build mtl_cuda"; exit 1; }
work=$(mktemp -d)
exec 3>&1 >"$work/report"
# What failed comes first: a log may show only the beginning of 800 lines.
trap 'exec >&3; grep -A3 -E "FAILED|^sass.sh:" "$work/report"; cat "$work/report"; rm -rf "$work"' EXIT

# One line "use ARCH NAME registers stack local" per kernel, one line "has ARCH NAME instruction count" per relevant
# instruction, and what wgmma_hazards.awk prints.
hazards() { awk -f "$here/wgmma_hazards.awk" "$@"; }
# Replaces mangled names by short ones.
readable() { c++filt | sed -E 's/: void /: /; s/ void / /; s/mtl::cuda::\(anonymous namespace\):://g; s/mtl::(cuda::)?//g; s/\(.*\)( *FAILED.*)?$/\1/'; }
facts() {
  "$cuobjdump" -elf "$1" >"$work/elf" && "$cuobjdump" --dump-resource-usage "$1" >"$work/usage" &&
    "$cuobjdump" --dump-sass "$1" >"$work/sass" &&
    awk -f "$here/kernel_counts.awk" "$work/elf" "$work/usage" "$work/sass" >>"$work/counts" && awk '
    /^arch = / {arch = $3}
    /^ Function / {name = $2; sub(/:$/, "", name)}
    /REG:/ {
      match($0, /REG:[0-9]+/); reg = substr($0, RSTART + 4, RLENGTH - 4)
      match($0, /STACK:[0-9]+/); stack = substr($0, RSTART + 6, RLENGTH - 6)
      match($0, /LOCAL:[0-9]+/); local = substr($0, RSTART + 6, RLENGTH - 6)
      print "use", arch, name, reg, stack, local
    }' "$work/usage" && hazards "$work/sass" && awk '
    /code for sm_/ {arch = $3}
    /Function : / {name = $3}
    /^[ \t]+\/\*[0-9a-f]+\*\/ / {
      code = $2 ~ /^@/ ? $3 : $2
      if (code ~ /^(ST|STG)\./) code = code ~ /\.(128|256)/ ? "wide" : "narrow"
      sub(/\..*/, "", code)
      if (code ~ /^(HMMA|UTMALDG|USETMAXREG|STL|LDL|wide|narrow)$/) count[arch " " name " " code]++
    }
    END {for (key in count) print "has", key, count[key]}' "$work/sass"
}
failures=0
for object in "${objects[@]}"; do
  facts "$object" >"$work/facts" || { echo "sass.sh: $cuobjdump cannot read $object"; exit 1; }
  file=$(basename "$object")
  awk -v file="${file%%.*}" '
    $1 == "use" {order[++kernels] = $2 " " $3; registers[$2 " " $3] = $4; stack[$2 " " $3] = $5 + $6}
    $1 == "has" {count[$2 " " $3, $4] = $5}
    $1 == "hazard" {key = $2 " " $3; if (!hazards[key]++) first_hazard[key] = substr($0, index($0, $3) + length($3) + 1)}
    function number(key, word) {return count[key, word] + 0}
    # True if a kernel has packs of 8 and stores them. The 8 of the simple attention are elements per lane, and neighboring
    # lanes store neighbors.
    function stores_packs(name) {
      return name ~ /ILi8E|qk_norm_then|qk_rotate_back/ && name !~ /find_stats|(attend_rows|write_dq|write_dk_dv)ILi8E/
    }
    # Returns how many stores of less than 16 bytes such a kernel may have.
    function narrow_stores(name) {
      if (name ~ /(residual|norm)_backward_rows|qk_rotate/) return 6   # sums over rows: neighbors, in an unrolled loop
      if (name ~ /norm_forward_rows/) return 2                         # rstd of a row, and its mean
      if (name ~ /qk_norm_then/) return 1                              # rstd
      if (name ~ /find_(losses_and_)?gradients/) return 7              # the few columns at both ends of a row, the loss
      return 0
    }
    END {
      if (kernels == 0) {print file ": no kernels"; exit 1}
      for (i = 1; i <= kernels; ++i) {
        key = order[i]; split(key, part, " "); why = ""
        # sincos keeps the digits for large angles in local memory.
        if (part[2] !~ /angles/ && (stack[key] > 0 || number(key, "STL") + number(key, "LDL") > 0)) why = why " local memory"
        if (file ~ /hopper/ && part[1] == "sm_90a") {
          if (number(key, "HGMMA") == 0 || number(key, "UTMALDG") == 0) why = why " no HGMMA or UTMALDG"
          if (number(key, "USETMAXREG") < 2) why = why " setmaxnreg ignored" # one raises, one lowers
        }
        if (number(key, "HGMMA") > 1 && (number(key, "groups") == 0 || number(key, "groups") == number(key, "HGMMA"))) why = why " serialized wgmma"
        if (hazards[key] > 0) why = why " " hazards[key] " uses of the registers of a wgmma, first " first_hazard[key]
        if (file ~ /tiles/ && number(key, "HMMA") == 0) why = why " no HMMA"
        narrow = number(key, "narrow")
        if (stores_packs(part[2]) && (narrow > narrow_stores(part[2]) || number(key, "wide") == 0)) why = why " " narrow " narrow stores"
        if (why != "") bad = 1
        printf "%-8s %3d registers %5d bytes local %4d HMMA %4d HGMMA %3d UTMALDG  %s: %s%s\n", part[1], registers[key], stack[key],
          number(key, "HMMA"), number(key, "HGMMA"), number(key, "UTMALDG"), file, part[2], why == "" ? "" : "  FAILED:" why
      }
      exit bad
    }' "$work/facts" >"$work/table" || failures=$((failures + 1))
  for kept in WARPGROUP.DEPBAR WARPGROUP.ARRIVE; do # code without them has hazards, which must be found
    grep -q "$kept" "$work/sass" || continue
    [ "$(sed "/$kept/d" "$work/sass" | hazards | grep -c ^hazard)" -gt 0 ] && continue
    echo "FAILED: wgmma_hazards.awk finds none in $file without $kept"
    failures=$((failures + 1))
  done
  [ -n "$only_counts" ] || readable <"$work/table"
done

# The counts of sm_90a as kernel_counts.txt has them, behind the compiler's version.
compiler=$("$(sed -n 's/^MTL_NVCC:[A-Z]*=//p' "$build/CMakeCache.txt")" --version | sed -n 's/.*release.* V/nvcc /p')
awk '$1 == "counts" && $2 == "sm_90a" {printf "%3d %5d %4d %3d  void %s\n", $4, $5, $6, $7, $3}' "$work/counts" | readable |
  sed 's/  void /  /' | sort -k5 >"$work/found"
if [ -n "$only_counts" ]; then
  echo "# $compiler, sm_90a: registers, instructions, bytes in flight per thread, warps per multiprocessor (kernel_counts.awk)"
  cat "$work/found"
  exit
fi
if [ $# -eq 0 ] && [ -s "$work/found" ]; then
  if ! head -1 "$here/kernel_counts.txt" | grep -qF "# $compiler,"; then
    echo "kernel_counts.txt is not compared: it is not of $compiler"
  elif ! awk '
    /^#/ {next}
    {line = $0; name = $0; sub(/^ *[0-9]+ +[0-9]+ +[0-9]+ +[0-9]+ +/, "", name)}
    NR == FNR {expected[name] = line; next}
    {
      seen[name] = 1
      if (!(name in expected)) {print "FAILED: not in kernel_counts.txt: " line; bad = 1; next}
      split(expected[name], old, " ")
      for (i = 1; i <= 4; ++i) {
        if ($i <= 1.1 * old[i] && $i >= 0.9 * old[i]) continue
        print "FAILED: kernel_counts.txt has\n  " expected[name] "\nand the build\n  " line
        bad = 1
        break
      }
    }
    END {
      for (name in expected) if (!(name in seen)) {print "FAILED: only in kernel_counts.txt: " name; bad = 1}
      exit bad
    }' "$here/kernel_counts.txt" "$work/found"; then
    echo "If that is meant: sass.sh --counts $build >tests/gpu/kernel_counts.txt, and the commit says why a number rose"
    failures=$((failures + 1))
  fi
fi
[ $failures -eq 0 ] || { echo "$failures checks failed in ${#objects[@]} files"; exit 1; }
