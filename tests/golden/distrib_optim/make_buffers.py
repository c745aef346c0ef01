"""Makes buffers.jsonl with megatron-core's own _ParamAndGradBuffer: python make_buffers.py >buffers.jsonl

    pip download --no-deps megatron-core==0.7.0    # unzip the wheel, for the releases without alignment
    { python make_buffers.py; PYTHONPATH=megatron-core-0.7.0 python make_buffers.py; } >buffers.jsonl

Runs on the CPU in one process: a group of ranks is an object with a size.
"""
import inspect
import json
import random
import sys
import types

import packaging.version
import torch

sys.modules.setdefault("pkg_resources", types.SimpleNamespace(packaging=packaging))  # megatron-core 0.7 imports it
torch.cuda.current_device = lambda: "cpu"

from megatron.core import package_info, parallel_state  # noqa: E402
from megatron.core.distributed import DistributedDataParallelConfig, param_and_grad_buffer  # noqa: E402

param_and_grad_buffer.log_on_each_pipeline_stage = lambda *args, **kwargs: None
parallel_state.get_tensor_model_parallel_group = lambda: None
Buffer = getattr(param_and_grad_buffer, "_ParamAndGradBuffer", None) or param_and_grad_buffer.ParamAndGradBuffer


class Group:
    def __init__(self, size):
        self.ranks = size

    def size(self):
        return self.ranks

    def rank(self):
        return 0


def make(sizes, shared, bucket_size, ranks):
    config = DistributedDataParallelConfig(use_distributed_optimizer=True, overlap_grad_reduce=bucket_size is not None)
    params = [torch.nn.Parameter(torch.empty(size)) for size in sizes]
    for index in shared:
        params[index].shared_embedding = True
    group = Group(ranks)
    torch.distributed.get_world_size = lambda group=None: ranks
    torch.distributed.get_rank = lambda group=None: 0
    arguments = {"ddp_config": config, "param_dtype": torch.float32, "grad_dtype": torch.float32, "params": params,
                 "data_parallel_group": group, "bucket_size": bucket_size, "param_to_name": {p: "p" for p in params},
                 "gradient_scaling_factor": 1.0, "param_indices": list(range(len(params))), "nccl_ub": False,
                 "pg_collection": type("Groups", (), {"tp": group, "dp_cp": group})()}
    known = inspect.signature(Buffer.__init__).parameters
    buffer = Buffer(**{name: value for name, value in arguments.items() if name in known})
    # Positions without the padding between buckets.
    begins, unpadded = [], 0
    for bucket in buffer.buckets:
        begins.append(unpadded - bucket.offset)
        unpadded += bucket.numel_unpadded
    assert unpadded == buffer.numel_unpadded
    places = []
    for param in params:
        begin, end, bucket = buffer.param_index_map[param]
        if begin < buffer.buckets[bucket].offset:
            return {"core": package_info.__version__, "sizes": sizes, "shared": shared, "bucket_size": bucket_size,
                    "ranks": ranks, "places": None}
        places.append([begin + begins[bucket], end + begins[bucket], bucket])
    ends = [begin + bucket.offset + bucket.numel_unpadded for begin, bucket in zip(begins, buffer.buckets)]
    return {"core": package_info.__version__, "sizes": sizes, "shared": shared, "bucket_size": bucket_size,
            "ranks": ranks, "places": places, "bucket_ends": ends}


def main():
    rng = random.Random(1)
    for trial in range(60):
        count = rng.randint(1, 9)
        sizes = [rng.choice([1, 16, 24, 63, 64, 65, 128, 192, 200, 768, 1000]) for _ in range(count)]
        shared = rng.choice([[], [], [0], [count - 1], [0, count - 1]] if count > 1 else [[], [0]])
        bucket_size = rng.choice([None, 1, 64, 100, 300, 1500])
        ranks = rng.choice([1, 2, 3, 8])
        if package_info.__version__ == "0.7.0":
            ranks = 1  # it asserts that what precedes a shared embedding is a multiple of the ranks
        print(json.dumps(make(sizes, shared, bucket_size, ranks)))


main()
