"""Writes tokenizer.json and cases.jsonl: transformers' results for the files next to a tokenizer.json.

    python3 make.py [FOLDER [CASES [SEED]]]

Each case has the files (`tokenizer`: keys that replace those of tokenizer.json), and either `raises`, the error of
transformers, or `ids` of each of `texts` (null if the library aborts), `end` (the id of eos_token, or null), and
`grows`: tokens that transformers adds to the vocabulary.
"""
import json
import os
import random
import sys
import tempfile

import tokenizers
import transformers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

transformers.logging.set_verbosity(transformers.logging.CRITICAL)

HERE = os.path.dirname(os.path.abspath(__file__))
STANDARD = ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"]
# Tokens of the model's vocabulary that are not added tokens, and texts that only added tokens have.
IN_MODEL = ["<s>", "</s>", "<unk>", "<pad>", "<mask>", "<image>", "[X]", "ab", "the", "<|endoftext|>"]
BEYOND = ["  ", " ", "\t", "<a b>", "b>", "[X] ", "xe\u0301", "x\u00e9", "word", "<end>", "\n", "<image>\n"]
PIECES = IN_MODEL + BEYOND + [" ", "  ", "\n", "\t ", "\u00a0", "a", "word", " the", "x", "\u00e9", "e\u0301", "!", "_", "1"]


def base_tokenizer():
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocab = {token: i for i, token in enumerate(letters)}
    merges = [("t", "h"), ("th", "e"), ("\u0120", "the"), ("a", "b"), ("w", "o"), ("r", "d"), ("wo", "rd"),
              ("\u0120", "\u0120"), ("\u00c3", "\u00a9"), ("<", "s"), ("\u0120", "word")]
    for left, right in merges:
        vocab.setdefault(left + right, len(vocab))
    for token in IN_MODEL:
        vocab.setdefault(token, len(vocab))
    backend = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocab, merges=merges))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = tokenizers.decoders.ByteLevel()
    return json.loads(backend.to_str())


class Maker:
    def __init__(self, seed, base):
        self.random = random.Random(seed)
        self.base = base
        self.vocab = base["model"]["vocab"]

    def chance(self, part):
        return self.random.random() < part

    def flags(self, often=0.3):
        return {name: self.chance(often) for name in ("lstrip", "rstrip", "single_word", "normalized", "special")}

    def added_tokens(self):
        contents = self.random.sample(IN_MODEL, self.random.randint(0, 4)) + \
            self.random.sample(BEYOND, self.random.randint(0, 5))
        self.random.shuffle(contents)
        ids, out = len(self.vocab), []
        for content in contents:
            if content in self.vocab:
                number = self.vocab[content]
            else:
                number, ids = ids, ids + 1
            out.append({"id": number, "content": content, **self.flags()})
        return out

    def name(self, known):
        """The text of a special token, rarely absent from the vocabulary."""
        return "<new>" if self.chance(0.02) else self.random.choice(known)

    def value(self, known, typed):
        if self.chance(0.05):
            return None
        if self.chance(0.6):
            return self.name(known)
        token = {"content": self.name(known), **{k: v for k, v in self.flags().items() if self.chance(0.8)}}
        if typed and self.chance(0.9):
            token["__type"] = "AddedToken"
        if not typed:
            token.pop("special", None)
        return token

    def named(self, known, typed):
        out = {}
        keys = STANDARD + ["image_token", "audio_token"]
        for key in self.random.sample(keys, self.random.randint(0, 4)):
            out[key] = self.value(known, typed)
        for key, part in (("additional_special_tokens", 0.15), ("extra_special_tokens", 0.15)):
            if not self.chance(part):
                continue
            if self.chance(0.3) and key == "extra_special_tokens":
                out[key] = {f"{word}_token": self.name(known) for word in self.random.sample(["image", "code", "eos"], 2)}
            else:
                out[key] = [self.value(known, typed) if self.chance(0.2) else self.name(known)
                            for _ in range(self.random.randint(0, 3))]
                out[key] = [token for token in out[key] if token is not None]
        return out

    def case(self, number):
        added = self.added_tokens()
        contents = [token["content"] for token in added]
        known = sorted(set(contents + IN_MODEL))
        tokenizer = {"added_tokens": added}
        if self.chance(0.3):
            tokenizer["normalizer"] = {"type": "NFC"}
        files = {}
        if self.chance(0.8):
            config = self.named(known, True)
            if self.chance(0.4):
                decoder = {}
                chosen = added if self.chance(0.5) else self.random.sample(added, self.random.randint(0, len(added)))
                for token in chosen:
                    entry = dict(token) if self.chance(0.4) else {**token, **self.flags()}
                    number = entry.pop("id")
                    decoder[str(number)] = {k: v for k, v in entry.items()
                                                     if k == "content" or self.chance(0.95)}
                if self.chance(0.5):
                    word = self.random.choice(IN_MODEL)
                    decoder[str(self.vocab[word])] = {"content": word, **self.flags()}
                config["added_tokens_decoder"] = decoder
            if self.chance(0.25):
                config["split_special_tokens"] = self.chance(0.8)
            if self.chance(0.3):
                # GPT-2's class ignores the normalizer of tokenizer.json.
                own = [] if "normalizer" in tokenizer else ["GPT2Tokenizer", "GPT2TokenizerFast"]
                config["tokenizer_class"] = self.random.choice(["PreTrainedTokenizerFast", "TokenizersBackend"] + own)
            files["tokenizer_config.json"] = config
        if self.chance(0.4):
            files["special_tokens_map.json"] = self.named(known, False)
        if self.chance(0.15):
            words = self.random.sample(known, min(len(known), 3))
            ids = {**self.vocab, **{token["content"]: token["id"] for token in added}}
            files["added_tokens.json"] = {word: ids[word] for word in words}
        texts = ["".join(self.random.choice(PIECES + contents * 3) for _ in range(self.random.randint(1, 14)))
                 for _ in range(4)]
        return {"name": f"case {number}", "tokenizer": tokenizer, "files": files, "texts": texts}


def answer(case, base):
    with tempfile.TemporaryDirectory() as folder:
        whole = {**base, **case["tokenizer"]}
        with open(f"{folder}/tokenizer.json", "w") as out:
            json.dump(whole, out)
        for name, content in case["files"].items():
            with open(f"{folder}/{name}", "w") as out:
                json.dump(content, out)
        has_class = case["files"].get("tokenizer_config.json", {}).get("tokenizer_class")
        loader = AutoTokenizer if has_class else PreTrainedTokenizerFast
        size = tokenizers.Tokenizer.from_file(f"{folder}/tokenizer.json").get_vocab_size()
        try:
            tokenizer = loader.from_pretrained(folder)
        except Exception as error:
            return {"raises": f"{type(error).__name__}: {str(error).splitlines()[0]}"[:160]}
        out = {"ids": [], "end": tokenizer.eos_token_id if "eos_token" in tokenizer.special_tokens_map else None,
               "grows": len(tokenizer) - size}
        for text in case["texts"]:
            try:
                out["ids"].append(tokenizer.encode(text, add_special_tokens=False))
            except BaseException as error:  # a panic of the Rust library is not an Exception
                if type(error).__name__ != "PanicException":
                    raise
                out["ids"].append(None)
        return out


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else HERE
    cases = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    base = base_tokenizer()
    maker = Maker(seed, base)
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/tokenizer.json", "w") as out:
        out.write(json.dumps(base, ensure_ascii=True) + "\n")
    with open(f"{folder}/cases.jsonl", "w") as out:
        for number in range(cases):
            case = maker.case(number)
            out.write(json.dumps({**case, **answer(case, base)}, ensure_ascii=True) + "\n")


main()
