#!/usr/bin/env python3
"""Regenerates the models of this folder: python3 make.py [FOLDER]

Weights are random, several times larger than initial ones, and exact in fp16. The reference runs in float64 throughout:
transformers computes norms, softmax and rotary angles in fp32 for any dtype of the model, so float32 is replaced by
float64 while it runs. Prints how far PyTorch's own fp32 run is from the reference.
"""
import json
import os
import sys

import torch
import transformers
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM

MODELS = {
    "gpt2_relu": {"model_type": "gpt2", "vocab_size": 96, "n_positions": 40, "n_embd": 24, "n_layer": 2, "n_head": 3,
                  "n_inner": 56, "activation_function": "relu", "tie_word_embeddings": False, "resid_pdrop": 0.0,
                  "embd_pdrop": 0.0, "attn_pdrop": 0.0, "bos_token_id": 0, "eos_token_id": 0},
    "gpt2_gelu": {"model_type": "gpt2", "vocab_size": 96, "n_positions": 40, "n_embd": 24, "n_layer": 2, "n_head": 2,
                  "activation_function": "gelu", "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
                  "bos_token_id": 0, "eos_token_id": 0},
    "llama3": {"model_type": "llama", "vocab_size": 128, "hidden_size": 40, "intermediate_size": 88,
               "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
               "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "tie_word_embeddings": True,
               "attention_bias": True, "mlp_bias": True, "bos_token_id": 1, "eos_token_id": [2, 5],
               "rope_parameters": {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0,
                                   "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                   "original_max_position_embeddings": 16}},
    "qwen3": {"model_type": "qwen3", "vocab_size": 128, "hidden_size": 48, "intermediate_size": 96,
              "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
              "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "tie_word_embeddings": True,
              "use_sliding_window": True, "sliding_window": 7, "max_window_layers": 1,
              "bos_token_id": 1, "eos_token_id": 2,
              "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0}},
    "neox_serial": {"model_type": "gpt_neox", "vocab_size": 96, "hidden_size": 32, "intermediate_size": 72,
                    "num_hidden_layers": 2, "num_attention_heads": 2, "hidden_act": "gelu_new",
                    "max_position_embeddings": 64, "use_parallel_residual": False, "attention_bias": False,
                    "tie_word_embeddings": True, "bos_token_id": 0, "eos_token_id": 0,
                    "rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0,
                                        "partial_rotary_factor": 0.5}},
}
PICKLED = ("gpt2_gelu", "neox_serial")
SEQUENCES, LENGTH = 2, 24
BUFFER = {"h.0.attn.bias": torch.ones(1, 1, 40, 40, dtype=torch.uint8), "h.0.attn.masked_bias": torch.tensor(-1e4)}


def random_weights(model, generator):
    for name, parameter in model.named_parameters():
        draw = torch.randn(parameter.shape, generator=generator)
        if "norm" in name or ".ln_" in name:
            draw = 0.2 * draw + (1 if name.endswith("weight") else 0)
        elif "embed" in name or "wte" in name or "wpe" in name or "lm_head" in name:
            draw = 0.25 * draw
        else:
            draw = 0.15 * draw
        parameter.data.copy_(draw.half())


class DoubleEverywhere:
    """Within this context, float32 means float64."""

    def __enter__(self):
        self.saved = (torch.float32, torch.float, torch.Tensor.float)
        torch.float32 = torch.float = torch.float64
        torch.Tensor.float = torch.Tensor.double

    def __exit__(self, *_):
        torch.float32, torch.float, torch.Tensor.float = self.saved


def renew_rotary(model):
    """Recomputes rotary frequencies in the dtype that float32 stands for."""
    for module in model.modules():
        rotary = getattr(module, "rotary_emb", None)
        if rotary is not None:
            module.rotary_emb = type(rotary)(model.config)


def run(model, batch):
    model.zero_grad()
    logits = model(input_ids=batch["input_ids"], use_cache=False).logits
    losses = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten(), reduction="none")
    losses = losses.view(batch["labels"].shape)
    losses.mean().backward()
    gradients = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    mask = batch["loss_mask"].to(losses.dtype)
    return {"logits": logits.detach(), "token_losses": losses.detach(), "loss": losses.mean().detach(),
            "masked_loss": ((losses * mask).sum() / mask.sum()).detach(),
            "grad_norm": torch.sqrt(sum((g**2).sum() for g in gradients.values())),
            **{"grad." + name: g for name, g in gradients.items()}}


def rotary_tables(model):
    for module in model.modules():
        rotary = getattr(module, "rotary_emb", None)
        if rotary is not None:
            positions = torch.tensor([[0, 1, 2, 3, 23]])
            cos, sin = rotary(torch.zeros(1), positions)
            return {"inv_freq": rotary.inv_freq.tolist(), "positions": positions[0].tolist(),
                    "cos": cos[0].tolist(), "sin": sin[0].tolist()}
    return None


def write_pickled(path, model):
    """Writes the same weights as files of torch.save, like transformers before safetensors."""
    os.makedirs(path + "_bin", exist_ok=True)
    model.config.save_pretrained(path + "_bin")
    state = {key: value.half() for key, value in model.state_dict().items()}
    if "gpt_neox.embed_in.weight" in state:  # transformers 5 renames it on save
        state["embed_out.weight"] = state.pop("lm_head.weight")
    if path.endswith("gpt2_gelu"):  # without prefix, with buffers, the tied output layer in the same storage
        state = {key.removeprefix("transformer."): value for key, value in state.items()}
        state = BUFFER | state | {"lm_head.weight": state["wte.weight"]}
        torch.save(state, os.path.join(path + "_bin", "pytorch_model.bin"))
        return
    names = sorted(state)  # two shards in the format of PyTorch before 1.6
    weight_map = {}
    for number, part in enumerate((names[:9], names[9:])):
        file = f"pytorch_model-{number + 1:05d}-of-00002.bin"
        torch.save({key: state[key] for key in part}, os.path.join(path + "_bin", file),
                   _use_new_zipfile_serialization=False)
        weight_map |= {key: file for key in part}
    with open(os.path.join(path + "_bin", "pytorch_model.bin.index.json"), "w") as file:
        json.dump({"metadata": {}, "weight_map": weight_map}, file)
        file.write("\n")


def make(folder, name, settings, seed):
    generator = torch.Generator().manual_seed(seed)
    config = AutoConfig.for_model(**settings)
    config._attn_implementation = "eager"
    model = AutoModelForCausalLM.from_config(config).eval()
    random_weights(model, generator)
    path = os.path.join(folder, name)
    model.half().save_pretrained(path)
    if name in PICKLED:
        write_pickled(path, model)
    model.float()
    renew_rotary(model)  # half() rounded its frequencies
    ids = torch.randint(0, config.vocab_size, (SEQUENCES, LENGTH + 1), generator=generator)
    batch = {"input_ids": ids[:, :-1].contiguous(), "labels": ids[:, 1:].contiguous(),
             "loss_mask": (torch.rand(SEQUENCES, LENGTH, generator=generator) < 0.85).float()}
    save_file(batch, os.path.join(path, "batch.safetensors"))
    single = run(model, batch)
    with DoubleEverywhere():
        model.double()
        renew_rotary(model)
        tables = rotary_tables(model)
        reference = run(model, batch)
    exact = {"loss", "masked_loss", "grad_norm", "token_losses"}
    save_file({key: (value if key in exact else value.to(torch.float32)).contiguous()
               for key, value in reference.items()}, os.path.join(path, "golden.safetensors"))
    if tables:
        with open(os.path.join(path, "rope.json"), "w") as file:
            json.dump(tables, file)
            file.write("\n")
    far = {key: ((single[key] - value).abs().max() / value.abs().max()).item() for key, value in reference.items()}
    worst = max((value, key) for key, value in far.items() if key.startswith("grad."))
    print(f"{name}: loss {reference['loss']:.6f} ({far['loss']:.1e}), logits {far['logits']:.1e}, "
          f"gradients {worst[0]:.1e} ({worst[1]}), {model.num_parameters()} parameters")


if __name__ == "__main__":
    print(f"python {sys.version.split()[0]}, torch {torch.__version__}, transformers {transformers.__version__}")
    target = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    for number, (name, settings) in enumerate(MODELS.items()):
        make(target, name, settings, 1600 + number)
