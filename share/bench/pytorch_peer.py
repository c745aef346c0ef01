#!/usr/bin/env python3
"""The peer of mtl-train in `make bench` and `make bench-gpu`: training of GPT-2 and Llama models in PyTorch, fp32 or bf16, eager
or compiled, on the CPU or a GPU.

Reads the token file that mtl-train reads (u16 .bin), trains as a careful PyTorch user would (scaled_dot_product_attention,
fused AdamW, clipping; bf16 is autocast, with fp32 weights) and prints one JSON object: the number of parameters, tokens per second of the median step after the
first --skip, and seconds from the start of the process to the first loss.
"""
import time

START = time.time()
import argparse
import json
import statistics

import numpy
import torch
from torch import nn
from torch.nn import functional


class Rotary(nn.Module):
    """Turns pairs (i, i + D/2) of every head of (B, H, T, D) by position / base^(2 i / D)."""

    def __init__(self, length, head_width, base=10000.0):
        super().__init__()
        frequencies = base ** (-torch.arange(0, head_width, 2, dtype=torch.float64) / head_width)
        angles = torch.outer(torch.arange(length, dtype=torch.float64), frequencies).repeat(1, 2)
        self.register_buffer("cos", angles.cos().float())
        self.register_buffer("sin", angles.sin().float())

    def forward(self, x):
        length, half = x.shape[2], x.shape[3] // 2
        turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
        return x * self.cos[:length] + turned * self.sin[:length]


class Attention(nn.Module):
    """Causal attention in which heads / groups heads share a key and a value."""

    def __init__(self, args, bias, rotary):
        super().__init__()
        self.heads, self.groups, self.head_width = args.heads, args.groups, args.width // args.heads
        self.dropout, self.rotary = args.dropout, rotary
        self.qkv = nn.Linear(args.width, (self.heads + 2 * self.groups) * self.head_width, bias)
        self.out = nn.Linear(args.width, args.width, bias)

    def forward(self, x):
        batch, length, width = x.shape
        heads = self.qkv(x).view(batch, length, -1, self.head_width).transpose(1, 2)
        q, k, v = heads.split((self.heads, self.groups, self.groups), dim=1)
        if self.rotary:
            q, k = self.rotary(q), self.rotary(k)
        attended = functional.scaled_dot_product_attention(
            q, k, v, dropout_p=self.dropout, is_causal=True, enable_gqa=self.groups < self.heads
        )
        return self.out(attended.transpose(1, 2).reshape(batch, length, width))


class GeluMlp(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.up, self.down = nn.Linear(args.width, args.ffn), nn.Linear(args.ffn, args.width)

    def forward(self, x):
        return self.down(functional.gelu(self.up(x), approximate="tanh"))


class SwigluMlp(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.gate_up, self.down = nn.Linear(args.width, 2 * args.ffn, False), nn.Linear(args.ffn, args.width, False)

    def forward(self, x):
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(functional.silu(gate) * up)


class Block(nn.Module):
    def __init__(self, norms, attention, mlp, dropout):
        super().__init__()
        (self.norm1, self.norm2), self.attention, self.mlp, self.dropout = norms, attention, mlp, dropout

    def forward(self, x):
        x = x + functional.dropout(self.attention(self.norm1(x)), self.dropout)
        return x + functional.dropout(self.mlp(self.norm2(x)), self.dropout)


class Gpt(nn.Module):
    """GPT-2, or Llama: rotary positions, RMSNorm, SwiGLU and no biases. The output layer shares the token embedding."""

    def __init__(self, args):
        super().__init__()
        llama = args.architecture == "llama"
        self.dropout = args.dropout
        self.tokens = nn.Embedding(args.vocab, args.width)
        self.positions = None if llama else nn.Embedding(args.length, args.width)
        rotary = Rotary(args.length, args.width // args.heads) if llama else None

        def norm():
            return nn.RMSNorm(args.width, eps=1e-5) if llama else nn.LayerNorm(args.width)

        self.blocks = nn.ModuleList(
            Block((norm(), norm()), Attention(args, not llama, rotary), SwigluMlp(args) if llama else GeluMlp(args), args.dropout)
            for _ in range(args.layers)
        )
        self.norm = norm()
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, ids, labels):
        x = self.tokens(ids)
        if self.positions:
            x = x + self.positions.weight[: ids.shape[1]]
        x = functional.dropout(x, self.dropout)
        for block in self.blocks:
            x = block(x)
        logits = functional.linear(self.norm(x), self.tokens.weight)
        return functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("data", help="a .bin file of u16 tokens")
    parser.add_argument("--architecture", choices=["gpt2", "llama"], default="gpt2")
    for name, default in [("layers", 12), ("width", 768), ("heads", 12), ("length", 1024), ("batch", 1), ("vocab", 50257),
                          ("steps", 6), ("threads", 2)]:
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--groups", type=int, help="key and value heads; absent: as many as heads")
    parser.add_argument("--ffn", type=int, help="width within an MLP; absent: 4 x width")
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--autocast", action="store_true", help="compute in bf16 where torch.autocast does")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--compile", action="store_true", help="torch.compile the model")
    parser.add_argument("--skip", type=int, default=2, help="steps that the median leaves out")
    args = parser.parse_args()
    args.groups, args.ffn = args.groups or args.heads, args.ffn or 4 * args.width
    return args


def main():
    args = parse_arguments()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1234)
    torch.backends.cuda.matmul.allow_tf32 = True
    model = Gpt(args).to(args.device)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    compute = torch.compile(model) if args.compile else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1, fused=True)
    tokens = numpy.memmap(args.data, dtype=numpy.uint16, mode="r")
    random = numpy.random.default_rng(1234)
    seconds, ends, first_loss = [], [], None
    for _ in range(args.steps):
        begin = time.time()
        starts = random.integers(0, len(tokens) - args.length - 1, args.batch)
        window = torch.from_numpy(numpy.stack([tokens[s : s + args.length + 1] for s in starts]).astype(numpy.int64))
        if args.device == "cuda":
            window = window.pin_memory().to("cuda", non_blocking=True)
        with torch.autocast(args.device, torch.bfloat16, enabled=args.autocast):
            loss = compute(window[:, :-1], window[:, 1:])
        if first_loss is None or args.device == "cpu":
            loss.item()
        first_loss = first_loss or time.time() - START
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if args.device == "cuda":  # read at the end: the host stays ahead of the GPU
            ends.append(torch.cuda.Event(enable_timing=True))
            ends[-1].record()
        seconds.append(time.time() - begin)
    if args.device == "cuda":
        torch.cuda.synchronize()
        seconds[1:] = [begin.elapsed_time(end) / 1e3 for begin, end in zip(ends, ends[1:])]
    rate = args.batch * args.length / statistics.median(seconds[args.skip :])
    print(json.dumps({"parameters": parameters, "tokens_per_second": rate, "first_loss_s": first_loss}))


if __name__ == "__main__":
    main()
