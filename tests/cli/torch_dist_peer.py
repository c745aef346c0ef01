"""The Python part of torch_dist_long.sh, with megatron-core and transformers on the CPU:

    python torch_dist_peer.py CHECKPOINT HF_FOLDER [NEXT_HF_FOLDER BATCH LEARNING_RATE WEIGHT_DECAY]

CHECKPOINT is a torch_dist checkpoint that mtl-convert wrote, HF_FOLDER the same model. megatron-core loads the
checkpoint with dist_checkpointing into a GPTModel and its optimizer, and computes the logits that transformers computes
from HF_FOLDER. Then it takes one step with the samples in BATCH (lines of mtl-data order --tokens), and the weights
must be those in NEXT_HF_FOLDER, where mtl-train took that step.
"""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden"))
import megatron_core_cpu as core  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from megatron.core import dist_checkpointing  # noqa: E402
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig  # noqa: E402
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec  # noqa: E402
from megatron.core.models.gpt.gpt_model import GPTModel  # noqa: E402
from megatron.core.optimizer import DistributedOptimizer, OptimizerConfig, get_megatron_optimizer  # noqa: E402
from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler  # noqa: E402
from megatron.core.transformer.transformer_config import TransformerConfig  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from torch_peer import as_hf  # noqa: E402


set_states = DistributedOptimizer._set_main_param_and_optimizer_states


def set_states_and_step(self, param, tensors):
    """In place of a method of megatron-core 0.16.1, which looks for torch.optim.AdamW's step here in vain. Its
    load_state_dict() has let all parameters share one step, which each of their updates would increment."""
    group, order = self.model_param_group_index_map[param]
    state = self.optimizer.state[self.optimizer.param_groups[group]["params"][order]]
    state["step"] = state["step"].clone()
    set_states(self, param, {**tensors, "step": state["step"]})


DistributedOptimizer._set_main_param_and_optimizer_states = set_states_and_step


def make_model(args):
    """The model that a checkpoint's arguments describe, with the local implementation of layers."""
    is_rotary = args.position_embedding_type == "rope"
    config = TransformerConfig(
        num_layers=args.num_layers, hidden_size=args.hidden_size, num_attention_heads=args.num_attention_heads,
        num_query_groups=args.num_query_groups, kv_channels=args.kv_channels, ffn_hidden_size=args.ffn_hidden_size,
        normalization=args.normalization, layernorm_epsilon=args.norm_epsilon, gated_linear_unit=args.swiglu,
        activation_func=torch.nn.functional.silu if args.swiglu else core.gelu_tanh,
        add_bias_linear=args.add_bias_linear, params_dtype=args.params_dtype, pipeline_dtype=args.params_dtype,
        bf16=args.bf16, use_cpu_initialization=True, hidden_dropout=0, attention_dropout=0,
        gradient_accumulation_fusion=False, bias_activation_fusion=False, masked_softmax_fusion=False,
        persist_layer_norm=False, apply_rope_fusion=False, bias_dropout_fusion=False)
    model = GPTModel(config, get_gpt_layer_local_spec(normalization=args.normalization), args.padded_vocab_size,
                     args.max_position_embeddings, position_embedding_type="rope" if is_rotary else "learned_absolute",
                     share_embeddings_and_output_weights=not args.untie_embeddings_and_output_weights,
                     rotary_base=args.rotary_base if is_rotary else 10000)
    return config, model.to(args.params_dtype)


def load(folder, args, rate, decay):
    """The model and the distributed optimizer, loaded from the checkpoint as Megatron-LM's load_checkpoint does."""
    config, model = make_model(args)
    ddp_config = DistributedDataParallelConfig(use_distributed_optimizer=True, grad_reduce_in_fp32=True)
    ddp = DistributedDataParallel(config, ddp_config, model)
    optimizer = get_megatron_optimizer(
        OptimizerConfig(optimizer="adam", lr=rate, weight_decay=decay, bf16=args.bf16, params_dtype=args.params_dtype,
                        use_distributed_optimizer=True, clip_grad=1.0), [ddp])
    ddp.zero_grad_buffer()
    optimizer.step()  # so that torch.optim.AdamW has states to load into; Transformer Engine's makes its own
    metadata = dist_checkpointing.load_content_metadata(folder)
    sharded = {"model": model.sharded_state_dict(metadata=metadata)}
    sharded["optimizer"] = optimizer.sharded_state_dict(sharded["model"], is_loading=True, metadata=metadata)
    state = dist_checkpointing.load(sharded, folder)
    assert state["checkpoint_version"] == 3.0
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    scheduler = OptimizerParamScheduler(optimizer, 0.0, rate, rate, 0, 100, "constant", decay, decay, 100, "constant",
                                        use_checkpoint_opt_param_scheduler=False, override_opt_param_scheduler=True)
    scheduler.load_state_dict(state["opt_param_scheduler"])
    assert scheduler.num_steps == args.consumed_train_samples
    return ddp, model, optimizer


def optimizer_tensors(model, optimizer):
    """Main weights and moments by parameter name, in the parameters' shapes."""
    out, inner = {}, optimizer.chained_optimizers[0]
    for name, param in model.named_parameters():
        states = inner._get_main_param_and_optimizer_states(param)
        out[name] = {key: states[key].detach().reshape(param.shape) for key in ("param", "exp_avg", "exp_avg_sq")}
    return out


def hf_tensors(model, args, vocabulary, tensors=None):
    """The model's tensors, or others with the same names, by Hugging Face's names."""
    state = {name: param.detach() for name, param in model.named_parameters()} if tensors is None else tensors
    return as_hf(state, args, vocabulary)


def check_logits(model, args, folder, vocabulary):
    reference = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    ids = torch.randint(0, vocabulary, (2, args.max_position_embeddings), generator=torch.Generator().manual_seed(7))
    with torch.no_grad():
        found = model(ids, *core.batch_of(ids)).float()[..., :vocabulary]
        expected = reference(ids).logits
    difference = ((found - expected).abs().max() / expected.abs().max()).item()
    limit = 2e-2 if args.bf16 else 2e-6
    assert difference < limit, f"logits differ by {difference}"
    return difference


def take_step(ddp, optimizer, samples):
    ids = torch.tensor(samples)
    ddp.zero_grad_buffer()
    optimizer.zero_grad()
    ddp(ids[:, :-1], *core.batch_of(ids[:, :-1]), labels=ids[:, 1:]).mean().backward()
    ddp.finish_grad_sync()
    success, norm, _ = optimizer.step()
    assert success
    return norm


def main():
    checkpoint, hf_folder = sys.argv[1:3]
    with open(checkpoint + "/latest_checkpointed_iteration.txt") as tracker:
        folder = f"{checkpoint}/iter_{int(tracker.read()):07d}"
    core.start(0)
    args = dist_checkpointing.load_common_state_dict(folder)["args"]
    args.transformer_impl = "local"  # the names of the model's parameters here
    exact = load_file(hf_folder + "/model.safetensors")
    table = next(name for name in exact if name.endswith(("wte.weight", "embed_tokens.weight")))
    vocabulary, rate, decay = exact[table].shape[0], *(map(float, sys.argv[5:7]) if len(sys.argv) > 3 else (0, 0))
    ddp, model, optimizer = load(folder, args, rate, decay)
    for name, weight in hf_tensors(model, args, vocabulary).items():
        assert torch.equal(weight, exact[name].to(weight.dtype)), name
    states = optimizer_tensors(model, optimizer)
    for name, main in hf_tensors(model, args, vocabulary, {n: s["param"] for n, s in states.items()}).items():
        assert torch.equal(main, exact[name]), f"main weight {name}"
    assert all(value.abs().max() > 0 for one in states.values() for value in (one["exp_avg"], one["exp_avg_sq"]))
    print("logits differ by", check_logits(model, args, hf_folder, vocabulary))
    if len(sys.argv) == 3:
        return
    with open(sys.argv[4]) as lines:
        samples = [json.loads(line)["tokens"] for line in lines]
    print("gradient norm", take_step(ddp, optimizer, samples))
    found, expected = hf_tensors(model, args, vocabulary), load_file(sys.argv[3] + "/model.safetensors")
    worst = 0
    for name, tensor in expected.items():
        update = (tensor - exact[name]).abs().max()
        assert update > 0, name
        worst = max(worst, ((found[name] - tensor).abs().max() / update).item())
    print("weights differ by", worst, "of the update")
    assert worst < 1e-3


main()
