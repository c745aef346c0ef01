"""Makes torch_dist checkpoints with megatron-core, on the CPU: python make.py FOLDER CASE...

FOLDER/CASE is a checkpoint of a model after 30 steps with random gradients, saved by megatron-core's dist_checkpointing,
and FOLDER/CASE_plain the same model and moments in the torch format. A case is MODEL_LAYOUT[_tpN][_ppN], such as
llama_dp_reshardable_tp2: a model, llama or gpt, and the layout of the optimizer state. Layouts that the installed
megatron-core does not have are an error. torchtitan's folders are of torch.distributed.checkpoint alone: MODEL is titan,
and FOLDER/titan/step-25 has tensors by torchtitan's names, and FOLDER/titan_plain.pt the same tensors, whole. Saving with
megatron-core also needs the package psutil.
"""
import inspect
import os
import sys

import torch
import torch.distributed.checkpoint as dcp

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
STEPS, BATCH = 30, 8
LAYOUTS = ("plain", "fully_sharded_model_space", "fully_reshardable", "dp_reshardable", "dp_zero_gather_scatter")


def arguments(argparse, case, config):
    is_llama = case["kind"] == "llama"
    return argparse.Namespace(
        num_layers=config.num_layers, hidden_size=config.hidden_size, ffn_hidden_size=config.ffn_hidden_size,
        num_attention_heads=config.num_attention_heads, kv_channels=config.kv_channels,
        group_query_attention=is_llama, num_query_groups=config.num_query_groups, max_position_embeddings=16,
        seq_length=16, padded_vocab_size=48, tensor_model_parallel_size=case["tensor"],
        pipeline_model_parallel_size=case["pipeline"], virtual_pipeline_model_parallel_size=None, data_parallel_size=1,
        context_parallel_size=1, position_embedding_type="rope" if is_llama else "learned_absolute", rotary_base=10000,
        rotary_percent=1.0, normalization=config.normalization, norm_epsilon=config.layernorm_epsilon, swiglu=is_llama,
        add_bias_linear=config.add_bias_linear, bias_gelu_fusion=not is_llama,
        untie_embeddings_and_output_weights=is_llama, transformer_impl="local", hidden_dropout=0.0,
        attention_dropout=0.0, bf16=True, fp16=False, params_dtype=torch.bfloat16,
        use_distributed_optimizer=case["layout"] != "plain", overlap_grad_reduce=False, ddp_num_buckets=None,
        ddp_bucket_size=None, iteration=STEPS, consumed_train_samples=STEPS * BATCH, consumed_valid_samples=0)


def plain_optimizer(model, optimizer):
    """The optimizer state of the torch format: parameters by number, matrices first, and the fp32 main weights."""
    if not hasattr(optimizer, "_get_main_param_and_optimizer_states"):
        return {key: value for key, value in optimizer.state_dict().items()
                if key in ("optimizer", "fp32_from_fp16_params")}
    state, param_groups, mains = {}, [], []
    for is_vector, group in enumerate(optimizer.state_dict()["optimizer"]["param_groups"]):
        first, main = len(state), []
        for param in model.parameters():
            if (param.dim() == 1) == bool(is_vector):
                one = optimizer._get_main_param_and_optimizer_states(param)
                state[len(state)] = {key: one[key].detach().reshape(param.shape) for key in ("exp_avg", "exp_avg_sq")}
                main.append(one["param"].detach().reshape(param.shape))
        param_groups.append({**group, "params": list(range(first, len(state))), "step": STEPS})
        mains.append(main)
    return {"optimizer": {"state": state, "param_groups": param_groups}, "fp32_from_fp16_params": mains}


def run(rank, folder, name, case):
    import argparse

    import megatron_core_cpu as core
    from megatron.core import dist_checkpointing
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
    from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer

    tensor, pipeline, is_distributed = case["tensor"], case["pipeline"], case["layout"] != "plain"
    core.start(rank, tensor, pipeline, f"file://{folder}/.group")
    config, model = core.make_model(case["kind"], torch.bfloat16, tensor, pipeline)
    ddp_config = DistributedDataParallelConfig(use_distributed_optimizer=is_distributed, grad_reduce_in_fp32=True)
    ddp = DistributedDataParallel(config, ddp_config, model)
    optimizer_config = OptimizerConfig(optimizer="adam", lr=1e-3, weight_decay=.1, bf16=True,
                                       params_dtype=torch.bfloat16, use_distributed_optimizer=is_distributed,
                                       clip_grad=0.0)
    optimizer = get_megatron_optimizer(optimizer_config, [ddp])
    own = torch.Generator().manual_seed(rank)
    for step in range(STEPS):
        shared = torch.Generator().manual_seed(1000 + step)  # what several ranks have needs the same gradient
        for param in model.parameters():
            source = own if getattr(param, "tensor_model_parallel", False) else shared
            if getattr(param, "shared_embedding", False):
                source = torch.Generator().manual_seed(2000 + 100 * (rank % tensor) + step)
            param.main_grad.copy_(torch.randn(param.shape, generator=source) * .1)
        optimizer.step()
    inner = optimizer.chained_optimizers[0] if hasattr(optimizer, "chained_optimizers") else optimizer
    common = {"args": arguments(argparse, case, config), "checkpoint_version": 3.0, "iteration": STEPS,
              "opt_param_scheduler": {"num_steps": STEPS * BATCH}}
    at = f"{folder}/{name}/iter_{STEPS:07}"
    plain = f"{folder}/{name}_plain/iter_{STEPS:07}/mp_rank_{rank % tensor:02}" + (
        f"_{rank // tensor:03}" if pipeline > 1 else "")
    for path in (at, plain):
        os.makedirs(path, exist_ok=True)
    weights = {key: value for key, value in model.state_dict().items() if torch.is_tensor(value)}
    torch.save({**common, "model": weights, "optimizer": plain_optimizer(model, inner)}, plain + "/model_optim_rng.pt")
    sharded = model.sharded_state_dict()
    keywords = {}
    if is_distributed:
        known = inspect.signature(inner.sharded_state_dict).parameters
        if "metadata" in known:
            keywords["metadata"] = {"distrib_optim_sharding_type": case["layout"], "chained_optim_avoid_prefix": True}
        if "sharding_type" in known:
            keywords["sharding_type"] = case["layout"]
    state = inner.sharded_state_dict(sharded, **keywords)
    dist_checkpointing.save({**common, "model": sharded, "optimizer": state}, at)
    torch.distributed.destroy_process_group()


def make_titan(rank, folder, ranks=2, hidden=8, heads=2, ffn=12, vocab=13):
    """A Llama of one layer, whose tensors are sharded along axis 0 over two ranks."""
    from torch.distributed.tensor import Shard, distribute_tensor
    torch.distributed.init_process_group("gloo", rank=rank, world_size=ranks, init_method=f"file://{folder}/.group")
    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (ranks,))
    shapes = {"tok_embeddings.weight": (vocab, hidden), "norm.weight": (hidden,), "output.weight": (vocab, hidden),
              "layers.0.attention_norm.weight": (hidden,), "layers.0.ffn_norm.weight": (hidden,),
              "layers.0.attention.wk.weight": (hidden // heads, hidden),
              "layers.0.attention.wv.weight": (hidden // heads, hidden)}
    shapes.update({f"layers.0.attention.{name}.weight": (hidden, hidden) for name in ("wq", "wo")})
    shapes.update({f"layers.0.feed_forward.{name}.weight": (ffn, hidden) for name in ("w1", "w3")})
    shapes["layers.0.feed_forward.w2.weight"] = (hidden, ffn)
    source = torch.Generator().manual_seed(1)
    full = {key: torch.randn(shape, generator=source) for key, shape in shapes.items()}
    state = {key: distribute_tensor(value, mesh, [Shard(0)]) for key, value in full.items()}
    for key, value in full.items():
        for kind in ("exp_avg", "exp_avg_sq"):
            state[f"optimizer.state.{key}.{kind}"] = distribute_tensor(value.abs(), mesh, [Shard(0)])
        state[f"optimizer.state.{key}.step"] = torch.tensor(25.0)
    state["train_state.step"] = torch.tensor(25, dtype=torch.int32)
    dcp.save(state, checkpoint_id=f"{folder}/titan/step-25")
    if rank == 0:
        torch.save(full, f"{folder}/titan_plain.pt")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    root = os.path.abspath(sys.argv[1])
    os.makedirs(root, exist_ok=True)
    for name in sys.argv[2:]:
        if os.path.exists(root + "/.group"):
            os.remove(root + "/.group")
        if name == "titan":
            torch.multiprocessing.spawn(make_titan, (root,), 2)
            continue
        kind, _, rest = name.partition("_")
        layout = next(layout for layout in LAYOUTS if rest.startswith(layout))
        sizes = {part[:2]: int(part[2:]) for part in rest[len(layout):].split("_") if part}
        case = {"kind": kind, "layout": layout, "tensor": sizes.get("tp", 1), "pipeline": sizes.get("pp", 1)}
        torch.multiprocessing.spawn(run, (root, name, case), case["tensor"] * case["pipeline"])
        for suffix in ("", "_plain"):
            with open(f"{root}/{name}{suffix}/latest_checkpointed_iteration.txt", "w") as tracker:
                tracker.write(str(STEPS))
