// Decodes multiple sequences token by token. Caches keys and values, so that a new token needs a pass over only one
// position, no matter how long the sequence is. If the model's rotary frequencies depend on the length of the sequence,
// those of a call are for the length after it, and keys of earlier calls keep theirs. For the same frequencies
// everywhere, clear the sequence and append all of it (rotary_frequencies_change()). Does not allocate buffers after
// construction.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "device/copy.h"
#include "eval/model.h"

namespace mtl {

class Decoder {
 public:
  /// Allocates memory for `sequences` sequences of up to `positions` tokens each. `positions` must be from 1 to the
  /// model's number of positions. All sequences are empty at first. On the CPU, throws Error(usage) if there is not
  /// enough memory.
  Decoder(Model& model, std::int64_t sequences, std::int64_t positions);

  std::int64_t sequences() const { return sequences_; }
  /// Returns the size of the cached keys and values, in bytes.
  std::size_t cache_bytes() const { return cache_memory_.bytes(); }
  /// Returns how many tokens a sequence holds: at most the constructor's `positions`.
  std::int64_t length_of(std::int64_t sequence) const { return lengths()[sequence]; }
  void clear(std::int64_t sequence) { lengths()[sequence] = 0; }

  /// Appends one or more ids to a sequence. Returns the logits (V) for the next token, which are valid until the next
  /// call. Throws if the sequence would hold more than `positions` tokens.
  std::span<const float> append(std::int64_t sequence, std::span<const std::int32_t> ids);
  /// Appends one id to every sequence. An id below 0 instead empties the sequence. Returns logits (sequences, V), in
  /// which the rows for emptied sequences are undefined. Throws if a sequence already holds `positions` tokens.
  std::span<const float> step(std::span<const std::int32_t> ids);

 private:
  std::int32_t* lengths() const { return on_host_->lengths.tensor().data<std::int32_t>(); }
  void run(std::int64_t first, std::int64_t rows, std::int64_t count, std::int64_t length, Chunk::Cache& past);
  std::span<const float> host_logits(std::int64_t rows);

  Model& model_;
  std::int64_t sequences_, capacity_;
  Buffer cache_memory_, small_memory_;
  Tensor lengths_;                  // (B) i32
  Tensor tokens_, positions_;       // flat i32, for a step or a piece of a prompt
  Tensor logits_;                   // (B, V)
  Chunk::Cache all_;                // keys and values for all sequences
  std::vector<Chunk::Cache> each_;  // by sequence: the part of all_ with that sequence's keys and values
  Workspace workspace_;
  struct OnHost {
    OnHost(const Decoder& d)
        : lengths(d.model_.device(), d.lengths_),
          tokens(d.model_.device(), d.tokens_),
          positions(d.model_.device(), d.positions_),
          logits(d.model_.device(), d.logits_) {}
    HostView lengths, tokens, positions, logits;
  };
  std::optional<OnHost> on_host_;
};

}  // namespace mtl
