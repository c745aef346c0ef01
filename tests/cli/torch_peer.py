"""The Python part of torch_long.sh: python torch_peer.py HF_FOLDER MEGATRON_FOLDER

Joins the files of all ranks by megatron-core's rules, in numpy's order of axes, and compares every element with the
Hugging Face folder that was converted.
"""
import glob
import re
import sys

import torch
from safetensors.torch import load_file


def load_ranks(folder):
    """The models of all ranks: ranks[tensor][stage][chunk]."""
    ranks = {}
    for path in glob.glob(folder + "/release/mp_rank_*/model_optim_rng.pt"):
        tensor, stage = re.search(r"mp_rank_(\d+)(?:_(\d+))?", path).groups()
        state = torch.load(path, weights_only=False)
        assert state["checkpoint_version"] == 3.0 and state["iteration"] == 0
        args = state["args"]
        chunks = args.virtual_pipeline_model_parallel_size
        models = ["model"] if chunks is None else [f"model{chunk}" for chunk in range(chunks)]
        assert [key for key in state if key.startswith("model")] == models
        ranks.setdefault(int(tensor), {})[int(stage or 0)] = [state[model] for model in models]
    assert len(ranks) == args.tensor_model_parallel_size
    assert all(len(stages) == args.pipeline_model_parallel_size for stages in ranks.values())
    return ranks, args


def join(ranks, args):
    """One model: layers numbered over all chunks of all stages, tensor-parallel parts concatenated."""
    whole, stages, chunks = {}, args.pipeline_model_parallel_size, args.virtual_pipeline_model_parallel_size or 1
    assert chunks == 1 or args.num_layers_per_virtual_pipeline_stage * stages * chunks == args.num_layers
    for position in range(stages * chunks):
        chunk, stage = divmod(position, stages)
        for name in ranks[0][stage][chunk]:
            parts = [ranks[tensor][stage][chunk][name] for tensor in sorted(ranks)]
            if name.endswith(("linear_qkv.weight", "linear_qkv.bias", "word_embeddings.weight", "output_layer.weight")):
                joined = torch.cat(parts)
            elif re.search(r"linear_fc1\.(weight|bias)$", name):
                halves = [part.chunk(2) if args.swiglu else (part,) for part in parts]
                joined = torch.cat([torch.cat(same) for same in zip(*halves)])
            elif name.endswith(("linear_proj.weight", "linear_fc2.weight")):
                joined = torch.cat(parts, dim=1)
            else:
                joined = parts[0]
                assert all(torch.equal(part, joined) for part in parts), name
            layer = re.match(r"decoder\.layers\.(\d+)\.(.*)", name)
            if layer:
                number = int(layer[1]) + position * args.num_layers // (stages * chunks)
                name = f"decoder.layers.{number}.{layer[2]}"
            assert name not in whole, name
            whole[name] = joined
    return whole


def norm(te, local, kind, args):
    return f"{te}.layer_norm_{kind}" if args.transformer_impl == "transformer_engine" else f"{local}.{kind}"


def split_qkv(tensor, args):
    """Queries, keys and values of rows that hold, for each group, its queries, its key, its value."""
    groups, heads, width = args.num_query_groups, args.num_attention_heads, args.kv_channels
    rows = tensor.reshape(groups, heads // groups + 2, width, *tensor.shape[1:])
    return [part.reshape(-1, *tensor.shape[1:]) for part in (rows[:, :-2], rows[:, -2], rows[:, -1])]


def as_hf(model, args, vocabulary):
    """Hugging Face's names and orders: GPT-2's with learned positions, otherwise Llama's."""
    out, is_gpt2 = {}, args.position_embedding_type == "learned_absolute"
    for layer in range(args.num_layers):
        at, hf = f"decoder.layers.{layer}.", f"transformer.h.{layer}." if is_gpt2 else f"model.layers.{layer}."
        norms = {"ln_1": norm("self_attention.linear_qkv", "input_layernorm", "{}", args),
                 "ln_2": norm("mlp.linear_fc1", "pre_mlp_layernorm", "{}", args)}
        if is_gpt2:
            for kind in ("weight", "bias"):
                for ours, theirs in norms.items():
                    out[f"{hf}{ours}.{kind}"] = model[at + theirs.format(kind)]
                out[f"{hf}attn.c_attn.{kind}"] = torch.cat(split_qkv(model[f"{at}self_attention.linear_qkv.{kind}"], args)).T
                out[f"{hf}attn.c_proj.{kind}"] = model[f"{at}self_attention.linear_proj.{kind}"].T
                out[f"{hf}mlp.c_fc.{kind}"] = model[f"{at}mlp.linear_fc1.{kind}"].T
                out[f"{hf}mlp.c_proj.{kind}"] = model[f"{at}mlp.linear_fc2.{kind}"].T
            continue
        out[hf + "input_layernorm.weight"] = model[at + norms["ln_1"].format("weight")]
        out[hf + "post_attention_layernorm.weight"] = model[at + norms["ln_2"].format("weight")]
        for kind in ("weight", "bias") if args.add_qkv_bias else ("weight",):
            for role, part in zip("qkv", split_qkv(model[f"{at}self_attention.linear_qkv.{kind}"], args)):
                out[f"{hf}self_attn.{role}_proj.{kind}"] = part
        if args.qk_layernorm:
            for role in "qk":
                out[f"{hf}self_attn.{role}_norm.weight"] = model[f"{at}self_attention.{role}_layernorm.weight"]
        out[hf + "self_attn.o_proj.weight"] = model[at + "self_attention.linear_proj.weight"]
        out[hf + "mlp.gate_proj.weight"], out[hf + "mlp.up_proj.weight"] = model[at + "mlp.linear_fc1.weight"].chunk(2)
        out[hf + "mlp.down_proj.weight"] = model[at + "mlp.linear_fc2.weight"]
    table = model["embedding.word_embeddings.weight"]
    assert table.shape[0] == args.padded_vocab_size and not table[vocabulary:].any()
    out["transformer.wte.weight" if is_gpt2 else "model.embed_tokens.weight"] = table[:vocabulary]
    head = model.get("output_layer.weight")
    if args.untie_embeddings_and_output_weights:
        out["lm_head.weight"] = head[:vocabulary]
    else:
        assert (head is None) == (args.pipeline_model_parallel_size == 1) and (head is None or torch.equal(head, table))
    final = "transformer.ln_f" if is_gpt2 else "model.norm"
    out[final + ".weight"] = model["decoder.final_layernorm.weight"]
    if is_gpt2:
        out[final + ".bias"] = model["decoder.final_layernorm.bias"]
        out["transformer.wpe.weight"] = model["embedding.position_embeddings.weight"]
    return out


def main():
    expected = load_file(sys.argv[1] + "/model.safetensors")
    ranks, args = load_ranks(sys.argv[2])
    table = next(name for name in expected if name.endswith(("wte.weight", "embed_tokens.weight")))
    found = as_hf(join(ranks, args), args, expected[table].shape[0])
    assert set(found) == set(expected), set(found) ^ set(expected)
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype and torch.equal(found[name], tensor), name


if __name__ == "__main__":
    main()
