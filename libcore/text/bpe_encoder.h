// The byte-level BPE encoder. Splits text into pre-tokens (text/pretokenizer.h, text/splitter.h), and splits pre-tokens
// into parts that no merge crosses. Looks up each part's tokens in caches (text/pretoken_table.h,
// text/pretoken_cache.h), and runs the merge loop (text/bpe_model.h) for parts that are not cached.
#pragma once

#include <memory>

#include "text/bpe_model.h"
#include "text/splitter.h"
#include "text/tokenizer.h"

namespace mtl {

/// The caller must keep `model` alive. If `splitter` is null, uses GPT-2's pattern.
std::unique_ptr<Encoder> make_bpe_encoder(const BpeModel& model, EncoderMemory memory,
                                          std::unique_ptr<Splitter> splitter = nullptr);

}  // namespace mtl
