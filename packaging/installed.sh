#!/bin/sh
# Keeps the list of files that `make install` has installed, in PREFIX/share/mtl/installed-files.
# Usage: installed.sh record DESTDIR PREFIX MANIFEST   after an installation: removes what only an earlier one installed
#        installed.sh remove DESTDIR PREFIX            removes all
set -eu
root=$2$3
list=$root/share/mtl/installed-files
# remove_files < LIST: removes files of the list, and what becomes empty of the folders that only mtl uses.
remove_files() {
  while read -r file; do rm -f "$2$file"; done
  for folder in "$root/share/mtl" "$root/share/doc/mtl"; do
    [ ! -d "$folder" ] || find "$folder" -depth -type d -empty -delete
  done
}
case $1 in
  record)
    [ ! -f "$list" ] || grep -vxF -f "$4" "$list" | remove_files "$@"
    cat "$4" >"$list"
    echo >>"$list" # CMake's last line has no end
    ;;
  remove)
    [ -f "$list" ] || { echo "make uninstall: $list does not exist: nothing to remove" >&2; exit 1; }
    { rm "$list" && remove_files "$@"; } <"$list"
    ;;
esac
