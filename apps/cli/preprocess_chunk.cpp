#include "cli/preprocess_chunk.h"

#include "base/error.h"
#include "data/indexed_dataset.h"
#include "text/sentences.h"

namespace mtl {

namespace {

constexpr std::size_t kIdsKept = std::size_t{1} << 22;  // what a thread keeps after a line that had more

}  // namespace

ChunkTokenizer::ChunkTokenizer(const PreprocessOptions& options, const Tokenizer& tokenizer)
    : splits_(options.split_sentences),
      keeps_newlines_(options.keep_newlines),
      extractor_(options.json_keys),
      encoder_(tokenizer.make_encoder()),
      is_u16_(token_type_for_vocab(tokenizer.vocab_size()) == DataType::u16),
      key_ends_(options.json_keys.size()) {
  if (options.append_eod) eod_ = tokenizer.eod();
}

TokenChunk ChunkTokenizer::tokenize(const LineChunk& lines, std::int64_t part, std::int64_t parts) {
  TokenChunk out;
  out.columns.resize(key_ends_.size());
  out.stored_bytes = lines.stored_bytes;
  for_each_line(lines, [&](std::string_view line, std::int64_t number, std::int64_t index) {
    if (index % parts != part) return;
    out.bytes += line.size() + 1;
    try {
      read_document(line);
    } catch (const Error& error) {
      if (error.code() != Exit::bad_data) throw;
      out.bad.push_back({cat(lines.file, ":", number), error.what(), std::string(line)});
      return;
    }
    for (std::size_t k = 0; k < key_ends_.size(); ++k) append(out.columns[k], k);
    ++out.documents;
  });
  if (ids_.capacity() > kIdsKept) ids_ = {};
  return out;
}

/// All keys before any is appended: a line is taken whole or not at all.
void ChunkTokenizer::read_document(std::string_view line) {
  extractor_.read_padded(line);
  ids_.clear();
  text_ends_.clear();
  for (std::size_t k = 0; k < key_ends_.size(); ++k) {
    for (std::string_view text : extractor_.texts(k)) {
      if (!splits_) {
        encode(text);
        continue;
      }
      split_sentences(text, keeps_newlines_ ? BetweenSentences::keep : BetweenSentences::drop, sentences_);
      for (std::string_view sentence : sentences_) encode(sentence);
    }
    key_ends_[k] = text_ends_.size();
  }
  if (!is_u16_) return;
  for (std::int32_t id : ids_) {
    if (id < 0 || id > 0xFFFF)
      fail(Exit::bad_data, "token id ", id, " does not fit the 16 bits that this --vocab-size is stored in");
  }
}

void ChunkTokenizer::encode(std::string_view text) {
  encoder_->append(text, ids_);
  text_ends_.push_back(ids_.size());
}

/// Megatron's rules: empty texts are no sequences, the end-of-document token counts in the last sequence, and an
/// empty document has neither.
void ChunkTokenizer::append(TokenColumn& column, std::size_t key) const {
  const std::size_t sequences_before = column.sequence_ends.size();
  const std::size_t first = key == 0 ? 0 : key_ends_[key - 1];
  std::size_t begin = first == 0 ? 0 : text_ends_[first - 1];
  for (std::size_t i = first; i < key_ends_[key]; ++i) {
    const std::size_t end = text_ends_[i];
    if (end == begin) continue;
    column.tokens.insert(column.tokens.end(), ids_.begin() + static_cast<std::ptrdiff_t>(begin),
                         ids_.begin() + static_cast<std::ptrdiff_t>(end));
    column.sequence_ends.push_back(column.tokens.size());
    begin = end;
  }
  if (eod_ && column.sequence_ends.size() > sequences_before) {
    column.tokens.push_back(*eod_);
    ++column.sequence_ends.back();
  }
  column.document_ends.push_back(column.sequence_ends.size());
}

}  // namespace mtl
