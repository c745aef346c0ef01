#!/usr/bin/env python3
"""Regenerates iter_0000030: python3 make.py [FOLDER]

Two processes, the stages of a pipeline, build megatron-core's GPT model with two chunks each and save them as
Megatron-LM does. Weights depend on the layer's number in the model, which megatron-core tells each layer.
"""
import os
import re
import sys
import zlib
from argparse import Namespace

import torch
from megatron.core import parallel_state, tensor_parallel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.models.gpt.gpt_model import GPTModel
from megatron.core.transformer import TransformerConfig

STAGES, CHUNKS = 2, 2
ARGS = Namespace(num_layers=8, hidden_size=8, ffn_hidden_size=32, num_attention_heads=2, kv_channels=4,
                 max_position_embeddings=6, seq_length=6, make_vocab_size_divisible_by=12, padded_vocab_size=12,
                 tensor_model_parallel_size=1, pipeline_model_parallel_size=STAGES,
                 virtual_pipeline_model_parallel_size=CHUNKS, position_embedding_type="learned_absolute",
                 normalization="LayerNorm", layernorm_epsilon=1e-5, add_bias_linear=True, bias_gelu_fusion=True,
                 swiglu=False, untie_embeddings_and_output_weights=False)


def fill(model):
    """Random weights that depend on their name in the whole model. All elements of norm 1's bias are the layer."""
    numbers = [layer.layer_number - 1 for layer in model.decoder.layers]
    for name, parameter in model.named_parameters():
        name = re.sub(r"layers\.(\d+)", lambda match: f"layers.{numbers[int(match[1])]}", name)
        name = name.replace("output_layer", "embedding.word_embeddings")  # tied
        random = torch.Generator().manual_seed(zlib.crc32(name.encode()))
        parameter.data = torch.randn(parameter.shape, generator=random)
        if name.endswith("input_layernorm.bias"):
            parameter.data.fill_(int(re.search(r"layers\.(\d+)", name)[1]))


def save_stage(stage, folder):
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="29517")
    torch.distributed.init_process_group("gloo", rank=stage, world_size=STAGES)
    parallel_state.initialize_model_parallel(pipeline_model_parallel_size=STAGES,
                                             virtual_pipeline_model_parallel_size=CHUNKS)
    torch.Tensor.cuda = lambda tensor, *_: tensor  # tied embeddings move to the GPU to be summed
    config = TransformerConfig(
        num_layers=ARGS.num_layers, hidden_size=ARGS.hidden_size, num_attention_heads=ARGS.num_attention_heads,
        pipeline_model_parallel_size=STAGES, virtual_pipeline_model_parallel_size=CHUNKS,
        pipeline_dtype=torch.float32, use_cpu_initialization=True)
    state = {"args": ARGS, "checkpoint_version": 3.0, "iteration": 30}
    for chunk in range(CHUNKS):
        model = GPTModel(
            config, get_gpt_layer_local_spec(), ARGS.padded_vocab_size, ARGS.max_position_embeddings,
            pre_process=parallel_state.is_pipeline_first_stage(ignore_virtual=False, vp_stage=chunk),
            post_process=parallel_state.is_pipeline_last_stage(ignore_virtual=False, vp_stage=chunk),
            share_embeddings_and_output_weights=True, vp_stage=chunk)
        fill(model)
        state[f"model{chunk}"] = model.state_dict_for_save_checkpoint()
    path = f"{folder}/iter_0000030/mp_rank_00_{stage:03d}"
    os.makedirs(path, exist_ok=True)
    torch.save(state, path + "/model_optim_rng.pt")


if __name__ == "__main__":
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    torch.multiprocessing.spawn(save_stage, (folder,), STAGES)
    with open(folder + "/latest_checkpointed_iteration.txt", "w") as tracker:
        tracker.write("30")
