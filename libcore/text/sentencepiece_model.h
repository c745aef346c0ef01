// Reads a SentencePiece model file: its pieces and the settings that affect encoding and decoding.
//
// The file is a protocol buffer (sentencepiece_model.proto, ModelProto). The reader implements only the wire format: it
// skips unknown fields, as protocol buffers do, and checks every length. It also skips self-test samples and fields
// that only describe the training (trainer_spec, except the fields below). Throws Error(bad_data) with the file name
// for
// - word and character models
// - unknown kinds of pieces
// - models that SentencePiece itself rejects: empty or repeated pieces, no <unk>, byte pieces without byte fallback,
//   fewer than 256 byte pieces
// - models that SentencePiece accepts but cannot use: scores that are not finite, pieces that are not UTF-8 or contain
//   U+0000, control pieces with a single character in a BPE model
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mtl {

/// The remedy in messages about a model that is damaged, or that SentencePiece did not write.
inline constexpr std::string_view kCopyModel = "; copy the model again as SentencePiece wrote it, or use another one";

/// A piece. Kinds are numbered as in the file.
struct SentencePiece {
  enum class Kind : int { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };
  std::string text;
  float score = 0;
  Kind kind = Kind::normal;
  /// True if text can match the piece. Text never matches other kinds.
  bool is_matched() const { return kind == Kind::normal || kind == Kind::user_defined || kind == Kind::unused; }
};

/// Rules that change text before encoding or after decoding (text/sentencepiece_normalizer.h).
struct SentencePieceRules {
  std::string charsmap;  // precompiled rules; empty: none
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
};

struct SentencePieceModel {
  enum class Algorithm : int { unigram = 1, bpe = 2, word = 3, character = 4 };
  std::string source;  // the file, for messages
  std::vector<SentencePiece> pieces;
  Algorithm algorithm = Algorithm::unigram;
  bool byte_fallback = false;
  bool whitespace_as_suffix = false;
  SentencePieceRules normalizer;
  SentencePieceRules denormalizer;
  std::string unk_surface = " \xE2\x81\x87 ";  // the text that <unk> decodes to
  std::string bos_piece = "<s>", eos_piece = "</s>", pad_piece = "<pad>";
  // Ids, or -1 if the model does not have such a control piece. unk is always set.
  std::int32_t unk = -1, bos = -1, eos = -1, pad = -1;
  std::array<std::int32_t, 256> byte_ids{};  // only with byte_fallback

  const SentencePiece& piece(std::int32_t id) const { return pieces[id]; }
};

/// Throws Error(bad_data) with a message that starts with `source`.
SentencePieceModel parse_sentencepiece_model(std::string_view content, const std::string& source);

}  // namespace mtl
