#!/usr/bin/env python3
"""Makes the files next to it, which train/wandb_run_test.cpp compares with: make.py FOLDER. Needs wandb 0.21 (written
with 0.21.4), the protobuf classes and the DataStore with which it writes its own runs.

- run.wandb: the start of a run, two rows with their summaries, and an exit
- blocks.txt: sizes of records, and the CRC-32 of the file that contains records of these sizes; they end and begin at
  all distances from the end of a block that matter
"""

import json
import os
import sys
import tempfile
import zlib

import wandb

wandb._assert_is_internal_process = True  # DataStore refuses to work elsewhere
from wandb.proto import wandb_internal_pb2 as pb
from wandb.sdk.internal.datastore import DataStore


def write(path, records):
    store = DataStore()
    store.open_for_write(path)
    for record in records:
        store._write_data(record)
    store.close()


def fill(items, values):
    for key, value in values.items():
        item = items.add()
        item.key, item.value_json = key, json.dumps(value)


def records():
    start = pb.Record()
    start.run.run_id, start.run.entity, start.run.project = "5f0c", "team", "gpt"
    start.run.display_name, start.run.start_time.seconds = "345m", 1700000000
    fill(start.run.config.update, {"precision": "bf16", "data": {"path": "owt", "files": [1, 2]}})
    yield start
    for step, values in ((10, {"_step": 10, "lm loss": 2.5}), (300, {"_step": 300, "lm loss": float("nan")})):
        row, summary = pb.Record(), pb.Record()
        fill(row.history.item, values)
        row.history.step.num = step
        fill(summary.summary.update, values)
        yield row
        yield summary
    end = pb.Record()
    end.exit.exit_code = 75
    yield end
    end.exit.exit_code = 0
    end.exit.SetInParent()
    yield end


folder = sys.argv[1]
path = os.path.join(folder, "run.wandb")
if os.path.exists(path):
    os.remove(path)
write(path, [record.SerializeToString() for record in records()])
with open(os.path.join(folder, "blocks.txt"), "w") as lines, tempfile.TemporaryDirectory() as temporary:
    for room in range(9):
        for after in (1, 32754, 32761, 32762, 70000):
            sizes = [32768 - 7 - 7 - room, after, 5]
            path = os.path.join(temporary, f"{room}-{after}")
            write(path, [bytes(byte % 251 for byte in range(size)) for size in sizes])
            print(*sizes, zlib.crc32(open(path, "rb").read()), file=lines)
