#!/usr/bin/env python3
"""The peers of mtl's tokenizer in `make bench`: one of them encodes a corpus, or trains a vocabulary on it.

  text_peers.py versions
  text_peers.py encode PEER CORPUS.jsonl VOCAB.json MERGES.txt   PEER: tokenizers, tiktoken or gigatoken
  text_peers.py train CORPUS.jsonl SIZE OUT-PREFIX               tokenizers' BpeTrainer
  text_peers.py files CORPUS.jsonl VOCAB.json MERGES.txt         gigatoken's own reader of JSON lines
  text_peers.py run COMMAND...                                   any program, for its figures

encode prints {"first", "again": MB a second of processor time on one core, "tokens", "sha256"}, as mtl_bench_text does.
train prints {"seconds"} of the whole training, reading included, and writes OUT-PREFIX-vocab.json and -merges.txt.
files and run print {"wall", "cpu": seconds, "peak_mb": memory}. files leaves out start-up and keeps the ids in memory;
RAYON_NUM_THREADS says how many threads encode, and with 1 all is done in one. run ends with the program's exit code.
"""
import hashlib
import importlib.metadata
import json
import os
import resource
import sys
import tempfile
import time

PEERS = ("tokenizers", "tiktoken", "gigatoken")
PATTERN = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""


def texts_of(path):
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)["text"]


def gpt2_of_tokenizers(vocab, merges):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    tokenizer = Tokenizer(models.BPE.from_file(vocab, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def byte_of_characters():
    """What each character of a token in vocab.json stands for."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


def encoder_of(peer, vocab, merges):
    """A function from a list of texts to a list of lists of ids, on one core."""
    if peer == "tokenizers":
        tokenizer = gpt2_of_tokenizers(vocab, merges)
        return lambda texts: [tokenizer.encode(text).ids for text in texts]
    if peer == "gigatoken":
        import gigatoken

        tokenizer = gigatoken.Tokenizer.from_json(gpt2_of_tokenizers(vocab, merges).to_str())
        return lambda texts: tokenizer.encode_batch(texts, parallel=False)
    import tiktoken

    byte_of = byte_of_characters()
    with open(vocab, encoding="utf-8") as file:
        ids = json.load(file)
    ids.pop("<|endoftext|>", None)
    ranks = {bytes(byte_of[character] for character in token): number for token, number in ids.items()}
    encoding = tiktoken.Encoding("gpt2", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={})
    return lambda texts: [encoding.encode_ordinary(text) for text in texts]


def encode(peer, corpus, vocab, merges):
    import array

    texts = list(texts_of(corpus))
    megabytes = sum(len(text.encode("utf-8")) for text in texts) / 1e6
    encode_all = encoder_of(peer, vocab, merges)
    encode_all(["what is made at the first call does not count"])
    rates = []
    for _ in range(2):
        begin = time.process_time()
        lists = encode_all(texts)
        rates.append(megabytes / (time.process_time() - begin))
    digest, tokens = hashlib.sha256(), 0
    for ids in lists:
        digest.update(array.array("i", ids.tolist() if hasattr(ids, "tolist") else ids).tobytes())
        tokens += len(ids)
    print(json.dumps({"first": round(rates[0], 2), "again": round(rates[1], 2), "tokens": tokens, "sha256": digest.hexdigest()}))


def train(corpus, size, prefix):
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    begin = time.time()
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=int(size), special_tokens=["<|endoftext|>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(texts_of(corpus), trainer)
    tokenizer.model.save(os.path.dirname(prefix), os.path.basename(prefix))
    print(json.dumps({"seconds": round(time.time() - begin, 2)}))


def processor_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def figures(wall, cpu, peak_kib):
    print(json.dumps({"wall": round(wall, 4), "cpu": round(cpu, 4), "peak_mb": round(peak_kib * 1024 / 1e6, 1)}))


def encode_files(corpus, vocab, merges):
    import gigatoken
    from gigatoken.gigatoken_rs import JsonlFileSource

    tokenizer = gigatoken.Tokenizer.from_json(gpt2_of_tokenizers(vocab, merges).to_str())
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as small:  # what is made at the first call does not count
        small.write('{"text": "a"}\n')
        small.flush()
        tokenizer.encode_files(JsonlFileSource([small.name]), parallel=False)
    cpu, wall = processor_seconds(), time.time()
    ids = tokenizer.encode_files(JsonlFileSource([corpus]), parallel=os.environ.get("RAYON_NUM_THREADS") != "1")
    figures(time.time() - wall, processor_seconds() - cpu, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return ids


def run(command):
    begin = time.time()
    _, status, usage = os.wait4(os.posix_spawnp(command[0], command, os.environ), 0)
    figures(time.time() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss)
    sys.exit(os.waitstatus_to_exitcode(status))


def main():
    if sys.argv[1:2] == ["versions"]:
        for peer in PEERS:
            try:
                print(peer, importlib.metadata.version(peer))
            except importlib.metadata.PackageNotFoundError:
                pass
    elif sys.argv[1:2] == ["encode"] and len(sys.argv) == 6:
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        encode(*sys.argv[2:])
    elif sys.argv[1:2] == ["files"] and len(sys.argv) == 5:
        encode_files(*sys.argv[2:])
    elif sys.argv[1:2] == ["run"] and len(sys.argv) > 2:
        run(sys.argv[2:])
    elif sys.argv[1:2] == ["train"] and len(sys.argv) == 5:
        train(*sys.argv[2:])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
