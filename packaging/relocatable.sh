#!/usr/bin/env bash
# Copies programs with the shared libraries that they load, so that they start from any folder with GLIBC_2.34 or newer
# and its libgcc: FOLDER/PLACE/PROGRAM and FOLDER/lib, which the programs find relative to themselves. Open MPI and what
# only it loads go to FOLDER/lib/mpi, and the programs do not look there. CUDA's libraries come from the machine. The
# libraries' licenses go to FOLDER/share/doc/mtl/licenses.
# Usage: relocatable.sh BIN FOLDER PLACE PROGRAM... [-- FILE...]
# BIN also has mtl_older_glibc and mtl_arc4random.so. The FILEs are of Open MPI; FOLDER/lib/mpi gets what they load, too.
set -euo pipefail
bin=$1 folder=$2 place=$3
shift 3
programs=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do programs+=("$1"); shift; done
of_mpi=("${@:2}")
set -- "${programs[@]}"
mkdir -p "$folder/$place" "$folder/lib/mpi"
for program; do
  [ -x "$bin/$program" ] || { echo "relocatable.sh: no $bin/$program: build it first (ninja $program)" >&2; exit 1; }
  cp "$bin/$program" "$folder/$place/"
  strip "$folder/$place/$program"
  patchelf --set-rpath "\$ORIGIN/../lib" "$folder/$place/$program"
done

# libraries FILE...: the paths of all shared libraries that these load, except those of the C library, which belong to the
# machine's loader, libgcc's, which come with it, and NVIDIA's.
libraries() {
  LD_LIBRARY_PATH=$(dirname "${mpi:-.}") ldd "$@" | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u |
    grep -vE '/(libc|libm|libdl|librt|libpthread|libgcc_s|libcuda|libcublas.*|libnccl.*|libcudart)\.so'
}
# copy LIBRARY TO: with the license of the Debian package that it is from.
copy() {
  local package
  cp -L "$1" "$2/"
  package=$(dpkg -S "$1" "/usr$1" 2>/dev/null | head -1 | cut -d: -f1 || true)
  [ -z "$package" ] || install -Dm644 "/usr/share/doc/$package/copyright" "$folder/share/doc/mtl/licenses/$package"
}
mpi=$(ldd "${@/#/$bin/}" | awk '/libmpi\./ {print $3}' | head -1)
others=$(for program; do # without Open MPI
  objdump -p "$bin/$program" | awk '$1 == "NEEDED" {print $2}'
done | sort -u | grep -v '^libmpi\.' | while read -r name; do
  ldd "${@/#/$bin/}" | awk -v name="$name" '$1 == name && $3 ~ /^\// {print $3}' | head -1
done)
# shellcheck disable=SC2086 # paths of the system's libraries
{ echo "$others" | grep -vE '/(libc|libm|libgcc_s)\.so'; libraries $others; } | sort -u | while read -r library; do
  copy "$library" "$folder/lib"
done
[ -z "$mpi" ] || { echo "$mpi"; libraries "$mpi" "${of_mpi[@]}"; } | sort -u | while read -r library; do
  [ -e "$folder/lib/${library##*/}" ] || copy "$library" "$folder/lib/mpi"
done

"$bin/mtl_older_glibc" "$folder"/lib/*.so* "$folder"/lib/mpi/*.so*
cp "$bin/mtl_arc4random.so" "$folder/lib/"
for library in "$folder"/lib/*.so* "$folder"/lib/mpi/*.so*; do
  symbols=$(objdump -T "$library")
  [[ ! $symbols =~ \*UND\*[^$'\n']*\ arc4random ]] || patchelf --add-needed mtl_arc4random.so "$library"
  path="\$ORIGIN"
  [[ $library != */mpi/* ]] || path="\$ORIGIN:\$ORIGIN/.."
  patchelf --set-rpath "$path" "$library" # in a call of its own: patchelf 0.14 takes the last value for both
done
newer=$(find "$folder" -type f \( -perm -u+x -o -name '*.so*' \) -exec objdump -T {} + 2>/dev/null |
  awk '/file format/ {file = $1} match($0, /GLIBC_2\.[0-9]+/) && substr($0, RSTART + 8, RLENGTH - 8) + 0 > 34 {print file, $NF, $(NF - 1)}')
[ -z "$newer" ] || { echo "relocatable.sh: needs a newer C library than GLIBC_2.34:"; echo "$newer"; exit 1; } >&2
