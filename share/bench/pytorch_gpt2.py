#!/usr/bin/env python3
"""The peer of mtl-train in `make bench`: GPT-2 training in eager PyTorch, fp32, on the CPU.

Reads the token file that mtl-train reads (u16 .bin), trains as a careful PyTorch user would (scaled_dot_product_attention,
fused AdamW, clipping) and prints one JSON object: tokens per second of the median step after the first two, and seconds
from the start of the process to the first loss.
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


class Block(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout, is_causal=True)
        x = x + functional.dropout(self.out(attended.transpose(1, 2).reshape(batch, length, width)), self.dropout)
        hidden = functional.gelu(self.up(self.norm2(x)), approximate="tanh")
        return x + functional.dropout(self.down(hidden), self.dropout)


class Gpt2(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.dropout = args.dropout
        self.tokens, self.positions = nn.Embedding(args.vocab, args.width), nn.Embedding(args.length, args.width)
        self.blocks = nn.ModuleList(Block(args.width, args.heads, args.dropout) for _ in range(args.layers))
        self.norm = nn.LayerNorm(args.width)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, ids, labels):
        x = functional.dropout(self.tokens(ids) + self.positions.weight[: ids.shape[1]], self.dropout)
        for block in self.blocks:
            x = block(x)
        logits = functional.linear(self.norm(x), self.tokens.weight)
        return functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("data", help="a .bin file of u16 tokens")
    for name, default in [("layers", 12), ("width", 768), ("heads", 12), ("length", 1024), ("batch", 1), ("vocab", 50257),
                          ("steps", 6), ("threads", 2)]:
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--dropout", type=float, default=0.0)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1234)
    model = Gpt2(args)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1, fused=True)
    tokens = numpy.memmap(args.data, dtype=numpy.uint16, mode="r")
    random = numpy.random.default_rng(1234)
    seconds, first_loss = [], None
    for _ in range(args.steps):
        begin = time.time()
        starts = random.integers(0, len(tokens) - args.length - 1, args.batch)
        window = torch.from_numpy(numpy.stack([tokens[s : s + args.length + 1] for s in starts]).astype(numpy.int64))
        loss = model(window[:, :-1], window[:, 1:])
        loss.item()
        first_loss = first_loss or time.time() - START
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        seconds.append(time.time() - begin)
    rate = args.batch * args.length / statistics.median(seconds[2:])
    print(json.dumps({"tokens_per_second": rate, "first_loss_s": first_loss}))


if __name__ == "__main__":
    main()
