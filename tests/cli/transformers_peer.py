"""The Python part of transformers_long.sh: python transformers_peer.py set-ends|make|compare|compare-passes FOLDER..."""
import json
import os
import shutil
import sys

TOLERANCE = 1e-5  # of log-probabilities, which are some tens at most


def read_lines(folder):
    with open(os.path.join(folder, "mtl.jsonl")) as file:
        return [json.loads(line) for line in file]


def set_ends(folder):
    lines = [line["ids"] for line in read_lines(folder)]
    with open(os.path.join(folder, "generation_config.json"), "w") as file:
        json.dump({"eos_token_id": [lines[0][2], lines[1][4]]}, file)


def make(folder, gpt2):
    """A Llama with GPT-2's tokenizer."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(16)
    config = LlamaConfig(vocab_size=50257, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
                         initializer_range=0.3, tie_word_embeddings=True, bos_token_id=50256, eos_token_id=50256)
    LlamaForCausalLM(config).save_pretrained(folder)
    for name in ("vocab.json", "merges.txt"):
        shutil.copy(os.path.join(gpt2, name), folder)
    with open(os.path.join(folder, "tokenizer_config.json"), "w") as file:
        json.dump({"tokenizer_class": "GPT2Tokenizer", "eos_token": "<|endoftext|>"}, file)


def load(folder):
    """The model in fp32. Fails unless every tensor comes from the folder and every tensor of the folder is used."""
    import torch
    from transformers import AutoModelForCausalLM

    model, report = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, output_loading_info=True,
                                                         attn_implementation="eager")
    wrong = {key: value for key, value in report.items() if value}
    if wrong:
        sys.exit(f"{folder}: transformers reports {wrong}")
    return model.eval()


def continue_greedily(model, ids, count):
    import torch

    return model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, do_sample=False,
                          return_dict_in_generate=True, output_logits=True, pad_token_id=0)


def compare_text(folder):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    line = read_lines(folder)[0]
    ids = tokenizer(line["prompt"], return_tensors="pt")["input_ids"]
    out = continue_greedily(load(folder), ids, 24)
    theirs = tokenizer.decode(out.sequences[0, ids.shape[1]:])
    if theirs != line["completion"] or not theirs:
        sys.exit(f"{folder}: mtl writes {line['completion']!r}, transformers {theirs!r}")
    return f"{len(theirs)} characters the same"


def compare_tokens(folder):
    import torch

    model, lines = load(folder), read_lines(folder)
    worst, tokens = 0.0, 0
    for line in lines:
        prompt = [int(word) for word in line["prompt"].split()]
        out = continue_greedily(model, torch.tensor([prompt]), 16)
        got = out.sequences[0, len(prompt):].tolist()
        if got != line["ids"]:
            sys.exit(f"{folder}, prompt {prompt}: mtl continues with {line['ids']}, transformers with {got}")
        for token, logits, ours in zip(got, out.logits, line["logprobs"], strict=True):
            theirs = torch.log_softmax(logits[0].double(), -1)[token].item()
            difference = abs(theirs - ours)
            if not difference <= TOLERANCE:  # also for NaN
                sys.exit(f"{folder}, prompt {prompt}: the log-probability of {token} is {ours}, and {theirs} with "
                         "transformers")
            worst, tokens = max(worst, difference), tokens + 1
    if tokens < len(lines) or len(lines) != 6:
        sys.exit(f"{folder}: {tokens} tokens of {len(lines)} prompts compared")
    return f"{tokens} tokens the same, log-probabilities differ by at most {worst:.1e}"


def logits_after(model, prompt, ids):
    """The logits for each of `ids` after `prompt`: of one pass, or of one pass for each if rotary frequencies depend on
    the length."""
    import torch

    rope = getattr(model.config, "rope_parameters", None) or {}
    if rope.get("rope_type") not in ("longrope", "dynamic"):
        return model(torch.tensor([prompt + ids]), use_cache=False).logits[0, len(prompt) - 1:-1]
    model(torch.tensor([[0]]), use_cache=False)  # or dynamic frequencies would stay those of a longer sequence
    return torch.stack([model(torch.tensor([prompt + ids[:n]]), use_cache=False).logits[0, -1] for n in range(len(ids))])


def compare_pass(folder):
    """Like compare_tokens(), but with one pass over each prompt and its continuation, which is many times as fast."""
    import torch

    model, lines = load(folder), read_lines(folder)
    worst, tokens = 0.0, 0
    for line in lines:
        prompt = [int(word) for word in line["prompt"].split()]
        with torch.no_grad():
            logits = logits_after(model, prompt, line["ids"])
        if logits.argmax(-1).tolist() != line["ids"]:
            sys.exit(f"{folder}, prompt {prompt}: mtl continues with {line['ids']}, transformers prefers "
                     f"{logits.argmax(-1).tolist()}")
        theirs = torch.log_softmax(logits.double(), -1).gather(1, torch.tensor(line["ids"])[:, None])[:, 0]
        worst = max(worst, (theirs - torch.tensor(line["logprobs"], dtype=torch.float64)).abs().max().item())
        tokens += len(line["ids"])
    if not worst <= TOLERANCE or tokens < len(lines) or len(lines) != 6:  # also for NaN
        sys.exit(f"{folder}: {tokens} tokens of {len(lines)} prompts compared, log-probabilities differ by {worst}")
    return f"{tokens} tokens the same, log-probabilities differ by at most {worst:.1e}"


def compare_passes(*folders):
    import torch
    import transformers

    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    for folder in folders:
        print(f"{os.path.basename(folder)}: {compare_pass(folder)}", flush=True)


def compare(*folders):
    import transformers

    transformers.utils.logging.set_verbosity_error()
    for folder in folders:
        has_text = os.path.exists(os.path.join(folder, "vocab.json"))
        print(f"{os.path.basename(folder)}: {compare_text(folder) if has_text else compare_tokens(folder)}", flush=True)


if __name__ == "__main__":
    {"set-ends": set_ends, "make": make, "compare": compare, "compare-passes": compare_passes}[sys.argv[1]](*sys.argv[2:])
