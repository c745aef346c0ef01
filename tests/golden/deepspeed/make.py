"""Makes the checkpoints in this folder with DeepSpeed itself: deepspeed.initialize(), two optimizer steps, and
engine.save_checkpoint(), on the CPU with gloo. README.md describes the cases.

  DS_BUILD_OPS=0 pip install deepspeed==0.19.8 torch safetensors      # in a scratch environment
  python make.py OUT_FOLDER [CASE ...]

The modules have the names and shapes of Megatron-DeepSpeed's and GPT-NeoX's, but not their arithmetic: the loss is the
sum over all parameters of parameter * noise. So gradients, moments and weights are those of DeepSpeed's optimizers.
What mtl must read comes from DeepSpeed's own functions before it saves (safe_get_full_fp32_param(),
safe_get_full_optimizer_state()), not from the files.
"""
import argparse
import json
import os
import shutil
import sys
import types
import zlib

import torch

C, HEADS, LAYERS, VOCAB, POSITIONS, FFN = 16, 4, 2, 32, 8, 32
HEAD_DIM = C // HEADS


def noise(name, shape):
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    return torch.randn(shape, generator=generator)


class Spec:
    """A parameter: whole tensors by the reference's name, the axis that tensor parallelism cuts, and how to merge."""

    def __init__(self, parts, axis=None, merge="same", groups=None):
        self.parts, self.axis, self.merge = parts, axis, merge  # parts: [(reference name, shape)]
        self.groups = groups  # rows are GROUP, (rows of each part), or the parts one after the other on every rank

    def cut(self, of, tp, rank):
        pieces = [of(name, shape) for name, shape in self.parts]
        if self.groups:
            rows = torch.cat([piece.unflatten(0, (self.groups, -1)) for piece in pieces], 1)
            return rows.flatten(0, 1).chunk(tp)[rank]
        if self.axis is not None:
            pieces = [piece.chunk(tp, self.axis)[rank] for piece in pieces]
        return torch.cat(pieces)

    def values(self, tp, rank):
        is_norm = "norm" in self.parts[0][0] and self.parts[0][0].endswith("weight")
        return self.cut(lambda name, shape: (1 if is_norm else 0) + 0.1 * noise(name, shape), tp, rank)

    def gradient(self, tp, rank):
        tag = f"/{rank}" if self.merge == "mean" else ""  # so that the ranks' copies drift apart
        return self.cut(lambda name, shape: noise(name + "/gradient" + tag, shape), tp, rank)


class Leaves(torch.nn.Module):
    """A tree of modules with the parameters {dotted name: Spec}."""

    def __init__(self, specs, tp, rank, buffers=()):
        super().__init__()
        self.specs = specs
        for name, spec in specs.items():
            self.place(name).register_parameter(name.split(".")[-1], torch.nn.Parameter(spec.values(tp, rank)))
            self.find(name).gradient = spec.gradient(tp, rank)
            self.find(name).tensor_model_parallel = spec.axis is not None  # as Megatron marks it
        for name, value in buffers:
            self.place(name).register_buffer(name.split(".")[-1], value)

    def place(self, name):
        module = self
        for part in name.split(".")[:-1]:
            if part not in module._modules:
                module.add_module(part, torch.nn.Module())
            module = module._modules[part]
        return module

    def find(self, name):
        return getattr(self.place(name), name.split(".")[-1])

    def forward(self, x):
        for name in self.specs:
            parameter = self.find(name)
            x = x + (parameter * parameter.gradient.to(parameter.dtype)).sum().to(x.dtype)
        return x

    @property
    def word_embeddings_weight(self):
        return self.find("word_embeddings.weight")


def linear(prefix, reference, rows, columns, axis, bias=True, merge="same"):
    out = {f"{prefix}.weight": Spec([(f"{reference}.weight", (rows, columns))], axis)}
    if bias:
        out[f"{prefix}.bias"] = Spec([(f"{reference}.bias", (rows,))], 0 if axis == 0 else None, merge)
    return out


def norm(prefix, reference, bias=True, merge="same", weight="weight"):
    out = {f"{prefix}.{weight}": Spec([(f"{reference}.weight", (C,))], merge=merge)}
    if bias:
        out[f"{prefix}.bias"] = Spec([(f"{reference}.bias", (C,))], merge=merge)
    return out


def neox_block(layer):
    """A block of GPT-NeoX with its defaults; the parallel residual adds the ranks' biases of row-parallel linears."""
    to = f"gpt_neox.layers.{layer}."
    return {
        **norm("input_layernorm", to + "input_layernorm", merge="mean"),
        **linear("attention.query_key_value", to + "attention.query_key_value", 3 * C, C, 0),
        **linear("attention.dense", to + "attention.dense", C, C, 1, merge="sum"),
        **norm("post_attention_layernorm", to + "post_attention_layernorm", merge="mean"),
        **linear("mlp.dense_h_to_4h", to + "mlp.dense_h_to_4h", FFN, C, 0),
        **linear("mlp.dense_4h_to_h", to + "mlp.dense_4h_to_h", C, FFN, 1, merge="sum"),
    }


def llama_block(layer, groups):
    """A block of GPT-NeoX with RMSNorm, grouped queries ([queries | keys | values]) and SwiGLU ([up | gate])."""
    to = f"model.layers.{layer}."
    return {
        **norm("input_layernorm", to + "input_layernorm", bias=False, weight="scale"),
        "attention.query_key_value.weight": Spec([(to + "self_attn.q_proj.weight", (C, C)),
                                                  (to + "self_attn.k_proj.weight", (groups * HEAD_DIM, C)),
                                                  (to + "self_attn.v_proj.weight", (groups * HEAD_DIM, C))], 0),
        "attention.dense.weight": Spec([(to + "self_attn.o_proj.weight", (C, C))], 1),
        **norm("post_attention_layernorm", to + "post_attention_layernorm", bias=False, weight="scale"),
        "mlp.linear1.weight": Spec([(to + "mlp.up_proj.weight", (FFN, C)), (to + "mlp.gate_proj.weight", (FFN, C))], 0),
        "mlp.linear2.weight": Spec([(to + "mlp.down_proj.weight", (C, FFN))], 1),
    }


def gated_block(layer, groups, mlp):
    """A block of GPT-NeoX with RMSNorm, grouped queries and a gated MLP: llama_block()'s, the two matrices before
    0d4bdb96 ("gated", mlp_type llama), or GEGLU's single one with biases, [up | gate] on every rank."""
    if mlp == "sequential":
        return llama_block(layer, groups)
    to = f"model.layers.{layer}."
    out = {name: spec for name, spec in llama_block(layer, groups).items() if "mlp" not in name}
    if mlp == "gated":
        return out | {"mlp.w1.weight": Spec([(to + "mlp.gate_proj.weight", (FFN, C))], 0),
                      "mlp.w3.weight": Spec([(to + "mlp.up_proj.weight", (FFN, C))], 0),
                      "mlp.w2.weight": Spec([(to + "mlp.down_proj.weight", (C, FFN))], 1)}
    qkv = [("q_proj", C), ("k_proj", groups * HEAD_DIM), ("v_proj", groups * HEAD_DIM)]
    return out | {
        "attention.query_key_value.bias": Spec([(f"{to}self_attn.{name}.bias", (rows,)) for name, rows in qkv], 0),
        "attention.dense.bias": Spec([(to + "self_attn.o_proj.bias", (C,))]),
        "mlp.linear1.weight": Spec([(to + f"mlp.{name}_proj.weight", (FFN, C)) for name in ("up", "gate")], 0),
        "mlp.linear1.bias": Spec([(to + f"mlp.{name}_proj.bias", (FFN,)) for name in ("up", "gate")], 0),
        **linear("mlp.linear2", to + "mlp.down_proj", C, FFN, 1),
    }


def megatron_llama(layer, prefix, groups, fused):
    """A block of Microsoft's Megatron-DeepSpeed with Llama's architecture. Rows of queries, keys and values are GROUP,
    (queries, key, value); since 676a482c (December 2024), they are [queries | keys | values] on every rank."""
    to = f"model.layers.{layer}."
    qkv = [(to + "self_attn.q_proj.weight", (C, C)), (to + "self_attn.k_proj.weight", (groups * HEAD_DIM, C)),
           (to + "self_attn.v_proj.weight", (groups * HEAD_DIM, C))]
    return {
        **norm(prefix + "input_layernorm", to + "input_layernorm", bias=False),
        prefix + "self_attention.query_key_value.weight": Spec(qkv, 0, groups=None if fused else groups),
        prefix + "self_attention.dense.weight": Spec([(to + "self_attn.o_proj.weight", (C, C))], 1),
        **norm(prefix + "post_attention_layernorm", to + "post_attention_layernorm", bias=False),
        prefix + "mlp.dense_h_to_4h.weight": Spec([(to + f"mlp.{name}_proj.weight", (FFN, C)) for name in
                                                   ("gate", "up")], 0),
        prefix + "mlp.dense_4h_to_h.weight": Spec([(to + "mlp.down_proj.weight", (C, FFN))], 1),
    }


def megatron_block(layer, prefix=""):
    to = f"h.{layer}."
    return {
        **norm(prefix + "input_layernorm", to + "ln_1"),
        **linear(prefix + "self_attention.query_key_value", to + "attn.c_attn", 3 * C, C, 0),
        **linear(prefix + "self_attention.dense", to + "attn.c_proj", C, C, 1),
        **norm(prefix + "post_attention_layernorm", to + "ln_2"),
        **linear(prefix + "mlp.dense_h_to_4h", to + "mlp.c_fc", FFN, C, 0),
        **linear(prefix + "mlp.dense_4h_to_h", to + "mlp.c_proj", C, FFN, 1),
    }


def megatron_embedding(prefix=""):
    return {prefix + "word_embeddings.weight": Spec([("wte.weight", (VOCAB, C))], 0),
            prefix + "position_embeddings.weight": Spec([("wpe.weight", (POSITIONS, C))])}


def to_transformers(name, tensor):
    """Converts a whole tensor to transformers' layout. GPT-2's linears are transposed, with [q | k | v]."""
    if "c_attn" in name:
        tensor = tensor.view(HEADS, 3, HEAD_DIM, -1).transpose(0, 1).reshape(3 * C, -1).squeeze(-1)
    if name.startswith("h.") and tensor.dim() == 2:
        tensor = tensor.t()
    return tensor.clone().contiguous()


NEOX_ARGS = {"num_layers": LAYERS, "hidden_size": C, "num_attention_heads": HEADS,
             "max_position_embeddings": POSITIONS, "make_vocab_size_divisible_by": 1, "padded_vocab_size": VOCAB,
             "tokenizer_type": "HFTokenizer", "model_parallel_size": 2}

# The two styles in which GPT-NeoX's configurations are written.
NEOX_YML = {
    "neox_pipeline": '''# a model with GPT-NeoX-20B's settings
{
   # parallelism
   "pipe-parallel-size": 2,
   "model-parallel-size": 2,  # tensor parallel

   "num-layers": 2, "hidden-size": 16,
   "num-attention-heads": 4,
   "seq-length": 8,
   "max-position-embeddings": 8,
   "norm": "layernorm",
   "pos-emb": "rotary",
   "rotary-pct": 0.5,
   "no-weight-tying": true,
   "gpt-j-residual": true,
   "output-layer-parallelism": "column",
   "attention-config": [[["flash"], 2]],
   "scaled-upper-triang-masked-softmax-fusion": false,
   "optimizer": {
     "type": "Adam",
     "params": {"lr": 0.97e-4, "betas": [0.9, 0.95], "eps": 1.0e-8,}
   },
   "hidden-dropout": 0,
   "attention-dropout": 0.0,
}
''',
    "neox_sequential": """# Llama's architecture
pipe_parallel_size: 0
model_parallel_size: 1

num_layers: 2
hidden_size: 16
num_attention_heads: 4
num_kv_heads: 2
seq_length: 8
max_position_embeddings: 8
pos_emb: rotary
rotary_pct: 1
rotary_emb_base: 500000
no_weight_tying: True
norm: 'rmsnorm'
rms_norm_epsilon: 1.0e-6
activation: swiglu
intermediate_size: 96   # GPT-NeoX keeps two thirds of it, half of which each for gate and up
mlp_multiple_of: 32
use_bias_in_attn_linear: false
use_bias_in_mlp: false
attention_config:
  - - - global
    - 2
optimizer:
  type: Adam
  params:
    lr: 0.001
""",
    "neox_gated": """# Llama with the settings of GPT-NeoX 2.0's configs/llama
{
  "pipe-parallel-size": 0,
  "model-parallel-size": 2,
  "make_vocab_size_divisible_by": 1,
  "num-layers": 2,
  "hidden-size": 16,
  "num-attention-heads": 4,
  "num_kv_heads": 2,
  "intermediate_size": 32,
  "seq-length": 8,
  "max-position-embeddings": 8,
  "pos-emb": "rotary",
  "rotary-pct": 1,
  "no-weight-tying": true,
  "gpt-j-residual": false,
  "output-layer-parallelism": "column",
  "norm": "rmsnorm",
  "rms_norm_epsilon": 1.0e-6,
  "scaled-upper-triang-masked-softmax-fusion": true,
  "bias-gelu-fusion": false,
  "use_bias_in_norms": false,
  "use_bias_in_attn_linear": false,
  "mlp_type": "llama",
  "activation": "silu",
}
""",
    "neox_geglu": """# GEGLU with biases
pipe_parallel_size: 0
model_parallel_size: 2
num_layers: 2
hidden_size: 16
num_attention_heads: 4
num_kv_heads: 2
seq_length: 8
max_position_embeddings: 8
pos_emb: rotary
no_weight_tying: true
norm: rmsnorm
rms_norm_epsilon: 1.0e-6
activation: geglu
intermediate_size: 96
mlp_multiple_of: 32
""",
}


def megatron_args(case, tp, pp):
    """The arguments of Megatron-DeepSpeed that describe the model, with BigScience's enumeration of positions."""
    for name in ("megatron", "megatron.enums"):
        sys.modules.setdefault(name, types.ModuleType(name))
    import enum
    if case in ("megatron_llama", "megatron_fused", "megatron_universal", "megatron_zero3"):  # Microsoft's
        fpdt = {"ds_sequence_parallel_fpdt": False, "ds_sequence_parallel_fpdt_chunk_size": 65536}
        return argparse.Namespace(
            num_layers=LAYERS, hidden_size=C, ffn_hidden_size=FFN, num_attention_heads=HEADS,
            num_key_value_heads=groups_of_case(case), kv_channels=HEAD_DIM, max_position_embeddings=POSITIONS,
            seq_length=POSITIONS, padded_vocab_size=VOCAB, layernorm_epsilon=1e-6, hidden_dropout=0.0,
            attention_dropout=0.0, bias_gelu_fusion=False, openai_gelu=False, onnx_safe=None, squared_relu=False,
            swiglu=True, normalization="rmsnorm", add_bias_linear=False, add_position_embedding=False,
            use_rotary_position_embeddings=True, rope_theta=10000, rotary_percent=1.0, num_experts=[1],
            untie_embeddings_and_output_weights=True, apply_residual_connection_post_layernorm=False,
            init_method_std=0.02, tensor_model_parallel_size=tp, pipeline_model_parallel_size=pp,
            params_dtype=torch.float32, deepspeed=True, consumed_train_samples=8, consumed_valid_samples=0,
            iteration=2, **(fpdt if "fused" in case else {}))
    kinds = enum.Enum("PositionEmbeddingType", {"rotary": 1, "absolute": 2, "alibi": 3}, module="megatron.enums")
    sys.modules["megatron.enums"].PositionEmbeddingType = kinds
    return argparse.Namespace(
        num_layers=LAYERS, hidden_size=C, ffn_hidden_size=FFN, num_attention_heads=HEADS, kv_channels=HEAD_DIM,
        max_position_embeddings=POSITIONS, seq_length=POSITIONS, padded_vocab_size=VOCAB, layernorm_epsilon=1e-5,
        hidden_dropout=0.1, attention_dropout=0.1, bias_gelu_fusion=True, openai_gelu=False, onnx_safe=None,
        apply_residual_connection_post_layernorm=False, embed_layernorm=False, glu_activation=None,
        position_embedding_type=kinds.absolute, init_method_std=0.02, tensor_model_parallel_size=tp,
        pipeline_model_parallel_size=pp, params_dtype=torch.bfloat16, deepspeed=True, consumed_train_samples=8,
        consumed_valid_samples=0, iteration=2)


# Cases that differ in the optimizer from another case.
SAME_MODEL = {"neox_stages": "neox_pipeline", "megatron_stages": "megatron_pipeline",
              "megatron_bf16_stages": "megatron_pipeline", "megatron_zero3": "megatron_llama"}


def groups_of_case(case):
    return HEADS if case == "megatron_fused" else 2


def modules_of(case, tp, rank):
    """Returns the pipeline's modules, or a single one."""
    case = SAME_MODEL.get(case, case)
    if case == "neox_pipeline":
        embedding = {"word_embeddings.weight": Spec([("gpt_neox.embed_in.weight", (VOCAB, C))], 0)}
        blocks = [neox_block(layer) for layer in range(LAYERS)]
        frequencies = [("attention.rotary_emb.inv_freq", torch.ones(1))]
        head = {"final_linear.weight": Spec([("embed_out.weight", (VOCAB, C))], 0)}
        final = norm("norm", "gpt_neox.final_layer_norm", merge="mean")
        return [Leaves(embedding, tp, rank), pass_on, *[Leaves(block, tp, rank, frequencies) for block in blocks],
                pass_on, Leaves(final, tp, rank), Leaves(head, tp, rank)]
    if case in ("neox_sequential", "neox_gated", "neox_geglu"):
        specs = {"sequential.0.word_embeddings.weight": Spec([("model.embed_tokens.weight", (VOCAB, C))], 0)}
        for layer in range(LAYERS):
            block = gated_block(layer, 2, case.removeprefix("neox_"))
            specs |= {f"sequential.{layer + 2}.{name}": spec for name, spec in block.items()}
        specs |= norm(f"sequential.{LAYERS + 3}.norm", "model.norm", bias=False, weight="scale")
        specs[f"sequential.{LAYERS + 4}.final_linear.weight"] = Spec([("lm_head.weight", (VOCAB, C))], 0)
        return [Leaves(specs, tp, rank)]
    if case == "megatron_universal":
        embedding = {"word_embeddings.weight": Spec([("model.embed_tokens.weight", (VOCAB, C))], 0)}
        blocks = [megatron_llama(layer, "", groups_of_case(case), False) for layer in range(LAYERS)]
        head = {"lm_head.weight": Spec([("lm_head.weight", (VOCAB, C))], 0)}
        final = {"weight": Spec([("model.norm.weight", (C,))])}
        return [pass_on, Leaves(embedding, tp, rank), *[Leaves(block, tp, rank) for block in blocks],
                Leaves(final, tp, rank), Leaves(head, tp, rank)]
    if case in ("megatron_llama", "megatron_fused"):
        model = "language_model."
        specs = {model + "embedding.word_embeddings.weight": Spec([("model.embed_tokens.weight", (VOCAB, C))], 0)}
        for layer in range(LAYERS):
            specs |= megatron_llama(layer, f"{model}encoder.layers.{layer}.", groups_of_case(case),
                                    case == "megatron_fused")
        specs |= norm(model + "encoder.final_layernorm", "model.norm", bias=False)
        specs[model + "output_layer.weight"] = Spec([("lm_head.weight", (VOCAB, C))], 0)
        return [Leaves(specs, tp, rank)]
    if case == "megatron_pipeline":
        final = {name.removeprefix("."): spec for name, spec in norm("", "ln_f").items()}
        return ["tied", *[Leaves(megatron_block(layer), tp, rank) for layer in range(LAYERS)],
                pass_on, Leaves(final, tp, rank), "tied"]
    specs = megatron_embedding("language_model.embedding.")
    for layer in range(LAYERS):
        specs |= megatron_block(layer, f"language_model.encoder.layers.{layer}.")
    specs |= norm("language_model.encoder.final_layernorm", "ln_f")
    return [Leaves(specs, tp, rank)]


def pass_on(x):
    return x


def read_out(embedding, x):
    """What a tied output layer computes with the copy of the embedding on its stage."""
    return x + embedding.word_embeddings_weight.sum().to(x.dtype)


class TensorParallel:
    """What deepspeed.initialize() asks Megatron's mpu."""

    def __init__(self, tp, rank, world):
        from torch import distributed
        self.tp, self.rank = tp, rank
        self.groups = {}
        for kind, members in (("model", [[i * tp + j for j in range(tp)] for i in range(world // tp)]),
                              ("data", [list(range(j, world, tp)) for j in range(tp)])):
            for ranks in members:
                group = distributed.new_group(ranks)
                if rank in ranks:
                    self.groups[kind] = group

    def get_model_parallel_rank(self): return self.rank % self.tp
    def get_model_parallel_group(self): return self.groups["model"]
    def get_model_parallel_world_size(self): return self.tp
    def get_data_parallel_rank(self): return self.rank // self.tp
    def get_data_parallel_group(self): return self.groups["data"]
    def get_data_parallel_world_size(self): return torch.distributed.get_world_size(self.groups["data"])


# (tensor, pipeline or None, data) sizes, and DeepSpeed's configuration.
CASES = {
    "neox_pipeline": (2, 2, 2, {"bf16": {"enabled": True},
                                "zero_optimization": {"stage": 1, "elastic_checkpoint": True}}),
    "neox_sequential": (1, None, 2, {"bf16": {"enabled": True}, "zero_optimization": {"stage": 2}}),
    "megatron_tensor": (2, None, 3, {"bf16": {"enabled": True}, "data_types": {"grad_accum_dtype": "fp32"},
                                     "zero_optimization": {"stage": 1}}),
    "megatron_pipeline": (1, 2, 1, {"bf16": {"enabled": True}, "data_types": {"grad_accum_dtype": "fp32"},
                                    "zero_optimization": {"stage": 1}}),
    "megatron_plain": (1, None, 1, {}),
    "megatron_llama": (2, None, 1, {}),
    "megatron_universal": (2, 2, 1, {"bf16": {"enabled": True}, "data_types": {"grad_accum_dtype": "fp32"},
                                     "zero_optimization": {"stage": 1}}),
    "megatron_fused": (2, None, 1, {}),
    # 16-bit weights without ZeRO: FP16_Optimizer (for torch's Adam, in place of DeepSpeed's FusedAdam, which needs a
    # GPU) and FP16_UnfusedOptimizer
    "neox_gated": (2, None, 1, {"bf16": {"enabled": True}, "data_types": {"grad_accum_dtype": "bf16"}}),
    "neox_geglu": (2, None, 1, {"bf16": {"enabled": True}, "data_types": {"grad_accum_dtype": "bf16"}}),
    # pipelines without ZeRO: of fp32 weights, and with BF16_Optimizer
    "neox_stages": (2, 2, 1, {}),
    "megatron_stages": (1, 2, 1, {}),
    "megatron_bf16_stages": (1, 2, 2, {"bf16": {"enabled": True}}),
    "megatron_zero3": (1, None, 2, {"bf16": {"enabled": True}, "zero_optimization": {"stage": 3}}),
}


def groups_of(engine_modules):
    """Two groups as in Megatron-LM: matrices with weight decay, vectors without."""
    parameters = list(dict.fromkeys(p for module in engine_modules for p in module.parameters()))
    return [{"params": [p for p in parameters if p.dim() > 1]},
            {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0}]


def step_of_stage(engine, dtype):
    """A step of a pipeline stage: what train_batch() does for a micro-batch, but without sends between the stages,
    because no gradient of these modules depends on another stage (and gloo's hung here)."""
    x = torch.zeros(1, dtype=dtype, requires_grad=True)
    for module in engine.module.forward_funcs:
        x = module(x)
    x.float().sum().backward()
    if engine.using_bf16_optimizer:
        engine.optimizer.update_hp_grads(clear_lp_grads=False)
    engine._exec_reduce_tied_grads()
    engine._exec_reduce_grads()
    engine._exec_optimizer_step()


# What Megatron-DeepSpeed's GPTModelPipe states for ds_to_universal.
UNIVERSAL = {
    "universal_checkpoint_version": 0.2, "original_vocab_size": 30, "padded_vocab_size": VOCAB,
    "vocabulary_parameter_patterns": [r"\d+.word_embeddings.weight", r"\d+.lm_head.weight"],
    "pipeline_replicated_parameter_patterns": [],
    "tp_replicated_parameter_patterns": [r"\d+.input_layernorm.weight", r"\d+.post_attention_layernorm.weight",
                                         r"\d+.weight"],
    "parameter_with_row_parallelism_patterns": [r"\d+.mlp.dense_4h_to_h.weight", r"\d+.self_attention.dense.weight"],
    "parameter_with_2_sub_params_cat_dim_0": [r"\d+.mlp.dense_h_to_4h.weight"],
}


def to_universal(out, *flags):
    """Converts the checkpoint with DeepSpeed's own program, and removes the original."""
    import subprocess
    step = f"{out}/global_step2"
    subprocess.run([sys.executable, "-m", "deepspeed.checkpoint.ds_to_universal", "--input_folder", step,
                    "--output_folder", step + "_universal", "--num_extract_workers", "1", "--num_merge_workers", "1",
                    *flags], check=True)
    shutil.rmtree(step)
    os.remove(f"{out}/latest")


def states_without_zero(wrapper, parameter):
    """Returns a 16-bit parameter's fp32 weights and moments, as the wrapper in memory relates them."""
    for group, members in enumerate(wrapper.fp16_groups):
        for index, member in enumerate(members):
            if member is not parameter:
                continue
            if hasattr(wrapper, "fp32_groups"):
                main = wrapper.fp32_groups[group][index]
                return [main.detach(), *[wrapper.optimizer.state[main][kind] for kind in ("exp_avg", "exp_avg_sq")]]
            flat = wrapper.fp32_groups_flat[group]
            state = wrapper.optimizer.state[flat]
            return [torch._C._nn.unflatten_dense_tensors(whole, members)[index]
                    for whole in (flat.detach(), state["exp_avg"], state["exp_avg_sq"])]
    raise AssertionError("the optimizer does not hold the parameter")


def work(rank, world, case, out, port):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=str(port), LOCAL_SIZE=str(world))
    torch.set_num_threads(1)
    import deepspeed
    from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state
    deepspeed.init_distributed(dist_backend="gloo")
    tp, pp, dp, options = CASES[case]
    tp_rank = rank % tp
    config = {"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 1, "gradient_clipping": 1.0,
              "zero_allow_untested_optimizer": True, "steps_per_print": 1000, **options}
    modules = modules_of(case, tp, tp_rank)
    mpu = None
    if pp:
        from deepspeed.pipe import LayerSpec, PipelineModule, TiedLayerSpec
        from deepspeed.runtime.pipe.topology import PipeModelDataParallelTopology
        topology = PipeModelDataParallelTopology(num_pp=pp, num_mp=tp, num_dp=dp)
        spec = megatron_embedding()
        tied = lambda forward=None: TiedLayerSpec("embed", Leaves, spec, tp, tp_rank, forward_fn=forward,
                                                  tied_weight_attr="word_embeddings_weight")
        if SAME_MODEL.get(case, case) == "megatron_pipeline":  # _to_float16, embedding, a transposition, blocks, a transposition, norm, head
            blocks = [tied() if m == "tied" else m for m in modules[:-1]]
            modules = [pass_on, blocks[0], pass_on, *blocks[1:], tied(read_out)]
        model = PipelineModule(modules, topology=topology, loss_fn=lambda x, _: x.float().sum(),
                               partition_method="uniform")
        trained = [model]
    else:
        model = modules[0]
        trained = modules
        mpu = TensorParallel(tp, rank, world)
    if case == "neox_gated":
        deepspeed.runtime.engine.FusedAdam = torch.optim.AdamW
    optimizer = torch.optim.AdamW(groups_of(trained), lr=1e-2, betas=(0.9, 0.95), weight_decay=0.1)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config, mpu=mpu)
    dtype = next(engine.module.parameters()).dtype
    for step in range(2):
        if pp:
            step_of_stage(engine, dtype)
        else:
            engine.backward(engine(torch.zeros(1, dtype=dtype, requires_grad=True)).float().sum())
            engine.step()
    state = {"iteration": 2}
    if case.startswith("neox"):
        state["args"] = {**NEOX_ARGS, "model_parallel_size": tp}
    else:
        state |= {"args": megatron_args(case, tp, pp or 1), "checkpoint_version": 3.0, "tokens": 0}
    if case == "megatron_universal":
        state["universal_checkpoint_info"] = UNIVERSAL
    engine.save_checkpoint(out, tag="global_step2", client_state=state)
    collected = {}
    if hasattr(engine.optimizer, "_hp_optimizer_states_linked"):  # set before torch's AdamW had any state
        engine.optimizer._hp_optimizer_states_linked = False
        engine.optimizer._lazy_init_hp_params_optimizer_state()
    for name, parameter in engine.module.named_parameters():
        if case in ("neox_gated", "neox_geglu"):
            entry = states_without_zero(engine.optimizer, parameter)
        elif not options:
            moments = optimizer.state[parameter]
            entry = [parameter.detach(), moments["exp_avg"], moments["exp_avg_sq"]]
        else:
            entry = [safe_get_full_fp32_param(parameter), safe_get_full_optimizer_state(parameter, "exp_avg"),
                     safe_get_full_optimizer_state(parameter, "exp_avg_sq")]
        collected[name] = [parameter.detach()] + [tensor.view(parameter.shape) for tensor in entry]
    collected = {name: [t.clone().cpu() for t in tensors] for name, tensors in collected.items()}
    torch.save((tp_rank, collected), f"{out}/collected-{rank}.pt")


def whole(case, out, world):
    """Merges the ranks' tensors into {kind: {transformers' name: tensor}}."""
    tp, pp, dp, _ = CASES[case]
    specs = {}
    has_tied_layers = SAME_MODEL.get(case, case) == "megatron_pipeline"
    for index, module in enumerate(modules_of(case, tp, 0)):
        if isinstance(module, Leaves):
            offset = 2 if has_tied_layers else 0  # see work()
            specs |= {(f"{index + offset}.{name}" if pp else name): spec for name, spec in module.specs.items()}
    if has_tied_layers:
        specs |= {f"tied_modules.embed.{name}": spec for name, spec in megatron_embedding().items()}
    shards = {}
    for rank in range(world):
        tp_rank, collected = torch.load(f"{out}/collected-{rank}.pt", weights_only=False)
        for name, tensors in collected.items():
            shards.setdefault(name, {}).setdefault(tp_rank, tensors)  # a tied copy follows its original
        os.remove(f"{out}/collected-{rank}.pt")
    result = {kind: {} for kind in ("weight", "main", "exp_avg", "exp_avg_sq")}
    for name, spec in specs.items():
        for kind, index in zip(result, range(4)):
            tensors = [shards[name][rank][index] for rank in range(tp)]
            rows = [shape[0] for _, shape in spec.parts]
            if spec.axis is None:
                first = tensors[0]
                if "exp" not in kind and spec.merge == "sum":
                    first = sum(tensors)
                elif "exp" not in kind and spec.merge == "mean":
                    first = (sum(t.float() for t in tensors) / tp).to(first.dtype)
                parts = list(first.split(rows))
            elif spec.groups:
                merged = torch.cat(tensors).unflatten(0, (spec.groups, -1))
                parts = [part.flatten(0, 1) for part in merged.split([r // spec.groups for r in rows], 1)]
            else:
                per_rank = [t.split([r // tp if spec.axis == 0 else r for r in rows]) for t in tensors]
                parts = [torch.cat(pieces, spec.axis) for pieces in zip(*per_rank)]
            for (reference, shape), part in zip(spec.parts, parts):
                assert part.shape == torch.Size(shape), (name, part.shape, shape)
                if case == "megatron_universal" and shape[0] == VOCAB and "mlp" not in reference:
                    part = part[:UNIVERSAL["original_vocab_size"]]
                result[kind][reference] = to_transformers(reference, part)
    return result


CONFIGS = {
    "neox_pipeline": {"model_type": "gpt_neox", "architectures": ["GPTNeoXForCausalLM"], "hidden_act": "gelu",
                      "rotary_pct": 0.5, "use_parallel_residual": True, "tie_word_embeddings": False,
                      "intermediate_size": FFN, "max_position_embeddings": POSITIONS},
    "neox_sequential": {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_act": "silu",
                        "num_key_value_heads": 2, "rms_norm_eps": 1e-6, "rope_theta": 500000.0,
                        "tie_word_embeddings": False, "intermediate_size": FFN, "attention_bias": False,
                        "max_position_embeddings": POSITIONS},
}
LLAMA = CONFIGS["neox_sequential"]
CONFIGS["neox_stages"] = CONFIGS["neox_pipeline"]
CONFIGS["neox_gated"] = LLAMA | {"rope_theta": 10000.0}
CONFIGS["neox_geglu"] = LLAMA | {"rope_theta": 10000.0, "hidden_act": "gelu", "attention_bias": True, "mlp_bias": True}
CONFIGS["megatron_llama"] = LLAMA | {"rope_theta": 10000.0}
CONFIGS["megatron_universal"] = CONFIGS["megatron_llama"] | {"vocab_size": UNIVERSAL["original_vocab_size"]}
CONFIGS["megatron_zero3"] = CONFIGS["megatron_llama"]
CONFIGS["megatron_fused"] = LLAMA | {"rope_theta": 10000.0, "num_key_value_heads": HEADS}
GPT2 = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": C, "n_head": HEADS, "n_layer": LAYERS,
        "n_positions": POSITIONS, "vocab_size": VOCAB, "n_inner": FFN, "activation_function": "gelu_new"}


def make(case, root, port):
    from safetensors.torch import save_file
    out = os.path.join(root, case)
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    tp, pp, dp, _ = CASES[case]
    world = tp * (pp or 1) * dp
    torch.multiprocessing.spawn(work, (world, case, out, port), nprocs=world)
    for name in ("zero_to_fp32.py", "zero_to_torch.py"):  # DeepSpeed's tools, 40 KB
        if os.path.exists(f"{out}/{name}"):
            os.remove(f"{out}/{name}")
    config = {"hidden_size": C, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "vocab_size": VOCAB,
              **CONFIGS[case]} if case in CONFIGS else GPT2
    for kind, tensors in whole(case, out, world).items():
        if kind == "weight" and not CASES[case][3]:
            continue  # equals main
        folder = f"{out}/expected/{kind}"
        os.makedirs(folder)
        save_file(tensors, f"{folder}/model.safetensors", metadata={"format": "pt"})
        with open(f"{folder}/config.json", "w") as file:
            json.dump(config, file, indent=1)
            file.write("\n")
    if case in ("megatron_universal", "megatron_zero3"):
        to_universal(out)
    if (model := SAME_MODEL.get(case, case)) in NEOX_YML:  # GPT-NeoX's save_checkpoint() writes its configuration, too
        os.makedirs(f"{out}/global_step2/configs")
        with open(f"{out}/global_step2/configs/model.yml", "w") as file:
            file.write(NEOX_YML[model])


if __name__ == "__main__":
    for number, case in enumerate(sys.argv[2:] or CASES):
        make(case, sys.argv[1], 29600 + number)
