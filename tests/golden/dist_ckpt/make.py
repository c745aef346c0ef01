"""Makes torch_dist checkpoints with megatron-core, on the CPU: python make.py FOLDER CASE...

FOLDER/CASE is a checkpoint of a model after 30 steps with random gradients, saved by megatron-core's
dist_checkpointing, and FOLDER/CASE_plain the same model and moments in the torch format. A case is
MODEL_LAYOUT[_tpN][_ppN][_dpN][_vpN][_nlN][_flN][_hsN][_bkN], such as llama_dp_reshardable_tp2: a model, llama or gpt,
the layout of the optimizer state, the parallel sizes, the chunks per pipeline stage, the layers, those of the first
stage, the hidden size, and the elements of a bucket of gradients (none: one bucket). Layouts that the installed
megatron-core does not have are an error; `python make.py --layouts` prints those that it has. torchtitan's folders
are of torch.distributed.checkpoint alone: MODEL is titan, and FOLDER/titan/step-25 has tensors by torchtitan's names,
and FOLDER/titan_plain.pt the same tensors, whole. Saving with megatron-core also needs the package psutil.
"""
import inspect
import os
import re
import sys

import psutil  # noqa: F401  # without it, megatron-core's save hangs
import torch
import torch.distributed.checkpoint as dcp

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
STEPS, BATCH = 30, 8
LAYOUTS = ("plain", "fully_sharded_model_space", "fully_sharded_bucket_space", "fully_reshardable", "dp_reshardable",
           "dp_zero_gather_scatter")
METHODS = {"fully_sharded_model_space": "sharded_param_state_fs_model_space",  # of DistributedOptimizer
           "fully_sharded_bucket_space": "sharded_param_state_fs_bucket_space",
           "dp_reshardable": "sharded_param_state_dp_reshardable"}


def arguments(argparse, case, config):
    is_llama = case["kind"] == "llama"
    return argparse.Namespace(
        num_layers=config.num_layers, hidden_size=config.hidden_size, ffn_hidden_size=config.ffn_hidden_size,
        num_attention_heads=config.num_attention_heads, kv_channels=config.kv_channels,
        group_query_attention=is_llama, num_query_groups=config.num_query_groups, max_position_embeddings=16,
        seq_length=16, padded_vocab_size=48, tensor_model_parallel_size=case["tensor"],
        pipeline_model_parallel_size=case["pipeline"],
        virtual_pipeline_model_parallel_size=case["chunks"] if case["chunks"] > 1 else None,
        decoder_first_pipeline_num_layers=case["first_layers"], data_parallel_size=case["data"],
        context_parallel_size=1, position_embedding_type="rope" if is_llama else "learned_absolute", rotary_base=10000,
        rotary_percent=1.0, normalization=config.normalization, norm_epsilon=config.layernorm_epsilon, swiglu=is_llama,
        add_bias_linear=config.add_bias_linear, bias_gelu_fusion=not is_llama,
        untie_embeddings_and_output_weights=is_llama, transformer_impl="local", hidden_dropout=0.0,
        attention_dropout=0.0, bf16=True, fp16=False, params_dtype=torch.bfloat16,
        use_distributed_optimizer=case["layout"] != "plain", overlap_grad_reduce=case["bucket"] is not None,
        ddp_num_buckets=None, ddp_bucket_size=case["bucket"], iteration=STEPS,
        consumed_train_samples=STEPS * BATCH, consumed_valid_samples=0)


def whole_states(optimizer, param):
    """The main weight and the moments of a parameter, of which each data-parallel rank has a range."""
    from megatron.core import parallel_state
    out = {key: torch.zeros(param.numel()) for key in ("param", "exp_avg", "exp_avg_sq")}
    if param in optimizer.model_param_group_index_map:
        group, order = optimizer.model_param_group_index_map[param]
        own = optimizer.optimizer.param_groups[group]["params"][order]
        at = optimizer._get_model_param_range_map(param)["param"]
        for key, value in {"param": own, **optimizer.optimizer.state[own]}.items():
            if key in out:
                out[key][at.start:at.end] = value.detach().flatten()
    for value in out.values():
        torch.distributed.all_reduce(value, group=parallel_state.get_data_parallel_group())
    return {key: value.reshape(param.shape) for key, value in out.items()}


def knows_step(method):
    """True if a method of the optimizer knows that torch's Adam has a step in each parameter's state."""
    return re.search("""['"]step['"]""", inspect.getsource(method)) is not None


def known_layouts():
    """The layouts of the optimizer state that the installed megatron-core saves."""
    import megatron_core_cpu  # noqa: F401
    from megatron.core.dist_checkpointing import ShardedTensor
    from megatron.core.dist_checkpointing.strategies import torch as strategy
    from megatron.core.optimizer import DistributedOptimizer
    source = inspect.getsource(DistributedOptimizer.sharded_state_dict)
    found = re.findall(r"\b(?:el)?if sharding_type == '(\w+)'", source)
    if "flattened_range is not supported" in inspect.getsource(ShardedTensor):  # megatron-core 0.16 only loads it
        found.remove("fully_sharded_model_space")
    if "is_flattened_range_1d" not in inspect.getsource(strategy) and "fully_sharded_bucket_space" in found:
        found.remove("fully_sharded_bucket_space")  # since 0.11, saving it in torch_dist fails in an assertion
    return [layout for layout in LAYOUTS if layout == "plain" or layout in found]


def plain_optimizer(models, optimizer):
    """The optimizer state of the torch format: parameters by number, matrices first, and the fp32 main weights."""
    if not hasattr(optimizer, "model_param_group_index_map"):
        return {key: value for key, value in optimizer.state_dict().items()
                if key in ("optimizer", "fp32_from_fp16_params")}
    state, param_groups, mains = {}, [], []
    for is_vector, group in enumerate(optimizer.state_dict()["optimizer"]["param_groups"]):
        first, main = len(state), []
        for param in (param for model in models for param in model.parameters()):
            if (param.dim() == 1) == bool(is_vector):
                one = whole_states(optimizer, param)
                main.append(one.pop("param"))
                state[len(state)] = one
        param_groups.append({**group, "params": list(range(first, len(state))), "step": STEPS})
        mains.append(main)
    return {"optimizer": {"state": state, "param_groups": param_groups}, "fp32_from_fp16_params": mains}


def run(rank, folder, name, case):
    import argparse

    import megatron_core_cpu as core
    from megatron.core import dist_checkpointing, parallel_state
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
    from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer

    tensor, pipeline, is_distributed = case["tensor"], case["pipeline"], case["layout"] != "plain"
    core.start(rank, tensor, pipeline, f"file://{folder}/.group_{name}", case["data"], case["chunks"])
    tensor_rank = parallel_state.get_tensor_model_parallel_rank()
    stage = parallel_state.get_pipeline_model_parallel_rank()
    stages = {"chunks": case["chunks"], "first_layers": case["first_layers"]}
    made = [core.make_model(case["kind"], torch.bfloat16, tensor, pipeline, case["layers"], case["hidden"], chunk=chunk,
                            **stages) for chunk in range(case["chunks"])]
    config, models = made[0][0], [model for _, model in made]
    ddp_config = DistributedDataParallelConfig(use_distributed_optimizer=is_distributed, grad_reduce_in_fp32=True,
                                               overlap_grad_reduce=case["bucket"] is not None,
                                               bucket_size=case["bucket"])
    ddp = [DistributedDataParallel(config, ddp_config, model) for model in models]
    optimizer_config = OptimizerConfig(optimizer="adam", lr=1e-3, weight_decay=.1, bf16=True,
                                       params_dtype=torch.bfloat16, use_distributed_optimizer=is_distributed,
                                       clip_grad=0.0)
    optimizer = get_megatron_optimizer(optimizer_config, ddp)
    distributed = sys.modules["megatron.core.optimizer.distrib_optimizer"]
    distributed.quantize_param_shard = lambda *_: None  # nothing is fp8; megatron-core 0.12 asks for Transformer Engine
    own = torch.Generator().manual_seed(stage * tensor + tensor_rank)  # the same gradients on all data-parallel ranks
    for step in range(STEPS):
        shared = torch.Generator().manual_seed(1000 + step)  # what several ranks have needs the same gradient
        for param in (param for model in models for param in model.parameters()):
            source = own if getattr(param, "tensor_model_parallel", False) else shared
            if getattr(param, "shared_embedding", False):
                source = torch.Generator().manual_seed(2000 + 100 * tensor_rank + step)
            param.main_grad.copy_(torch.randn(param.shape, generator=source) * .1)
        optimizer.step()
    inner = optimizer.chained_optimizers[0] if hasattr(optimizer, "chained_optimizers") else optimizer
    common = {"args": arguments(argparse, case, config), "checkpoint_version": 3.0, "iteration": STEPS,
              "opt_param_scheduler": {"num_steps": STEPS * BATCH}}
    at = f"{folder}/{name}/iter_{STEPS:07}"
    plain = f"{folder}/{name}_plain/iter_{STEPS:07}/mp_rank_{tensor_rank:02}" + (
        f"_{stage:03}" if pipeline > 1 else "")
    for path in (at, plain):
        os.makedirs(path, exist_ok=True)
    keys = ["model"] if len(models) == 1 else [f"model{chunk}" for chunk in range(len(models))]
    weights = {key: {name: value for name, value in model.state_dict().items() if torch.is_tensor(value)}
               for key, model in zip(keys, models)}
    plain_state = {**common, **weights, "optimizer": plain_optimizer(models, inner)}
    if parallel_state.get_data_parallel_rank() == 0:
        torch.save(plain_state, plain + "/model_optim_rng.pt")
    sharded = {}
    for chunk, (key, model) in enumerate(zip(keys, models)):
        if len(models) > 1:
            parallel_state.set_virtual_pipeline_model_parallel_rank(chunk)
        sharded[key] = model.sharded_state_dict()
    keywords = {}
    if case["layout"] in METHODS and not knows_step(getattr(inner, METHODS[case["layout"]])):
        # This release takes every state for a part of a weight: Apex's Adam has the step in the group.
        distributed.HAVE_APEX_OR_TE = True
        for group in inner.optimizer.param_groups:
            group["step"] = STEPS
            for param in group["params"]:
                inner.optimizer.state[param].pop("step", None)
    if is_distributed:
        known = inspect.signature(inner.sharded_state_dict).parameters
        if "metadata" in known:
            keywords["metadata"] = {"distrib_optim_sharding_type": case["layout"], "chained_optim_avoid_prefix": True}
        if "sharding_type" in known:
            keywords["sharding_type"] = case["layout"]
    state = inner.sharded_state_dict(sharded[keys[0]] if len(keys) == 1 else sharded, **keywords)
    if "content_metadata" in inspect.signature(dist_checkpointing.save).parameters and "metadata" in keywords:
        dist_checkpointing.save({**common, **sharded, "optimizer": state}, at, content_metadata=keywords["metadata"])
    else:
        dist_checkpointing.save({**common, **sharded, "optimizer": state}, at)
    distributed.HAVE_APEX_OR_TE = False
    parallel_state.destroy_model_parallel()
    torch.distributed.destroy_process_group()


def run_all(rank, folder, cases):
    for name, case in cases:
        run(rank, folder, name, case)


def parse(name):
    kind, _, rest = name.partition("_")
    layout = next(layout for layout in LAYOUTS if rest.startswith(layout))
    sizes = {part[:2]: int(part[2:]) for part in rest[len(layout):].split("_") if part}
    unknown = set(sizes) - {"tp", "pp", "dp", "vp", "nl", "fl", "hs", "bk"}
    assert not unknown, f"{name}: {unknown}"
    return {"kind": kind, "layout": layout, "tensor": sizes.get("tp", 1), "pipeline": sizes.get("pp", 1),
            "data": sizes.get("dp", 1), "chunks": sizes.get("vp", 1), "layers": sizes.get("nl", 2),
            "first_layers": sizes.get("fl"), "hidden": sizes.get("hs", 16), "bucket": sizes.get("bk")}


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
    if sys.argv[1] == "--layouts":
        print(*known_layouts())
        sys.exit()
    root = os.path.abspath(sys.argv[1])
    os.makedirs(root, exist_ok=True)
    by_ranks = {}  # processes of the same number of ranks are started once
    for name in sys.argv[2:]:
        if name == "titan":
            torch.multiprocessing.spawn(make_titan, (root,), 2)
            continue
        case = parse(name)
        by_ranks.setdefault(case["tensor"] * case["pipeline"] * case["data"], []).append((name, case))
    for ranks, cases in by_ranks.items():
        torch.multiprocessing.spawn(run_all, (root, cases), ranks)
        for name, suffix in ((name, suffix) for name, _ in cases for suffix in ("", "_plain")):
            with open(f"{root}/{name}{suffix}/latest_checkpointed_iteration.txt", "w") as tracker:
                tracker.write(str(STEPS))
