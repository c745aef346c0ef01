"""Makes this folder's checkpoints: python make.py FOLDER, with megatron-core 0.16.1, on the CPU.

megatron-core's own model, buffers and distributed optimizer run, and its save_parameter_state() writes
distrib_optim.pt. This script takes the optimizer's steps with random gradients, so that pipeline stages need no
schedule, and writes model_optim_rng.pt with the keys that Megatron-LM's save_checkpoint writes. FOLDER/NAME_plain is
the same checkpoint as the optimizer without --use-distributed-optimizer would save it: the moments and main weights of
each parameter, as the distributed optimizer itself returns them.
"""
import argparse
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import megatron_core_cpu as core  # noqa: E402
import torch  # noqa: E402
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig  # noqa: E402
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer  # noqa: E402

STEPS, BATCH = 30, 8
CASES = {"llama_tp2": {"kind": "llama", "tensor": 2, "bucket_size": 1000},
         "gpt_pp2": {"kind": "gpt", "pipeline": 2},
         "gpt_fp32": {"kind": "gpt", "dtype": torch.float32}}


def arguments(case, config, dtype):
    is_llama = case["kind"] == "llama"
    return argparse.Namespace(
        num_layers=config.num_layers, hidden_size=config.hidden_size, ffn_hidden_size=config.ffn_hidden_size,
        num_attention_heads=config.num_attention_heads, kv_channels=config.kv_channels,
        group_query_attention=is_llama, num_query_groups=config.num_query_groups,
        max_position_embeddings=core.SEQUENCE, seq_length=core.SEQUENCE, padded_vocab_size=48,
        tensor_model_parallel_size=case.get("tensor", 1), pipeline_model_parallel_size=case.get("pipeline", 1),
        virtual_pipeline_model_parallel_size=None, data_parallel_size=1, context_parallel_size=1,
        position_embedding_type="rope" if is_llama else "learned_absolute", rotary_base=10000, rotary_percent=1.0,
        normalization=config.normalization, norm_epsilon=config.layernorm_epsilon, swiglu=is_llama,
        add_bias_linear=config.add_bias_linear, bias_gelu_fusion=not is_llama,
        untie_embeddings_and_output_weights=is_llama, transformer_impl="local", hidden_dropout=0.0,
        attention_dropout=0.0, bf16=dtype == torch.bfloat16, fp16=False, params_dtype=dtype,
        use_distributed_optimizer=True, overlap_grad_reduce="bucket_size" in case, ddp_num_buckets=None,
        ddp_bucket_size=case.get("bucket_size"), iteration=STEPS, consumed_train_samples=STEPS * BATCH,
        consumed_valid_samples=0)


def plain_optimizer(model, optimizer, dtype):
    """The optimizer's state as it is without the distributed optimizer: parameters by number, matrices first."""
    state, param_groups, mains = {}, [], []
    for is_vector, group in enumerate(optimizer.state_dict()["optimizer"]["param_groups"]):
        first, main = len(state), []
        for param in model.parameters():
            if (param.dim() == 1) != bool(is_vector):
                continue
            one = optimizer._get_main_param_and_optimizer_states(param)
            state[len(state)] = {key: one[key].detach().reshape(param.shape) for key in ("exp_avg", "exp_avg_sq")}
            main.append(one["param"].detach().reshape(param.shape))
        param_groups.append({**group, "params": list(range(first, len(state)))})
        mains.append(main)
    inner = {"state": state, "param_groups": param_groups}
    return inner if dtype == torch.float32 else {"optimizer": inner, "fp32_from_fp16_params": mains}


def save(folder, state):
    os.makedirs(folder)
    torch.save(state, folder + "/model_optim_rng.pt")


def run(rank, folder, name, case):
    tensor, pipeline, dtype = case.get("tensor", 1), case.get("pipeline", 1), case.get("dtype", torch.bfloat16)
    core.start(rank, tensor, pipeline)
    config, model = core.make_model(case["kind"], dtype, tensor, pipeline)
    ddp_config = DistributedDataParallelConfig(
        use_distributed_optimizer=True, grad_reduce_in_fp32=True, overlap_grad_reduce="bucket_size" in case,
        bucket_size=case.get("bucket_size"))
    ddp = DistributedDataParallel(config, ddp_config, model)
    optimizer_config = OptimizerConfig(optimizer="adam", lr=1e-3, weight_decay=.1, bf16=dtype == torch.bfloat16,
                                       params_dtype=dtype, use_distributed_optimizer=True, clip_grad=0.0)
    optimizer = get_megatron_optimizer(optimizer_config, [ddp])
    own = torch.Generator().manual_seed(rank)
    for step in range(STEPS):
        shared = torch.Generator().manual_seed(1000 + step)  # what several ranks have needs the same gradient
        for param in model.parameters():
            if getattr(param, "shared_embedding", False):
                source = torch.Generator().manual_seed(2000 + step)
            else:
                source = own if getattr(param, "tensor_model_parallel", False) else shared
            param.main_grad.copy_(torch.randn(param.shape, generator=source) * .1)
        optimizer.step()
    folder_name = f"mp_rank_{rank % tensor:02}" + (f"_{rank // tensor:03}" if pipeline > 1 else "")
    state = {"args": arguments(case, config, dtype), "checkpoint_version": 3.0, "iteration": STEPS,
             "model": {key: value for key, value in model.state_dict().items() if torch.is_tensor(value)},
             "opt_param_scheduler": {"num_steps": STEPS * BATCH}}
    at = f"{folder}/{name}/iter_{STEPS:07}/{folder_name}"
    os.makedirs(at)
    inner = optimizer.chained_optimizers[0] if hasattr(optimizer, "chained_optimizers") else optimizer
    inner.save_parameter_state(at + "/distrib_optim.pt")
    torch.save({**state, "optimizer": inner.state_dict()}, at + "/model_optim_rng.pt")
    state["args"].use_distributed_optimizer = False
    save(f"{folder}/{name}_plain/iter_{STEPS:07}/{folder_name}",
         {**state, "optimizer": plain_optimizer(model, inner, dtype)})
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    for name, case in CASES.items():
        ranks = case.get("tensor", 1) * case.get("pipeline", 1)
        torch.multiprocessing.spawn(run, (sys.argv[1], name, case), ranks)
        for suffix in ("", "_plain"):
            with open(f"{sys.argv[1]}/{name}{suffix}/latest_checkpointed_iteration.txt", "w") as tracker:
                tracker.write(str(STEPS))
