#!/usr/bin/env bash
# Makes the site, static HTML that needs no server: README, docs/, the manual pages of a build, and the files that they
# link to. A warning, such as a broken link, is an error. The same commit gives the same bytes. Sphinx and its theme are
# installed in the folder TOOLS from PyPI, because Debian 12's theme has no switch for dark pages.
# Usage: docs.sh BUILD FOLDER TOOLS
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$1" && pwd)
mkdir -p "$2"
out=$(cd "$2" && pwd)
python=$3/bin/python
cmp -s "$root/packaging/site/requirements.txt" "$3/installed" || {
  python3 -m venv "$3" && "$python" -m pip install -q -r "$root/packaging/site/requirements.txt"
  cp "$root/packaging/site/requirements.txt" "$3/installed"
}
python=$(realpath -s "$python")
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH LC_ALL=C.UTF-8
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$root"

mkdir -p "$work/man" "$work/static"
cp packaging/site/conf.py "$work/"
cp packaging/site/site.css "$work/static/"
pages=(README.md CONTRIBUTING.md CHANGELOG.md docs/*.md tests/gpu/README.md)
cp --parents VERSION "${pages[@]}" "$work/"
for page in "${pages[@]}"; do # what they link to: pictures and source files
  { grep -oE '\]\([^):# ]+' "$page" || true; } | sed 's/^](//' | while read -r link; do
    target=$(realpath -m --relative-to="$root" "$(dirname "$page")/$link")
    [ ! -f "$target" ] || [ -e "$work/$target" ] || cp --parents "$target" "$work/"
  done
done
for page in "$build"/man/*.[15]; do
  name=${page##*/}
  {
    echo "# ${name%.*}(${name##*.})"
    echo
    # Of the two forms of a list's item, which scdoc writes for roff, pandoc knows the second.
    sed '/^\.ie n \\{\\$/,/^\.\\}$/d; /^\.el \\{\\$/d; /^\.\\}$/d' "$page" |
      pandoc -f man -t gfm-smart --shift-heading-level-by=1
  } >"$work/man/$name.md"
done

# Contents: the pages in the order of README's table, then the rest.
contents() { printf '\n```{toctree}\n:hidden:\n:caption: %s\n' "$1"; shift; printf '%s\n' "$@"; printf '```\n'; }
mapfile -t guide < <(sed -n '/^## Documentation/,$p' README.md | grep -oE '\]\([^):# ]+\.md' | sed 's/^](//' | awk '!seen[$0]++')
mapfile -t others < <(printf '%s\n' "${pages[@]}" README.md | sort | uniq -u | grep -vxFf <(printf '%s\n' "${guide[@]}"))
{
  contents Guide "${guide[@]%.md}" "${others[@]%.md}"
  (cd "$work" && contents 'Manual pages' man/*.md) | sed 's/\.md$//'
} >>"$work/README.md"
rm -rf "$out"
"$python" -m sphinx -q -W --keep-going -b html "$work" "$out"
rm -rf "$out/.doctrees" "$out/.buildinfo"
ln -s README.html "$out/index.html"
echo "$out/index.html: $(find "$out" -name '*.html' | wc -l) pages"
