#!/usr/bin/env python3
"""Makes the files next to it: make.py FOLDER. Needs numpy (written with 2.4.6).

The documents are ids of GPT-2's vocabulary, or of a larger one; the first 14 documents of `small` are those of
expected.txt. Each writer follows the one of its project, statement by statement where it matters:

- nanoGPT, data/openwebtext/prepare.py: a memmap of uint16, the end-of-text token after each document
- llm.c, dev/data/data_common.py: write_datafile(), 256 int32, then uint16 or uint32; dev/data/fineweb.py puts the
  end-of-text token before each document, and cuts shards without regard to documents
- llmq, scripts/tokenize_data.py: TokenizedDataFileWriter, 1,024 bytes with BIN.TOK, then int32, then masks
- lit-gpt, lit_gpt/packed_dataset.py: PackedDatasetBuilder, files of as many tokens as chunk_size says
- NumPy: numpy.save(), and numpy.lib.format.write_array() for the versions that numpy.save() does not choose
"""

import os
import struct
import sys

import numpy as np

SMALL_EOT, LARGE_EOT = 50256, 128001


def documents(vocabulary):
    random = np.random.RandomState(1234)
    return [random.randint(0, vocabulary, size=random.randint(1, 40)).tolist() for _ in range(14)]


def write_nanogpt(path, docs, eot, dtype):
    ids = np.concatenate([np.array(doc + [eot]) for doc in docs])
    arr = np.memmap(path, dtype=dtype, mode="w+", shape=(len(ids),))
    arr[:] = ids
    arr.flush()


def write_llm_c(path, toks, magic, version, dtype):
    header = np.zeros(256, dtype=np.int32)
    header[0] = magic
    header[1] = version
    header[2] = len(toks)
    with open(path, "wb") as f:
        f.write(header.tobytes())
        f.write(np.array(toks, dtype=dtype).tobytes())


def write_llmq(path, docs, eot, vocab_size, version=2, masks=False):
    with open(path, "wb+") as f:
        f.write(("*" * 1023 + "\n").encode("ascii"))
        count = 0
        for doc in docs:
            tokens = np.array(doc + [eot], dtype=np.int32)
            f.write(tokens.tobytes())
            count += len(tokens)
        if masks:
            f.write(np.packbits(np.ones(count, dtype=bool), bitorder="little").tobytes())
        f.seek(0)
        f.write("BIN.TOK\n".encode("ascii"))
        numbers = [version, 4, count] + ([vocab_size, masks] if version == 2 else [])
        f.write(np.array(numbers, dtype=np.int32).tobytes())


def write_lit_gpt(path, toks, chunk_size, sep_token, dtype, code):
    """Writes one file for each chunk, named path.format(number); the last is filled up with sep_token."""
    for number, begin in enumerate(range(0, len(toks), chunk_size)):
        arr = np.zeros(chunk_size, dtype=dtype)
        arr.fill(sep_token)
        part = np.array(toks[begin : begin + chunk_size], dtype=dtype)
        arr[: len(part)] = part
        with open(path.format(number), "wb") as f:
            f.write(b"LITPKDS")
            f.write(struct.pack("<Q", 1))
            f.write(struct.pack("<B", code))
            f.write(struct.pack("<Q", chunk_size))
            f.write(arr.tobytes(order="C"))


def write_npy_version(path, array, version):
    with open(path, "wb") as f:
        np.lib.format.write_array(f, array, version=version)


def main(folder):
    os.chdir(folder)
    small, large = documents(SMALL_EOT), documents(LARGE_EOT)
    for name, docs, eot in (("small", small, SMALL_EOT), ("large", large, LARGE_EOT)):
        with open(f"{name}.txt", "w") as f:  # as `mtl-data cat` prints them
            for doc in docs:
                print(*doc, eot, file=f)

    write_nanogpt("nanogpt_u16.bin", small, SMALL_EOT, np.uint16)
    write_nanogpt("nanogpt_u32.bin", large, LARGE_EOT, np.uint32)

    # The end-of-text token comes first, and the cut is in the middle of a document.
    stream = [token for doc in small for token in [SMALL_EOT] + doc]
    for shard, toks in enumerate((stream[:100], stream[100:])):
        write_llm_c(f"llm_c_train_{shard:06d}.bin", toks, 20240520, 1, np.uint16)
    stream = [token for doc in large for token in [LARGE_EOT] + doc]
    write_llm_c("llm_c_llama3.bin", stream, 20240801, 7, np.uint32)
    write_llm_c("llm_c_questions.bin", [65535, 12, 0, 1, 4, 0], 20240522, 1, np.uint16)

    write_llmq("llmq.bin", large, LARGE_EOT, 128000)
    write_llmq("llmq_v1.bin", large, LARGE_EOT, None, version=1)
    write_llmq("llmq_masks.bin", large, LARGE_EOT, 128000, masks=True)

    stream = [token for doc in small for token in doc + [SMALL_EOT]]
    write_lit_gpt("lit_gpt_train_{:010d}.bin", stream, 150, SMALL_EOT, np.uint16, 8)
    stream = [token for doc in large for token in doc + [LARGE_EOT]]
    write_lit_gpt("lit_gpt_i32.bin", stream, len(stream), LARGE_EOT, np.int32, 4)

    flat = np.array([token for doc in small for token in doc + [SMALL_EOT]])
    for dtype in ("u2", "i4", "u4", "i8", "u8"):
        np.save(f"npy_{dtype}.npy", flat.astype(dtype))
    bytes_ = (flat % 128).astype("u1")
    np.save("npy_u1.npy", bytes_)
    np.save("npy_i1.npy", bytes_.astype("i1"))
    np.save("npy_i2.npy", (flat % 32768).astype("i2"))
    write_npy_version("npy_version2.npy", flat.astype("u2"), (2, 0))
    write_npy_version("npy_version3.npy", flat.astype("u2"), (3, 0))
    # Refused.
    np.save("bad_float.npy", flat.astype("f4"))
    np.save("bad_big_endian.npy", flat.astype(">u2"))
    np.save("bad_object.npy", flat[:4].astype(object), allow_pickle=True)
    np.save("bad_matrix.npy", flat[:40].astype("u2").reshape(8, 5))
    np.save("bad_fortran.npy", np.asfortranarray(flat[:40].astype("u2").reshape(8, 5)))
    np.save("bad_scalar.npy", np.uint16(7))
    np.save("bad_fields.npy", np.zeros(3, dtype=[("id", "u2"), ("mask", "u1")]))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__)))
