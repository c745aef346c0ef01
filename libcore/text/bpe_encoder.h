// The encoder of byte-level BPE: a text is cut into pre-tokens (text/pretokenizer.h, text/splitter.h), and these into
// parts that no merge ever joins; a part is remembered (text/pretoken_cache.h), or goes through the merge loop
// (text/bpe_model.h).
#pragma once

#include <memory>

#include "text/bpe_model.h"
#include "text/splitter.h"
#include "text/tokenizer.h"

namespace mtl {

/// The model must outlive it. `splitter` cuts the pre-tokens; without it, GPT-2's pattern does.
std::unique_ptr<Encoder> make_bpe_encoder(const BpeModel& model, EncoderMemory memory,
                                          std::unique_ptr<Splitter> splitter = nullptr);

}  // namespace mtl
