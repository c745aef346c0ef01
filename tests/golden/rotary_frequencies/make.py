"""Writes cases.jsonl: the rotary frequencies that transformers computes for Llama-like configurations.

    python3 make.py [FOLDER]

Each line has `config`, the relevant keys of a config.json, `length`, the tokens of the sequence, `inv_freq`, the
frequency of every pair, and `attention_factor`, which multiplies cosines and sines.
"""
import json
import os
import random
import sys

from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

HERE = os.path.dirname(os.path.abspath(__file__))


def case(head_dim, rope, length=None, positions=131072):
    keys = {"hidden_size": 4 * head_dim, "num_attention_heads": 4, "head_dim": head_dim, "rope_parameters": rope}
    keys["max_position_embeddings"] = positions
    config = LlamaConfig(**json.loads(json.dumps(keys)))
    inv_freq, attention_factor = ROPE_INIT_FUNCTIONS[rope["rope_type"]](config, "cpu", seq_len=length)
    return {"config": keys, "length": length or positions, "inv_freq": inv_freq.tolist(), "attention_factor": attention_factor}


def llama3(theta, factor, low, high, original):
    return {"rope_type": "llama3", "rope_theta": theta, "factor": factor, "low_freq_factor": low,
            "high_freq_factor": high, "original_max_position_embeddings": original}


def yarn(draw):
    """Each optional key is absent in about half of the cases."""
    rope = {"rope_type": "yarn", "rope_theta": draw.choice([10000.0, 500000.0]), "factor": draw.choice([1.0, 2.5, 16.0]),
            "original_max_position_embeddings": draw.choice([8, 64, 4096, 32768])}
    for key, values in {"beta_fast": [4.0, 32, 64.0], "beta_slow": [0.25, 1, 2.0], "truncate": [True, False],
                        "mscale": [0.707, 1.0, 0.0], "mscale_all_dim": [0.5, 1.0], "attention_factor": [1.3, None],
                        "partial_rotary_factor": [0.5]}.items():
        if draw.random() < 0.5:
            rope[key] = draw.choice(values)
    return rope


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
    yield case(128, {"rope_type": "yarn", "rope_theta": 1000000.0, "factor": 4.0,
                     "original_max_position_embeddings": 32768})  # Qwen 2.5
    for _ in range(40):
        yield case(draw.choice([16, 64, 80, 128]), yarn(draw))
    yield case(16, {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "beta_slow": 0.25,
                    "original_max_position_embeddings": 32768})  # the ramp ends beyond the last pair
    for length in (100, 4096, 4097, 100000):
        for _ in range(4):
            dims, keys = draw.choice([16, 64, 96]), {"attention_factor": 1.25, "factor": draw.choice([1.0, 8.0])}
            yield case(dims, {"rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": 4096,
                              "short_factor": [1 + draw.random() for _ in range(dims // 2)],
                              "long_factor": [1 + 30 * draw.random() for _ in range(dims // 2)],
                              **{key: keys[key] for key in keys if draw.random() < 0.5}}, length)
            yield case(dims, {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": draw.choice([1.0, 2.0, 4.5]),
                              "partial_rotary_factor": draw.choice([1.0, 0.5])}, length, 4096)


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else HERE
    with open(os.path.join(folder, "cases.jsonl"), "w") as out:
        for one in cases():
            out.write(json.dumps(one) + "\n")


if __name__ == "__main__":
    main()
