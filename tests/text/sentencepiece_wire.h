// Writes SentencePiece model files for tests, one protobuf field at a time.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/sentencepiece_model.h"

namespace mtl {

inline void append_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}
inline void append_number(std::string& out, std::uint64_t field, std::uint64_t value) {
  append_varint(out, field << 3);
  append_varint(out, value);
}
inline void append_bytes(std::string& out, std::uint64_t field, std::string_view bytes) {
  append_varint(out, field << 3 | 2);
  append_varint(out, bytes.size());
  out += bytes;
}
inline void append_float(std::string& out, std::uint64_t field, float value) {
  append_varint(out, field << 3 | 5);
  auto bits = std::bit_cast<std::uint32_t>(value);
  for (int i = 0; i < 4; ++i) out += static_cast<char>(bits >> (8 * i));
}

inline std::string rules_message(const SentencePieceRules& rules) {
  std::string out;
  append_bytes(out, 2, rules.charsmap);
  append_number(out, 3, rules.add_dummy_prefix);
  append_number(out, 4, rules.remove_extra_whitespaces);
  append_number(out, 5, rules.escape_whitespaces);
  return out;
}

/// Returns the contents of a file that parse_sentencepiece_model parses into `model`.
inline std::string sentencepiece_file(const SentencePieceModel& model) {
  std::string out, trainer;
  for (const SentencePiece& piece : model.pieces) {
    std::string message;
    append_bytes(message, 1, piece.text);
    append_float(message, 2, piece.score);
    append_number(message, 3, static_cast<std::uint64_t>(piece.kind));
    append_bytes(out, 1, message);
  }
  append_number(trainer, 3, static_cast<std::uint64_t>(model.algorithm));
  append_number(trainer, 24, model.whitespace_as_suffix);
  append_number(trainer, 35, model.byte_fallback);
  append_bytes(trainer, 44, model.unk_surface);
  append_bytes(trainer, 46, model.bos_piece);
  append_bytes(out, 2, trainer);
  append_bytes(out, 3, rules_message(model.normalizer));
  append_bytes(out, 5, rules_message(model.denormalizer));
  return out;
}

}  // namespace mtl
