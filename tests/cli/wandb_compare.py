"""Compares what wandb_server.py received with the JSON lines of the same run: wandb_compare.py UPLOADS LOG. Every figure
of every line must be in the row of its iteration, and no row have others."""

import json
import math
import sys

TAGS = {"lm_loss": "lm loss", "z_loss": "z loss", "global_batch_size": "batch-size",
        "elapsed_ms_per_iteration": "iteration-time", "tflops_per_device": "throughput", "data_stall_ms": "data-stall",
        "communication_wait_ms": "communication-wait", "consumed_samples": "samples vs steps"}
MILLISECONDS = ("elapsed_ms_per_iteration", "data_stall_ms", "communication_wait_ms")

uploads, log = sys.argv[1:]
(run, upload), = json.load(open(uploads)).items()
lines = [json.loads(line) for line in open(log)]
starts = [line for line in lines if line["type"] == "start"]
want = {}
for line in lines:
    if line["type"] == "start":
        continue
    row = want.setdefault(line["iteration"], {})
    if line["type"] == "step":
        row["world-size"] = starts[0]["world_size"]
    for key, value in line.items():
        if key == "loss":
            row["lm loss " + line["type"]] = value
        elif key == "ppl":
            row["lm loss " + line["type"] + " ppl"] = value
        elif key not in ("type", "iteration", "final"):
            row[TAGS.get(key, key.replace("_", "-"))] = value / (1000 if key in MILLISECONDS else 1)
got = {}
for row in upload["rows"]:
    step = row.pop("_step")
    assert step not in got, f"two rows of step {step}"
    assert row.pop("_timestamp") > 1.7e9 and row.pop("_runtime") >= 0
    got[step] = row
assert run == starts[0]["run"], f"run {run}"
assert list(got) == sorted(want), f"steps {list(got)}, but {sorted(want)} in {log}"
compared = 0
for step, row in want.items():
    assert got[step].keys() == row.keys(), f"step {step}: {sorted(got[step].keys() ^ row.keys())}"
    for tag, value in row.items():
        same = math.isnan(value) and math.isnan(float(got[step][tag])) or got[step][tag] == value
        assert same, f"step {step}, {tag}: {got[step][tag]}, but {value} in {log}"
        compared += 1
config = json.loads(upload["config"])
for key in starts[-1].keys() - {"type", "version", "iteration", "run"}:
    assert config[key]["value"] == starts[-1][key], f"configuration {key}"
assert (upload["project"], upload["entity"]) in (("p", "team"), ("p", "e")), upload
assert upload["name"] == "a b" and upload["exit"] == 0, upload
print(compared)
