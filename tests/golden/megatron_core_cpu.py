"""megatron-core on the CPU, for scripts that make golden files and for peers in tests: a module to import first.

Stand-ins answer for CUDA. Nothing of Transformer Engine or apex is needed: the layers are those of the local
implementation, and the inner optimizer is torch.optim.AdamW.
"""
import contextlib
import inspect
import os
import sys
import types
import warnings

import packaging.version
import torch

warnings.filterwarnings("ignore")
try:
    import pkg_resources  # noqa: F401
except ImportError:  # megatron-core 0.7 imports it
    sys.modules["pkg_resources"] = types.SimpleNamespace(packaging=packaging)
stream = types.SimpleNamespace(wait_stream=lambda other: None, synchronize=lambda: None)
torch.cuda.current_device = lambda: "cpu"
torch.cuda.current_stream = lambda *args, **kwargs: stream
torch.cuda.synchronize = lambda *args, **kwargs: None
torch.Tensor.cuda = lambda self, *args, **kwargs: self
torch.nn.Module.cuda = lambda self, *args, **kwargs: self
for name in ("FloatTensor", "IntTensor", "ByteTensor"):
    setattr(torch.cuda, name, getattr(torch, name))


class OnCpu(torch.overrides.TorchFunctionMode):
    """Makes tensors on the CPU where CUDA is asked for. Tensor.type() says CUDA, which optimizers ask for."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if str(kwargs.get("device", "")).startswith("cuda"):
            kwargs["device"] = "cpu"
        if function is torch.Tensor.type and len(args) == 1 and not kwargs:
            return function(*args).replace("torch.", "torch.cuda.", 1)
        return function(*args, **kwargs)


OnCpu().__enter__()

from megatron.core import parallel_state, tensor_parallel  # noqa: E402
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec  # noqa: E402
from megatron.core.models.gpt.gpt_model import GPTModel  # noqa: E402
from megatron.core.transformer.transformer_config import TransformerConfig  # noqa: E402

SEQUENCE = 16  # positions of the models


def start(rank, tensor=1, pipeline=1, address="file:///tmp/megatron_core_cpu", data=1, chunks=1):
    """Joins the gloo group of tensor * data * pipeline processes, whose stages have this number of chunks."""
    ranks = tensor * data * pipeline
    address = f"{address}.{os.getppid() if ranks > 1 else os.getpid()}"
    torch.distributed.init_process_group("gloo", rank=rank, world_size=ranks, init_method=address)
    parallel_state.initialize_model_parallel(tensor, pipeline, chunks if chunks > 1 else None)
    torch.manual_seed(1234)
    tensor_parallel.random.get_cuda_rng_tracker().fork = contextlib.nullcontext


def make_model(kind, dtype, tensor=1, pipeline=1, layers=2, hidden=16, vocab=48, chunk=0, chunks=1, first_layers=None):
    """A Llama-like model or, kind "gpt", a GPT-2-like one with tied embeddings, and its configuration.

    Of an interleaved pipeline, makes one of the stage's chunks. `first_layers`: those of the first stage.
    """
    is_llama = kind == "llama"
    stages = {}
    if chunks > 1:
        stages["virtual_pipeline_model_parallel_size"] = chunks
        parallel_state.set_virtual_pipeline_model_parallel_rank(chunk)
    if first_layers is not None:
        is_old = "first_pipeline_num_layers" in TransformerConfig.__dataclass_fields__  # megatron-core 0.10
        stages["first_pipeline_num_layers" if is_old else "num_layers_in_first_pipeline_stage"] = first_layers
    config = TransformerConfig(
        num_layers=layers, hidden_size=hidden, num_attention_heads=4, num_query_groups=2 if is_llama else 4,
        ffn_hidden_size=24 if is_llama else 4 * hidden, normalization="RMSNorm" if is_llama else "LayerNorm",
        gated_linear_unit=is_llama, add_bias_linear=not is_llama, params_dtype=dtype, pipeline_dtype=dtype,
        activation_func=torch.nn.functional.silu if is_llama else gelu_tanh, bf16=dtype == torch.bfloat16,
        tensor_model_parallel_size=tensor, pipeline_model_parallel_size=pipeline, use_cpu_initialization=True,
        hidden_dropout=0, attention_dropout=0, gradient_accumulation_fusion=False, bias_activation_fusion=False,
        masked_softmax_fusion=False, persist_layer_norm=False, apply_rope_fusion=False, bias_dropout_fusion=False,
        **stages)
    known = get_gpt_layer_local_spec.__code__.co_varnames
    spec = get_gpt_layer_local_spec(**({"normalization": config.normalization} if "normalization" in known else {}))
    is_first = parallel_state.is_pipeline_first_stage(ignore_virtual=True) and chunk == 0
    is_last = parallel_state.is_pipeline_last_stage(ignore_virtual=True) and chunk + 1 == chunks
    takes_chunk = chunks > 1 and "vp_stage" in inspect.signature(GPTModel.__init__).parameters
    model = GPTModel(config, spec, vocab, SEQUENCE, is_first, is_last, **({"vp_stage": chunk} if takes_chunk else {}),
                     share_embeddings_and_output_weights=not is_llama,
                     position_embedding_type="rope" if is_llama else "learned_absolute", rotary_base=10000)
    return config, model.to(dtype)  # like Float16Module


def gelu_tanh(x):
    return torch.nn.functional.gelu(x, approximate="tanh")


def batch_of(ids):
    """Positions and the attention mask of a (batch, sequence) tensor."""
    length = ids.shape[1]
    mask = torch.triu(torch.ones(length, length, dtype=torch.bool), 1)[None, None]
    return torch.arange(length).expand_as(ids), mask
