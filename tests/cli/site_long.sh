#!/bin/bash
# The site: Sphinx finds no broken link, every link within it leads to an anchor that exists, no page asks another host for
# anything, and in Chromium no page is wider than a desktop's or a phone's screen, and the search finds pages without a
# server. Needs pandoc, Chromium and PyPI.
. "$(dirname "$0")/lib.sh" "$1"
for program in pandoc chromium python3; do
  command -v $program >/dev/null || { echo "skipped: $program is not installed"; exit 77; }
done
tree=$(cd "$TESTS/.." && pwd)
expect_exit 0 bash "$tree/packaging/docs.sh" "$1" "$WORK/site" "$1/site-tools"
[ ! -s "$WORK/err" ] || fail "Sphinx: $(head -3 "$WORK/err")"
cd "$WORK/site" || exit 1
mapfile -t pages < <(find . -name '*.html' ! -name genindex.html | sed 's|^\./||' | sort)
[ "${#pages[@]}" -gt 30 ] || fail "only ${#pages[@]} pages"
for name in docs/install man/mtl-train.1 man/mtl-idx.5 README search; do [ -f $name.html ] || fail "no page $name"; done

# Links within the site.
checked=0
for page in "${pages[@]}"; do
  while read -r link; do
    target=${link%%#*} anchor=
    [[ $link != *'#'* ]] || anchor=${link#*#}
    file=$page
    [ -z "$target" ] || file=$(realpath -m --relative-to=. "$(dirname "$page")/${target%%\?*}")
    checked=$((checked + 1))
    [ -f "$file" ] || { fail "$page: link to $link"; continue; }
    [ -z "$anchor" ] || grep -qE "id=\"$anchor\"|name=\"$anchor\"" "$file" || fail "$page: no anchor in $link"
  done < <(grep -oE '<(a|link|img|script)[^>]* (href|src)="[^"]*"' "$page" | sed -E 's/.*(href|src)="([^"]*)"/\2/' |
    grep -vE '^(https?|mailto|data):|^#$' | sed 's/&amp;/\&/g' | sort -u)
done
[ $checked -gt 1000 ] || fail "only $checked links"
# Pages ask no other host: only links that a reader follows name one.
grep -rnoE '<(link|img|script|iframe)[^>]* (href|src)="(https?:)?//[^"]*"' --include=*.html . >asked
grep -rnoE '(url\(|@import )["'"'"']?(https?:)?//[^)]*' --include=*.css . >>asked
[ ! -s asked ] || fail "pages ask other hosts: $(head -3 asked)"

browse() { chromium --headless --no-sandbox --disable-gpu --virtual-time-budget=10000 --dump-dom "$@" 2>/dev/null; }
# How far the text of a page reaches to the right, apart from tables and code, which scroll. Chromium cannot make a window
# narrower than 500, but a frame can be.
measure='f.onload = () => {
  const all = f.contentDocument.querySelectorAll("html, .page, .main, .content, article, section, p");
  const right = [...all].filter(e => !e.closest("table")).map(e => e.getBoundingClientRect().left + e.scrollWidth);
  document.title = "width " + Math.round(Math.max(...right));
}'
for width in 1280 390; do
  for page in "${pages[@]}"; do
    probe=probe-$width.html
    printf '<iframe id=f src="%s" style="border:0;width:%dpx;height:800px"></iframe><script>%s</script>' "$page" $width "$measure" >$probe
    found=$(browse --allow-file-access-from-files --window-size=1400,900 "file://$PWD/$probe" | grep -oE '<title>width [0-9]+' | grep -oE '[0-9]+')
    [ "${found:-0}" -gt 0 ] || { fail "$page: Chromium shows nothing"; continue; }
    [ "$found" -le $width ] || fail "$page is $found wide on a screen of $width"
  done
done
browse "file://$PWD/search.html?q=zero-stage" >found
grep -q 'href="docs/parallel.html' found || fail 'the search does not find docs/parallel'
browse "file://$PWD/search.html?q=hellebore" >found
grep -q 'did not match any' found || fail "a search for nothing finds something"
finish
