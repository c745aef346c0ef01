# Counts what a kernel's speed depends on, in the output of `cuobjdump -elf`, of `--dump-resource-usage` and of
# `--dump-sass`, in this order. Prints per kernel "counts ARCH NAME registers instructions bytes warps":
# - instructions: those that exist, not those that run;
# - bytes: the most that a thread loads from global memory before it uses one of them, in the order of the code. A loop
#   that waits for each load before the next one has few;
# - warps per multiprocessor, from registers, threads per block (256 if the kernel has no launch bounds) and shared
#   memory, but for the shared memory that a launch adds.
function end_group(   r) {
  for (r in pending) delete pending[r]
  if (group > most) most = group
  group = 0
}
function end_kernel() {
  if (name == "") return
  end_group()
  counted[arch " " name] = instructions " " most
  name = ""
}
function hexadecimal(text,   i, value) {
  value = 0
  for (i = 3; i <= length(text); ++i) value = 16 * value + index("0123456789abcdef", substr(text, i, 1)) - 1
  return value
}

/^arch = / {arch = $3}
/^\.nv\.info\./ {of = substr($1, 10)}
/EIATTR_MAX_THREADS/ {in_threads = 1}
in_threads && /Value:/ {threads[of] = hexadecimal($2) * hexadecimal($3) * hexadecimal($4); in_threads = 0}
/^ Function / {of = $2; sub(/:$/, "", of)}
/REG:[0-9]/ {
  match($0, /REG:[0-9]+/); registers[arch " " of] = substr($0, RSTART + 4, RLENGTH - 4)
  match($0, /SHARED:[0-9]+/); shared[arch " " of] = substr($0, RSTART + 7, RLENGTH - 7)
}

/code for sm_/ {end_kernel(); arch = $3}
/Function : / {
  end_kernel()
  name = $3
  instructions = most = group = 0
}
name != "" && /^[ \t]+\/\*[0-9a-f]+\*\/ / {
  sub(/^[ \t]*\/\*[0-9a-f]+\*\/ +(@!?U?P[0-9T]+ +)?/, "")
  sub(/ *;.*/, "")
  code = $1
  if (code == "NOP") next
  ++instructions
  loads = code ~ /^LDG\./
  sub(/^[^ ]+ */, "")
  n = split($0, part, /, */)
  for (i = loads ? 2 : 1; i <= n; ++i) {
    rest = part[i]
    gsub(/UR[0-9]+/, "", rest)
    while (match(rest, /R[0-9]+/)) {
      if (substr(rest, RSTART + 1, RLENGTH - 1) in pending) end_group()
      rest = substr(rest, RSTART + RLENGTH)
    }
  }
  if (loads) {
    bytes = code ~ /\.128/ ? 16 : code ~ /\.64/ ? 8 : code ~ /\.[US]16/ ? 2 : code ~ /\.[US]8/ ? 1 : 4
    match(part[1], /R[0-9]+/)
    first = substr(part[1], RSTART + 1, RLENGTH - 1) + 0
    for (r = first; r < first + int((bytes + 3) / 4); ++r) pending[r] = 1
    group += bytes
  }
}
END {
  end_kernel()
  for (key in counted) {
    split(key, part, " ")
    size = part[2] in threads ? threads[part[2]] : 256
    in_block = int((size + 31) / 32)
    by_registers = int(65536 / (int((registers[key] + 7) / 8) * 256 * in_block))
    by_shared = int(233472 / (shared[key] + 1024))
    blocks = int(64 / in_block)
    if (blocks > 32) blocks = 32
    if (by_registers < blocks) blocks = by_registers
    if (by_shared < blocks) blocks = by_shared
    print "counts", key, registers[key], counted[key], blocks * in_block
  }
}
