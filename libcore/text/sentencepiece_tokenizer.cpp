#include "text/sentencepiece_tokenizer.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/utf8.h"
#include "text/stored_file.h"
#include "text/tokenizer_kinds.h"

namespace mtl {

namespace {

using Kind = SentencePiece::Kind;
constexpr const char* kModelFile = "tokenizer.model";
constexpr const char* kConfigFile = "tokenizer_config.json";

/// Emits an id before every text.
class PrefixedEncoder : public Encoder {
 public:
  PrefixedEncoder(std::unique_ptr<Encoder> plain, std::int32_t first) : plain_(std::move(plain)), first_(first) {}
  void append(std::string_view text, std::vector<std::int32_t>& ids) override {
    ids.push_back(first_);
    plain_->append(text, ids);
  }

 private:
  std::unique_ptr<Encoder> plain_;
  std::int32_t first_;
};

/// Replaces special strings in the text with their ids, from left to right. If more than one matches at the same
/// position, uses the first in the list.
class LegacyEncoder : public Encoder {
 public:
  LegacyEncoder(std::unique_ptr<Encoder> plain, const std::vector<SentencePieceTokenizer::Special>& specials)
      : plain_(std::move(plain)), specials_(specials), next_(specials.size()) {}

  void append(std::string_view text, std::vector<std::int32_t>& ids) override {
    for (std::size_t i = 0; i < specials_.size(); ++i) next_[i] = text.find(specials_[i].text);
    std::size_t at = 0;
    while (true) {
      std::size_t first = std::string_view::npos, found = 0;
      for (std::size_t i = 0; i < specials_.size(); ++i) {
        if (next_[i] < at) next_[i] = text.find(specials_[i].text, at);  // search again only once it is passed
        if (next_[i] < first) first = next_[i], found = i;
      }
      plain_->append(text.substr(at, first == std::string_view::npos ? first : first - at), ids);
      if (first == std::string_view::npos) return;
      ids.push_back(specials_[found].id);
      at = first + specials_[found].text.size();
    }
  }

 private:
  std::unique_ptr<Encoder> plain_;
  const std::vector<SentencePieceTokenizer::Special>& specials_;
  std::vector<std::size_t> next_;  // each special string's next position in the text
};

/// Moves the bytes from a run of byte pieces to `out`, with U+FFFD for each byte that is not UTF-8.
void append_bytes_as_text(std::string& bytes, std::string& out) {
  const char* end = bytes.data() + bytes.size();
  for (const char* at = bytes.data(); at < end;) {
    Utf8Char next = next_utf8(at, end);
    out += next.valid ? std::string_view(at, next.length) : kReplacementCharacter;
    at += next.valid ? next.length : 1;
  }
  bytes.clear();
}

}  // namespace

SentencePieceTokenizer::SentencePieceTokenizer(std::string content, const std::string& source,
                                               const TokenizerOptions& options)
    : content_(std::move(content)),
      options_(options),
      segmenter_(parse_sentencepiece_model(content_, source)),
      denormalizer_(segmenter_.model().denormalizer, false, {}, source) {
  if (options_.legacy_tokenizer && options_.type == "SentencePieceTokenizer") add_legacy_tokens();
  if (options_.legacy_tokenizer && options_.type == "Llama2Tokenizer" && segmenter_.model().bos < 0)
    fail(Exit::bad_data, source, " has no control piece ", segmenter_.model().bos_piece,
         ", which Llama2Tokenizer puts before every text");
}

void SentencePieceTokenizer::add_legacy_tokens() {
  const SentencePieceModel& model = segmenter_.model();
  special_of_.assign(model.pieces.size(), -1);
  std::unordered_map<std::string, std::int32_t> ids;
  for (std::size_t id = 0; id < model.pieces.size(); ++id)
    ids.emplace(model.pieces[id].text, static_cast<std::int32_t>(id));
  auto add = [&](const std::string& text) {
    auto [found, is_new] = ids.emplace(text, static_cast<std::int32_t>(ids.size()));
    if (is_new) special_of_.push_back(-1);
    std::int32_t& special = special_of_[found->second];
    if (special >= 0) return;
    special = static_cast<std::int32_t>(specials_.size());
    specials_.push_back({text, found->second});
  };
  auto name = [&](std::int32_t id, const char* otherwise) { return id < 0 ? otherwise : model.piece(id).text; };
  for (const char* text : {"<CLS>", "<SEP>", "<EOD>", "<MASK>"}) add(text);
  add(name(model.pad, "<PAD>"));
  add(name(model.bos, "<BOS>"));
  add(name(model.eos, "<EOS>"));
  for (std::int64_t i = 0; i < options_.vocab_extra_ids; ++i) add(cat("<extra_id_", i, ">"));
}

std::unique_ptr<Encoder> SentencePieceTokenizer::make_encoder(EncoderMemory memory) const {
  std::unique_ptr<Encoder> plain = segmenter_.make_encoder(memory);
  if (!specials_.empty()) return std::make_unique<LegacyEncoder>(std::move(plain), specials_);
  if (options_.legacy_tokenizer && options_.type == "Llama2Tokenizer")
    return std::make_unique<PrefixedEncoder>(std::move(plain), segmenter_.model().bos);
  return plain;
}

std::int64_t SentencePieceTokenizer::vocab_size() const {
  return std::max(special_of_.size(), segmenter_.model().pieces.size());
}

std::int32_t SentencePieceTokenizer::eod() const {
  for (const Special& special : specials_) {
    if (special.text == "<EOD>") return special.id;
  }
  const SentencePieceModel& model = segmenter_.model();
  if (model.eos < 0)
    fail(Exit::bad_data, model.source, " has no control piece ", model.eos_piece, ", the end-of-document token");
  return model.eos;
}

std::int32_t SentencePieceTokenizer::pad() const {
  for (const Special& special : specials_) {
    if (special.text == "<PAD>") return special.id;
  }
  return segmenter_.model().pad;
}

std::string SentencePieceTokenizer::decode(std::span<const std::int32_t> ids) const {
  for (std::int32_t id : ids) {
    if (id < 0 || id >= vocab_size())
      fail(Exit::bad_data, "token ", id, " is not in the vocabulary of ", segmenter_.model().source, " (", vocab_size(),
           " tokens)");
  }
  if (specials_.empty()) return decode_pieces(ids);
  std::string out;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    std::int32_t special = special_of_[ids[i]];
    if (special < 0) continue;
    out += cat(decode_pieces(ids.subspan(begin, i - begin)), " ", specials_[special].text, " ");
    begin = i + 1;
  }
  return out + decode_pieces(ids.subspan(begin));
}

std::string SentencePieceTokenizer::decode_pieces(std::span<const std::int32_t> ids) const {
  const SentencePieceModel& model = segmenter_.model();
  const bool strips_first = model.normalizer.add_dummy_prefix || model.normalizer.remove_extra_whitespaces;
  std::string out, bytes;
  bool at_start = true;   // a blank at a piece's start is the dummy prefix, or one that encoding would remove
  bool stripped = false;  // a blank was stripped from the last piece
  for (std::int32_t id : ids) {
    const SentencePiece& piece = model.piece(id);
    if (piece.kind == Kind::byte) {
      bytes += static_cast<char>(std::ranges::find(model.byte_ids, id) - model.byte_ids.begin());
      continue;
    }
    append_bytes_as_text(bytes, out);
    if (stripped || !out.empty()) at_start = false;
    stripped = false;
    if (piece.kind == Kind::control) continue;
    if (piece.kind == Kind::unknown) {
      out += model.unk_surface;
      continue;
    }
    std::string_view text = piece.text;
    if (at_start && strips_first && take_prefix(text, kSpaceText))
      stripped = !model.normalizer.remove_extra_whitespaces;
    out += replace_all(text, kSpaceText, " ");
  }
  append_bytes_as_text(bytes, out);
  if (model.denormalizer.charsmap.empty()) return out;
  SentencePieceNormalizer::Result result;
  denormalizer_.normalize(out, result);
  return to_text(result.view());
}

std::uint64_t SentencePieceTokenizer::hash() const {
  // Without `legacy`, the three types encode text in the same way.
  std::string all =
      cat("sentencepiece ", options_.legacy_tokenizer ? options_.type : "", " ", options_.vocab_extra_ids, "\n");
  all += content_;
  return hash_bytes(all.data(), all.size());
}

void SentencePieceTokenizer::save(const std::string& folder) const {
  const SentencePieceModel& model = segmenter_.model();
  auto token = [&](std::int32_t id) { return id < 0 ? Json() : Json(model.piece(id).text); };
  Json config = Json::object();
  config.set("add_bos_token", options_.legacy_tokenizer && options_.type == "Llama2Tokenizer");
  config.set("add_eos_token", false);
  config.set("bos_token", token(model.bos));
  config.set("clean_up_tokenization_spaces", false);
  config.set("eos_token", token(model.eos));
  config.set("extra_ids", 0);
  config.set("legacy", false);
  // This, the type and vocab_extra_ids are for find_sentencepiece().
  config.set("legacy_tokenizer", options_.legacy_tokenizer);
  config.set("megatron_tokenizer_type", options_.type);
  config.set("pad_token", token(model.pad));
  const bool is_bpe = model.algorithm == SentencePieceModel::Algorithm::bpe;
  config.set("tokenizer_class", is_bpe ? "LlamaTokenizer" : "T5Tokenizer");
  config.set("unk_token", token(model.unk));
  config.set("vocab_extra_ids", options_.vocab_extra_ids);
  write_file_atomic(cat(folder, "/", kModelFile), content_);
  write_file_atomic(cat(folder, "/", kConfigFile), config.dump(2) + "\n");
}

std::string sentencepiece_file(const std::string& path) {
  return is_directory(path) ? cat(path, "/", kModelFile) : path;
}

std::unique_ptr<Tokenizer> load_sentencepiece(const TokenizerOptions& options) {
  const std::string path = sentencepiece_file(options.tokenizer_model);
  return std::make_unique<SentencePieceTokenizer>(read_file(path), path, options);
}

std::optional<TokenizerOptions> find_sentencepiece(const std::string& folder) {
  TokenizerOptions found;
  found.tokenizer_model = cat(folder, "/", kModelFile);
  // A file with this name may have a different format, because tiktoken rank files have this name, too. A model starts
  // with a piece.
  if (!file_exists(found.tokenizer_model)) return {};
  StoredFile file(found.tokenizer_model);
  if (!file.fill_to(1) || file.available()[0] != '\n') return {};
  found.type = "GPTSentencePieceTokenizer";
  const std::string config_file = cat(folder, "/", kConfigFile);
  if (!file_exists(config_file)) return found;
  Json config = Json::read(config_file);
  std::string type = config.string_or("megatron_tokenizer_type", found.type);
  if (const TokenizerKind* kind = find_tokenizer_kind(type); kind == nullptr || kind->open != load_sentencepiece)
    fail(Exit::bad_data, config_file, ": megatron_tokenizer_type is '", type, "', which mtl does not support");
  found.type = type;
  found.legacy_tokenizer = config.bool_or("legacy_tokenizer", false);
  found.vocab_extra_ids = config.int_or("vocab_extra_ids", 0);
  return found;
}

}  // namespace mtl
