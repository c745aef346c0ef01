#include "text/sentencepiece_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <unordered_map>

#include "base/error.h"
#include "base/json_cursor.h"
#include "base/protobuf.h"
#include "base/utf8.h"

namespace mtl {

namespace {

using Kind = SentencePiece::Kind;

using Field = ProtobufField;

/// Calls `take(field)` for every field in a message, in file order.
template <class Take>
void for_each_field(std::string_view message, const std::string& source, Take take) {
  while (!message.empty()) {
    Field field;
    try {
      field = take_field(message);
    } catch (const Error& error) {
      fail(Exit::bad_data, source, " is not a SentencePiece model, or is damaged: ", error.what(), kCopyModel);
    }
    take(field);
  }
}

SentencePiece read_piece(std::string_view message, std::size_t id, const std::string& source) {
  SentencePiece piece;
  for_each_field(message, source, [&](const Field& field) {
    if (field.is(1, Field::length)) piece.text = field.bytes;
    if (field.is(2, Field::fixed32))
      piece.score = std::bit_cast<float>(static_cast<std::uint32_t>(from_little_endian(field.bytes)));
    if (field.is(3, Field::varint)) {
      if (field.value < 1 || field.value > 6)
        fail(Exit::bad_data, source, ": piece ", id, " has the unknown type ", field.value, kCopyModel);
      piece.kind = static_cast<Kind>(field.value);
    }
  });
  return piece;
}

void read_trainer(std::string_view message, SentencePieceModel& model) {
  auto set_name = [](std::string& name, std::string_view given) {
    if (!given.empty()) name = given;  // for SentencePiece, an empty name means the default
  };
  for_each_field(message, model.source, [&](const Field& field) {
    if (field.is(3, Field::varint)) {
      if (field.value < 1 || field.value > 4)
        fail(Exit::bad_data, model.source, ": the model type ", field.value, " is unknown; use a unigram or BPE model");
      model.algorithm = static_cast<SentencePieceModel::Algorithm>(field.value);
    }
    if (field.is(24, Field::varint)) model.whitespace_as_suffix = field.value != 0;
    if (field.is(35, Field::varint)) model.byte_fallback = field.value != 0;
    if (field.is(44, Field::length)) model.unk_surface = field.bytes;
    if (field.is(46, Field::length)) set_name(model.bos_piece, field.bytes);
    if (field.is(47, Field::length)) set_name(model.eos_piece, field.bytes);
    if (field.is(48, Field::length)) set_name(model.pad_piece, field.bytes);
  });
}

void read_rules(std::string_view message, const std::string& source, SentencePieceRules& rules) {
  for_each_field(message, source, [&](const Field& field) {
    if (field.is(2, Field::length)) rules.charsmap = field.bytes;
    if (field.is(3, Field::varint)) rules.add_dummy_prefix = field.value != 0;
    if (field.is(4, Field::varint)) rules.remove_extra_whitespaces = field.value != 0;
    if (field.is(5, Field::varint)) rules.escape_whitespaces = field.value != 0;
  });
}

bool is_one_character(std::string_view text) {
  return next_utf8(text.data(), text.data() + text.size()).length == static_cast<int>(text.size());
}

/// Returns the byte in a piece such as "<0x41>", or -1 for any other text.
int byte_of_piece(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  if (text.size() != 6 || text.substr(0, 3) != "<0x" || text[5] != '>') return -1;
  std::size_t high = kDigits.find(text[3]), low = kDigits.find(text[4]);
  if (high == kDigits.npos || low == kDigits.npos) return -1;
  return static_cast<int>(high << 4 | low);
}

void check_piece(const SentencePieceModel& model, std::size_t id) {
  const SentencePiece& piece = model.pieces[id];
  auto refuse = [&](const auto&... what) { fail(Exit::bad_data, model.source, ": piece ", id, what..., kCopyModel); };
  if (piece.text.empty()) refuse(" is empty");
  if (find_invalid_utf8(piece.text) != std::string::npos) refuse(" is not UTF-8");
  if (!std::isfinite(piece.score)) refuse(" (", piece.text, ") has a score that is not a finite number");
  if (piece.is_matched() && piece.text.find('\0') != std::string::npos) refuse(" contains U+0000");
  if (piece.kind == Kind::byte) {
    if (!model.byte_fallback) refuse(" (", piece.text, ") is a byte, but the model has no byte_fallback");
    if (byte_of_piece(piece.text) < 0) refuse(" (", piece.text, ") is a byte, but not written <0x00> to <0xFF>");
  }
  // SentencePiece's BPE also looks up single characters among the control pieces, and then fails.
  if (model.algorithm == SentencePieceModel::Algorithm::bpe && piece.kind == Kind::control &&
      is_one_character(piece.text))
    refuse(" (", piece.text, ") is a control piece of one character, which a BPE model cannot have");
}

/// Checks the pieces and finds the special ones.
void resolve_pieces(SentencePieceModel& model) {
  std::unordered_map<std::string_view, std::int32_t> ids;
  model.byte_ids.fill(-1);
  for (std::size_t i = 0; i < model.pieces.size(); ++i) {
    check_piece(model, i);
    const SentencePiece& piece = model.pieces[i];
    auto id = static_cast<std::int32_t>(i);
    if (!ids.emplace(piece.text, id).second)
      fail(Exit::bad_data, model.source, ": piece ", i, " (", piece.text, ") appears twice", kCopyModel);
    if (piece.kind == Kind::unknown) {
      if (model.unk >= 0)
        fail(Exit::bad_data, model.source, ": pieces ", model.unk, " and ", i, " are both the unknown piece",
             kCopyModel);
      model.unk = id;
    }
    if (piece.kind == Kind::byte) model.byte_ids[byte_of_piece(piece.text)] = id;
  }
  if (model.unk < 0)
    fail(Exit::bad_data, model.source, " is not a SentencePiece model, because it has no unknown piece", kCopyModel);
  auto missing = std::ranges::find(model.byte_ids, -1);
  if (model.byte_fallback && missing != model.byte_ids.end())
    fail(Exit::bad_data, model.source, ": the model has byte_fallback, but no piece for byte ",
         missing - model.byte_ids.begin(), kCopyModel);
  auto control = [&](const std::string& text) {
    auto found = ids.find(text);
    return found != ids.end() && model.piece(found->second).kind == Kind::control ? found->second : -1;
  };
  model.bos = control(model.bos_piece);
  model.eos = control(model.eos_piece);
  model.pad = control(model.pad_piece);
}

}  // namespace

SentencePieceModel parse_sentencepiece_model(std::string_view content, const std::string& source) {
  using Algorithm = SentencePieceModel::Algorithm;
  if (content.size() > std::size_t{1} << 30)
    fail(Exit::bad_data, source, " has more than 1 GiB, so it is not a SentencePiece model; use another file");
  SentencePieceModel model;
  model.source = source;
  for_each_field(content, source, [&](const Field& field) {
    if (field.is(1, Field::length)) model.pieces.push_back(read_piece(field.bytes, model.pieces.size(), source));
    if (field.is(2, Field::length)) read_trainer(field.bytes, model);
    if (field.is(3, Field::length)) read_rules(field.bytes, source, model.normalizer);
    if (field.is(5, Field::length)) read_rules(field.bytes, source, model.denormalizer);
  });
  if (model.algorithm == Algorithm::word || model.algorithm == Algorithm::character) {
    fail(Exit::bad_data, source, " is a SentencePiece model of type ",
         model.algorithm == Algorithm::word ? "word" : "char", ", which is not supported; use a unigram or BPE model");
  }
  resolve_pieces(model);
  return model;
}

}  // namespace mtl
