#include "prep/preprocess_batch.h"

#include <algorithm>
#include <span>

#include "base/error.h"
#include "data/indexed_dataset.h"
#include "data/integer_type.h"
#include "text/sentences.h"

namespace mtl {

namespace {

constexpr std::size_t kMaxReserved = 1 << 20;  // a batch with one long line says nothing about the next batch

/// Returns how many tokens to reserve for a batch if the previous one had `tokens` tokens.
std::size_t likely_tokens(std::size_t tokens) { return std::min(tokens + tokens / 8, kMaxReserved); }

std::size_t count_tokens(const TypedTokens& tokens) {
  return std::visit([](const auto& typed) { return typed.size(); }, tokens);
}

void check_u16(std::span<const std::int32_t> ids) {
  if (const auto outside = find_outside(kI32, std::as_bytes(ids), range_of(kU16)))
    fail(Exit::bad_data, "token id ", ids[*outside],
         " does not fit in 16 bits, the token width for this vocabulary size; use a larger --vocab-size");
}

}  // namespace

void TokenColumn::drop_open_document() {
  sequence_ends.resize(document_ends.empty() ? 0 : document_ends.back());
  std::visit([&](auto& typed) { typed.resize(sequence_ends.empty() ? 0 : sequence_ends.back()); }, tokens);
}

BatchTokenizer::BatchTokenizer(const PreprocessOptions& options, const Tokenizer& tokenizer)
    : splits_(options.split_sentences),
      keeps_newlines_(options.keep_newlines),
      skips_bad_(options.skip_bad > 0),
      extractor_(options.json_keys),
      encoder_(tokenizer.make_encoder()),
      keys_(options.json_keys.size()),
      previous_tokens_(keys_),
      is_u16_(token_type_for_vocab(tokenizer.vocab_size()) == DataType::u16) {
  if (options.append_eod) eod_ = tokenizer.eod();
}

TokenBatch BatchTokenizer::tokenize(const LineBatch& lines, std::int64_t part, std::int64_t parts) {
  TokenBatch out;
  out.columns.resize(keys_);
  for (std::size_t k = 0; k < keys_; ++k) out.columns[k].tokens = tokens_with_room(k);
  out.stored_bytes = lines.stored_bytes;
  bool follows_texts = !skips_bad_ && lines.first_line > parts;
  for_each_line(lines, [&](std::string_view line, std::int64_t number, std::int64_t index) {
    if (index % parts != part) return;
    out.bytes += line.size() + 1;
    try {
      extractor_.read_padded(line, {number, lines.unpack, follows_texts});
      follows_texts = true;
      for (std::size_t k = 0; k < keys_; ++k) append_document(k, out.columns[k]);
    } catch (const Error& error) {
      if (error.code() != Exit::bad_data) throw;
      // A bad line must not add anything to any column.
      for (TokenColumn& column : out.columns) column.drop_open_document();
      out.bad.push_back({.where = cat(lines.file, ":", number), .reason = error.what(), .text = std::string(line)});
      return;
    }
    for (TokenColumn& column : out.columns) column.document_ends.push_back(column.sequence_ends.size());
    ++out.documents;
  });
  for (std::size_t k = 0; k < keys_; ++k) previous_tokens_[k] = count_tokens(out.columns[k].tokens);
  return out;
}

/// Returns an empty vector of the .bin's type, with memory reserved.
TypedTokens BatchTokenizer::tokens_with_room(std::size_t key) const {
  TypedTokens out;
  if (!is_u16_) out = std::vector<std::int32_t>();
  std::visit([&](auto& typed) { typed.reserve(likely_tokens(previous_tokens_[key])); }, out);
  return out;
}

/// Megatron-LM's rules: an empty text is not a sequence, the end-of-document token belongs to the last sequence, and an
/// empty document has neither sequences nor an end-of-document token.
void BatchTokenizer::append_document(std::size_t key, TokenColumn& column) {
  ids_.clear();
  ends_.clear();
  for (std::string_view text : extractor_.texts(key)) {
    if (!splits_) {
      append_sequence(text);
      continue;
    }
    split_sentences(text, keeps_newlines_ ? BetweenSentences::keep : BetweenSentences::drop, sentences_);
    for (std::string_view sentence : sentences_) append_sequence(sentence);
  }
  if (is_u16_) check_u16(ids_);
  if (eod_ && !ends_.empty()) {
    ids_.push_back(*eod_);
    ++ends_.back();
  }
  const std::size_t before = count_tokens(column.tokens);
  for (std::size_t end : ends_) column.sequence_ends.push_back(before + end);
  std::visit([&](auto& typed) { typed.insert(typed.end(), ids_.begin(), ids_.end()); }, column.tokens);
}

void BatchTokenizer::append_sequence(std::string_view text) {
  const std::size_t before = ids_.size();
  encoder_->append(text, ids_);
  if (ids_.size() > before) ends_.push_back(ids_.size());
}

}  // namespace mtl
