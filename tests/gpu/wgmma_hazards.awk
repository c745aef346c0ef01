# Finds register hazards of wgmma in `cuobjdump --dump-sass`. A wgmma (HGMMA) is asynchronous: from its fence
# (WARPGROUP.ARRIVE) to the wait for its group (WARPGROUP.DEPBAR), other instructions must not write its operands in
# registers, nor read or write its sums (PTX ISA, "Asynchronous warpgroup level matrix instructions"). Code is read from
# top to bottom: what a loop carries from its end to its start is not followed. Prints per kernel "has ARCH NAME HGMMA
# count" and "has ARCH NAME groups count", and per hazard "hazard ARCH NAME instruction".
function hazard() {print "hazard", arch, name, $0}

# Another instruction uses `count` registers from R`first`.
function use(first, count, writes,   r) {
  for (r = first; r < first + count; ++r) {
    if (sum_of[r] > ended || (writes && operand_of[r] > ended)) hazard()
    if (writes) written[r] = NR
  }
}

# A wgmma of the open group uses registers, whose earlier values must be there: written before the fence.
function own(group_of, first, count,   r) {
  for (r = first; r < first + count; ++r) {
    if (written[r] > fence) hazard()
    group_of[r] = closed + 1
  }
}

/code for sm_/ {arch = $3}
/Function : / {
  name = $3
  split("", written); split("", sum_of); split("", operand_of)  # register -> line, and the last group that uses it
  fence = closed = ended = 0  # the last fence's line; groups that are closed and that a wait has ended
}
!/^[ \t]+\/\*[0-9a-f]+\*\/ / {next}
{
  sub(/^[ \t]*\/\*[0-9a-f]+\*\/ +(@!?U?P[0-9T]+ +)?/, "")
  sub(/ *;.*/, "")
}
/^WARPGROUP\.ARRIVE/ {fence = NR}
/^WARPGROUP\.DEPBAR\.LE gsb0, 0x[0-9]$/ {ended = closed - substr($0, length($0))}
/^HGMMA/ { # HGMMA.64x128x16.F32.BF16 R24, R152, gdesc[UR4].tnspB, R24, gsb0: sums, operand (or gdesc), operand, sums
  wgmmas[arch " " name]++
  match($0, /64x[0-9]+x/)
  width = substr($0, RSTART + 3, RLENGTH - 4)
  match($0, / R[0-9]+,/)
  own(sum_of, substr($0, RSTART + 2, RLENGTH - 3) + 0, width / 2)
  if (match($0, /, R[0-9]+, gdesc/)) own(operand_of, substr($0, RSTART + 3, RLENGTH - 10) + 0, 4)
  if (/gsb0/) {closed++; groups[arch " " name]++}
  next
}
{
  code = $1
  sub(/^[^ ]+ */, "")
  gsub(/UR[0-9]+/, "")
  destination = code !~ /^(ST|RED|BAR)|SETP/  # the first operand that is not a predicate
  n = split($0, part, /, */)
  wide = code ~ /\.128|M88\.4/ ? 4 : code ~ /\.64|WIDE|^CS2R|M88\.2/ ? 2 : 1
  $0 = code " " $0
  for (i = 1; i <= n; ++i) {
    if (part[i] ~ /^U?P[0-9TR]/) continue
    writes = destination && part[i] ~ /^R/
    destination = 0
    while (match(part[i], /R[0-9]+/)) {
      first = substr(part[i], RSTART + 1, RLENGTH - 1) + 0
      part[i] = substr(part[i], RSTART + RLENGTH)
      use(first, writes || (code ~ /^ST/ && i == n) ? wide : part[i] ~ /^\.64/ ? 2 : 1, writes)
    }
  }
}
END {
  for (kernel in wgmmas) print "has", kernel, "HGMMA", wgmmas[kernel] "\nhas", kernel, "groups", groups[kernel] + 0
}
