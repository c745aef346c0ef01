"""Writes cases.jsonl: the rotary frequencies that transformers computes for Llama-like configurations.

    python3 make.py [FOLDER]

Each line has `config`, the relevant keys of a config.json, and `inv_freq`, the frequency of every pair.
"""
import json
import os
import random
import sys

from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

HERE = os.path.dirname(os.path.abspath(__file__))


def case(head_dim, rope):
    keys = {"hidden_size": 4 * head_dim, "num_attention_heads": 4, "head_dim": head_dim, "rope_parameters": rope}
    config = LlamaConfig(max_position_embeddings=131072, **json.loads(json.dumps(keys)))
    inv_freq, attention_factor = ROPE_INIT_FUNCTIONS[rope["rope_type"]](config, "cpu")
    assert attention_factor == 1.0
    return {"config": keys, "inv_freq": inv_freq.tolist()}


def llama3(theta, factor, low, high, original):
    return {"rope_type": "llama3", "rope_theta": theta, "factor": factor, "low_freq_factor": low,
            "high_freq_factor": high, "original_max_position_embeddings": original}


def cases():
    yield case(128, llama3(500000.0, 8.0, 1.0, 4.0, 8192))   # Llama 3.1
    yield case(64, llama3(500000.0, 32.0, 1.0, 4.0, 8192))   # Llama 3.2 1B
    draw = random.Random(1)
    for _ in range(30):
        low = draw.choice([0.5, 1.0, 2.0])
        yield case(draw.choice([16, 32, 64, 80, 128, 256]),
                   llama3(draw.choice([10000.0, 500000.0, 1000000.0]), draw.choice([2.0, 3.5, 8.0, 32.0]), low,
                          low * draw.choice([1.5, 4.0, 16.0]), draw.choice([64, 2048, 8192, 32768])))
    for factor in (1.0, 2.0, 4.0, 7.5):
        for share in (1.0, 0.5, 0.25):
            yield case(draw.choice([16, 64, 96]), {"rope_type": "linear", "rope_theta": 10000.0, "factor": factor,
                                                   "partial_rotary_factor": share})


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else HERE
    with open(os.path.join(folder, "cases.jsonl"), "w") as out:
        for one in cases():
            out.write(json.dumps(one) + "\n")


if __name__ == "__main__":
    main()
