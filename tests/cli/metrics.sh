# shellcheck shell=bash
# Extracts the metrics in a run's JSON lines for mtl_compare, as lines `KEY NAME... NUMBER`. Source lib.sh first.

# An awk function for JSON lines: value("key") returns the key's value in the current line, or "" if there is none.
# shellcheck disable=SC2034 # used by scripts that source this
VALUE='
  function value(key,   text) {
    if (!match($0, "\"" key "\": *[^,}]+")) return ""
    text = substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3)
    gsub(/[ "]/, "", text)
    return text
  }'

# metrics FILE: prints "loss" or "norm" and the value, in line order.
metrics() {
  awk "$VALUE"'
    function show(key, name,   text) { text = value(key); if (text != "") print name, text }
    { show("lm_loss", "loss"); show("loss", "loss"); show("grad_norm", "norm") }' "$1"
}

# named_metrics FILE: prints every metric in every step, validation and test with its name and iteration, sorted.
named_metrics() {
  awk "$VALUE"'
    function show(key, name,   text) { text = value(key); if (text != "") print name, at, text }
    { at = /"final": true/ ? "final" : value("iteration") }
    /"type": "test"/ { at = "final"; show("loss", "test"); next }
    /"type": "validation"/ { show("loss", "validation"); next }
    { show("lm_loss", "step"); show("learning_rate", "rate"); show("grad_norm", "norm") }
    { show("validation_loss", "validation"); show("test_loss", "test") }' "$1" | sort
}

# compare_losses GOLDEN OURS: every metric in 40 iterations, three validations and the test agrees.
compare_losses() {
  named_metrics "$1" >golden.metrics
  named_metrics "$2" >our.metrics
  mtl_compare near our.metrics golden.metrics --relative 1e-6 --relative norm=1e-5 --count $((3 * 40 + 4)) ||
    fail "the metrics of $2 differ from $1"
}
