"""Walks over the keys of config.json that the installed transformers knows, for the families of hf_family.cpp.

python transformers_keys.py judged HF_KEYS_CPP           fails on a key that is in no row and that no case below changes
python transformers_keys.py make HF_KEYS_CPP FOLDER      a model for each case: FOLDER/FAMILY.KEY.N
python transformers_keys.py refused HF_KEYS_CPP FOLDER   a config.json for each refused key; FOLDER/KEYS lists them
"""
import inspect
import json
import os
import re
import sys
import tempfile

SMALL = dict(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
             max_position_embeddings=64)
GROUPED = dict(SMALL, num_key_value_heads=2)
ROPE = dict(rope_type="default", rope_theta=100.0)
LLAMA3 = dict(rope_type="llama3", rope_theta=100.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0)
LINEAR = dict(type="linear", factor=2.5)
YARN = dict(rope_type="yarn", rope_theta=100.0, factor=2.5, original_max_position_embeddings=8)
YARN_KEYS = [{}, dict(beta_fast=2.0, beta_slow=0.25), dict(mscale=0.7, mscale_all_dim=0.4), dict(attention_factor=1.4),
             dict(truncate=False)]
LONGROPE = dict(rope_type="longrope", rope_theta=100.0, original_max_position_embeddings=8, factor=8.0)
DYNAMIC = dict(rope_type="dynamic", rope_theta=100.0, factor=8.0)
LATER = ["full_attention", "sliding_attention", "sliding_attention"]
REMOVED = object()

# Every key that mtl honours, with values to try: either the value, or a dict of keys to set together.
SIZES = dict(vocab_size=[97], hidden_size=[48], intermediate_size=[40], num_hidden_layers=[2], num_attention_heads=[8],
             tie_word_embeddings=[True], initializer_range=[0.5])
ROTARY = dict(rope_parameters=[{"rope_parameters": rope} for rope in
                               (ROPE, dict(ROPE, rope_type="linear", factor=2.5), LLAMA3, YARN,
                                dict(LLAMA3, original_max_position_embeddings=16))],
              max_position_embeddings=[{"max_position_embeddings": 40, "rope_parameters": LLAMA3}],
              rope_scaling=[{"rope_scaling": LINEAR}])


def scaled(pairs):
    """Settings of scaled frequencies, for heads of which so many pairs of elements are rotated."""
    factors = dict(short_factor=[1 + i / 8 for i in range(pairs)], long_factor=[1.5 + i for i in range(pairs)])
    return dict(rope_parameters=ROTARY["rope_parameters"] + [{"rope_parameters": dict(YARN, **keys)} for keys in YARN_KEYS] + [
        {"rope_parameters": dict(LONGROPE, **factors)}, {"rope_parameters": DYNAMIC, "max_position_embeddings": 8}])


LLAMA_LIKE = dict(SIZES, **ROTARY, rms_norm_eps=[0.01], hidden_act=["gelu", "gelu_pytorch_tanh", "relu"],
                  num_key_value_heads=[1, 4], head_dim=[16], rope_theta=[100.0],
                  partial_rotary_factor=[1.0])
WINDOW = dict(sliding_window=[5, None],
              layer_types=[{"layer_types": types, "sliding_window": 5} for types in
                           (LATER, LATER[:1] * 3, LATER[1:2] * 3, None)])
LATER_WINDOW = dict(use_sliding_window=[{"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 0}],
                    sliding_window=[5, None],
                    max_window_layers=[{"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 2}],
                    layer_types=[{"use_sliding_window": True, "sliding_window": 5, "layer_types": LATER}])
GPT2_NAMES = dict(n_embd="hidden_size", n_layer="num_hidden_layers", n_head="num_attention_heads",
                  n_positions="max_position_embeddings")
GPT2 = {"vocab_size": 96, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64}
FAMILIES = {
    "gpt2": (GPT2, dict(
        vocab_size=[97], n_embd=[48], n_layer=[2], n_head=[8], n_positions=[40], n_inner=[40, None],
        activation_function=["relu", "gelu"], layer_norm_epsilon=[0.01], tie_word_embeddings=[False],
        initializer_range=[0.5], layer_types=[LATER[:1] * 3],
        **{alias: [{key: REMOVED, alias: GPT2[key]}] for key, alias in GPT2_NAMES.items()})),
    "llama": (GROUPED, dict(LLAMA_LIKE, **scaled(4), attention_bias=[True], mlp_bias=[True], layer_types=[LATER[:1] * 3])),
    # With layer_types, mistral is ministral, which has no default for head_dim.
    "mistral": (dict(GROUPED, head_dim=8), dict(LLAMA_LIKE, **WINDOW)),
    # Without a window, transformers cannot run a Ministral.
    "ministral": (dict(GROUPED, head_dim=8), dict(LLAMA_LIKE, **dict(WINDOW, sliding_window=[5]))),
    "qwen2": (GROUPED, dict(LLAMA_LIKE, **LATER_WINDOW)),
    "qwen3": (GROUPED, dict(LLAMA_LIKE, **scaled(64), **LATER_WINDOW, attention_bias=[True])),
    "gpt_neox": (SMALL, dict(
        SIZES, **ROTARY, hidden_size=[64], num_attention_heads=[2], layer_norm_eps=[0.01], hidden_act=["relu", "gelu_new"], attention_bias=[False],
        use_parallel_residual=[False], rotary_pct=[0.5], rotary_emb_base=[100.0], layer_types=[LATER[:1] * 3])),
}


def read_rows(path):
    """The rows of hf_keys.cpp and hf_keys_without_effect.txt: {family: {key: list of allowed values, or None if the key
    has no effect}}."""
    with open(path) as file:
        text = file.read()
    rows = re.findall(r'^ +{"([^"]*)", "([^"]*)",\s+"([^"]*)"', text, re.MULTILINE)
    if len(rows) < 10 or len(rows) != len(re.findall(r"^ +{", text, re.MULTILINE)):
        sys.exit(f"{path}: {len(rows)} rows read")
    with open(os.path.join(os.path.dirname(__file__), "hf_keys_without_effect.txt")) as file:
        for line in file:
            if not line.startswith("#"):
                key, _, families = line.rstrip("\n").split(" | ")
                rows.append((families, key, ""))
    found = {family: {} for family in FAMILIES}
    for families, key, allowed in rows:
        for family in FAMILIES if families == "*" else families.split():
            found[family][key] = json.loads(allowed) if allowed else None
    return found


def cases(family):
    base, changes = FAMILIES[family]
    yield "base", dict(base, model_type=family)
    for key, values in changes.items():
        for value in values:
            config = dict(base, model_type=family, **(value if is_settings(key, value) else {key: value}))
            yield key, {name: one for name, one in config.items() if one is not REMOVED}


def is_settings(key, value):
    return isinstance(value, dict) and (key in value or REMOVED in value.values())


def write_config(folder, config):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file)


def make_model(folder, config):
    """A model with random weights; its config.json has exactly the keys of `config`."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    write_config(folder, config)
    torch.manual_seed(16)
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder), attn_implementation="eager")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(1 if re.search(r"(norm|ln_\w+)\.weight$", name) else 0, 0.2)
    model.save_pretrained(folder)
    write_config(folder, config)
    return model


def keys_read(model):
    """The names of configuration attributes that a pass through the model and a continuation read."""
    import torch

    read = set()
    original = type(model.config).__getattribute__

    def record(self, name):
        read.add(name)
        return original(self, name)

    type(model.config).__getattribute__ = record
    try:
        type(model)(model.config)
        model.generate(torch.tensor([[5, 7]]), max_new_tokens=2, do_sample=False, pad_token_id=0)
    finally:
        type(model.config).__getattribute__ = original
    own = type(model.config)
    return {name for name in read if not name.startswith("_") and not hasattr(own, name)}


def known_keys(config_class):
    """Keys of config.json that a configuration class reads, by its source."""
    import dataclasses

    keys = {field.name for field in dataclasses.fields(config_class)} | set(config_class.attribute_map)
    for cls in config_class.__mro__:
        if not cls.__module__.startswith("transformers."):
            continue
        source = inspect.getsource(cls)
        keys |= set(re.findall(r"""kwargs\.(?:pop|get)\(\s*["'](\w+)["']""", source))
        keys |= set(re.findall(r"""["'](\w+)["'] in kwargs""", source))
    return keys


def not_config_keys():
    """Parameters of generation, arguments of from_pretrained, and the key that selects the family."""
    from transformers import GenerationConfig

    return set(GenerationConfig._get_default_generation_params()) | {
        "_from_auto", "_from_pipeline", "cache_dir", "force_download", "gguf_file", "local_files_only", "proxies",
        "revision", "subfolder", "token", "trust_remote_code", "return_unused_kwargs", "push_to_hub", "repo_id",
        "_commit_hash", "_configuration_file", "commit_message", "model_type"}


def judged(inc):
    rows = read_rows(inc)
    skipped = not_config_keys()
    unjudged = []
    for family, (_, changes) in FAMILIES.items():
        with tempfile.TemporaryDirectory() as folder:
            model = make_model(folder, next(cases(family))[1])
        keys = known_keys(type(model.config)) | keys_read(model)
        if not {"vocab_size", "is_causal", "is_encoder_decoder"} <= keys:
            sys.exit(f"{family}: the walk does not see its keys: {sorted(keys)}")
        unjudged += [f"{family}: {key}" for key in sorted(keys - skipped - set(changes) - set(rows[family]))]
        print(f"{family}: {len(keys - skipped)} keys")
    if unjudged:
        sys.exit("transformers knows keys that mtl has not judged (libcore/models/hf_keys.cpp):\n" + "\n".join(unjudged))


def make(inc, folder):
    for family in FAMILIES:
        for number, (key, config) in enumerate(cases(family)):
            make_model(os.path.join(folder, f"{family}.{key}.{number}"), config)


def refused(inc, folder):
    lines = []
    for family, rows in read_rows(inc).items():
        base = next(cases(family))[1]
        for key, allowed in rows.items():
            if allowed is None:
                continue
            for number, value in enumerate([True, False, None, 7, {"a": 1}]):
                if not any(json.dumps(value) == json.dumps(one) for one in allowed):
                    write_config(os.path.join(folder, f"{family}.{key}.{number}"), dict(base, **{key: value}))
                    lines.append(f"{family}.{key}.{number} {key}\n")
    with open(os.path.join(folder, "KEYS"), "w") as file:
        file.writelines(lines)


if __name__ == "__main__":
    {"judged": judged, "make": make, "refused": refused}[sys.argv[1]](*sys.argv[2:])
