# Completes layouts.txt: reads its lines, and prints those that cover the remaining pairs of values, at most 8 ranks each.
# With -v refused=1, prints the pairs of values that mtl-train refuses instead. Greedy: every line is the candidate that
# covers the most pairs, the first of several. Usage: awk -f layouts_make.awk layouts.txt
BEGIN {
  columns = split("tp sp pp schedule dp zero overlap micro cp exchange offload rule", name, " ")
  split("1 2 4 8|0 1|1 2 4|1f1b gpipe interleaved zb-h1 zb-h2 zb-v|1 2 4 8|0 1 2 3|0 1|4 2 1|1 2 4 8|- all_gather p2p|0 1|adam sgd muon", domain, "|")
  for (c = 1; c <= columns; ++c) size[c] = split(domain[c], values, " ")
  for (c = 1; c <= columns; ++c) {
    split(domain[c], values, " ")
    for (v = 1; v <= size[c]; ++v) value[c, v] = values[v]
  }
}
/^#/ { next }
{ cover() }
END {
  enumerate(1)
  if (refused) { print_refused(); exit }
  while ((best = best_candidate()) != "") { $0 = best; cover(); print }
}

function cover(  i, j) {
  for (i = 1; i < columns; ++i) for (j = i + 1; j <= columns; ++j) covered[i, $i, j, $j] = 1
}

# Settings that mean something, whether or not mtl-train supports them.
function is_meaningful() {
  if (v_[1] * v_[3] * v_[5] * v_[9] > 8) return 0
  if (v_[2] && v_[1] == 1) return 0                          # sequence parallelism is part of tensor parallelism
  if ((v_[3] == 1) != (v_[4] == "1f1b") && v_[3] == 1) return 0  # schedules need stages
  if (v_[5] * v_[9] == 1 && (v_[6] || v_[7])) return 0       # nothing to shard or to overlap
  if ((v_[9] == 1) != (v_[10] == "-")) return 0
  if (v_[5] * v_[8] > 16) return 0                           # 16 samples a step
  if (v_[4] == "interleaved" && (16 / v_[5] / v_[8]) % v_[3]) return 0
  return 1
}
function is_supported() {
  return !(v_[6] >= 2 && v_[4] ~ /^zb/) && !(v_[6] == 3 && v_[3] > 1)
}

function enumerate(c,  v, i, j, line) {
  if (c <= columns) {
    for (v = 1; v <= size[c]; ++v) { v_[c] = value[c, v]; enumerate(c + 1) }
    return
  }
  if (!is_meaningful()) return
  for (i = 1; i < columns; ++i) for (j = i + 1; j <= columns; ++j) {
    meaningful[i, v_[i], j, v_[j]] = 1
    if (is_supported()) supported[i, v_[i], j, v_[j]] = 1
  }
  if (!is_supported()) return
  line = v_[1]
  for (i = 2; i <= columns; ++i) line = line " " v_[i]
  candidate[++candidates] = line
}

function best_candidate(  k, i, j, gain, most, best, f) {
  for (k = 1; k <= candidates; ++k) {
    split(candidate[k], f, " ")
    gain = 0
    for (i = 1; i < columns; ++i) for (j = i + 1; j <= columns; ++j) gain += !((i, f[i], j, f[j]) in covered)
    if (gain > most) { most = gain; best = candidate[k] }
  }
  return best
}

function print_refused(  pair, f) {
  for (pair in meaningful) {
    if (pair in supported) continue
    split(pair, f, SUBSEP)
    print name[f[1]], f[2], name[f[3]], f[4]
  }
}
