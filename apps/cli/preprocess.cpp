#include "cli/preprocess.h"

#include <optional>

#include "base/error.h"
#include "base/files.h"
#include "cli/inputs.h"
#include "cli/run_main.h"
#include "data/indexed_dataset.h"
#include "text/json_lines.h"
#include "text/ordered.h"
#include "text/utf8.h"
#include "version.h"

namespace mtl {

namespace {

struct BadLine {
  std::string where;  // FILE:LINE
  std::string reason;
  std::string text;
};

/// The documents of a chunk for one key.
struct TokenColumn {
  std::vector<std::int32_t> tokens;
  std::vector<std::size_t> sequence_ends;  // in tokens
  std::vector<std::size_t> document_ends;  // in sequences
};

struct TokenChunk {
  std::vector<TokenColumn> columns;  // one for each key
  std::vector<BadLine> bad;
  std::int64_t documents = 0;
  std::uint64_t bytes = 0;
};

/// The part of one thread: lines to tokens.
class ChunkTokenizer {
 public:
  ChunkTokenizer(const PreprocessOptions& options, const Tokenizer& tokenizer)
      : keys_(options.json_keys.size()),
        extractor_(options.json_keys),
        encoder_(tokenizer.make_encoder()),
        is_u16_(token_type_for_vocab(tokenizer.vocab_size()) == DataType::u16) {
    if (options.append_eod) eod_ = tokenizer.eod();
  }

  /// Takes the lines whose index is `part` modulo `parts`.
  TokenChunk tokenize(const LineChunk& lines, std::int64_t part, std::int64_t parts) {
    TokenChunk out;
    out.columns.resize(keys_);
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
      for (std::size_t k = 0; k < keys_; ++k) append(out.columns[k], k);
      ++out.documents;
    });
    return out;
  }

 private:
  /// All keys before any is appended: a line is taken whole or not at all.
  void read_document(std::string_view line) {
    extractor_.read(line);
    ids_.clear();
    ends_.clear();
    for (std::size_t k = 0; k < keys_; ++k) {
      for (const std::string& text : extractor_.texts(k)) {
        encoder_->append(text, ids_);
        ends_.push_back(ids_.size());
      }
    }
    if (!is_u16_) return;
    for (std::int32_t id : ids_) {
      if (id < 0 || id > 0xFFFF)
        fail(Exit::bad_data, "token id ", id, " does not fit the 16 bits that this --vocab-size is stored in");
    }
  }

  /// Megatron's rules: empty texts are no sequences, the end-of-document token counts in the last sequence, and an
  /// empty document has neither.
  void append(TokenColumn& column, std::size_t key) {
    if (key == 0) next_text_ = 0;
    std::size_t begin = next_text_ == 0 ? 0 : ends_[next_text_ - 1];
    std::size_t sequences_before = column.sequence_ends.size();
    for (std::size_t i = 0; i < extractor_.texts(key).size(); ++i) {
      std::size_t end = ends_[next_text_++];
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

  std::size_t keys_;
  TextExtractor extractor_;
  std::unique_ptr<Encoder> encoder_;
  bool is_u16_;
  std::optional<std::int32_t> eod_;
  std::vector<std::int32_t> ids_;  // of one line, all keys one after another
  std::vector<std::size_t> ends_;  // of its texts, in ids_
  std::size_t next_text_ = 0;
};

/// The writing side: token files, bad lines, progress, and what is said at the end.
class Outputs {
 public:
  Outputs(const PreprocessOptions& options, const Tokenizer& tokenizer, Console& console)
      : options_(options),
        tokenizer_(tokenizer),
        console_(console),
        type_(token_type_for_vocab(tokenizer.vocab_size())) {
    make_directories(fs::path(options.output_prefix).parent_path());
    for (const std::string& key : options.json_keys) writers_.emplace_back(prefix_of(key), type_);
  }

  void add(const TokenChunk& chunk) {
    for (std::size_t k = 0; k < writers_.size(); ++k) add_column(writers_[k], chunk.columns[k]);
    for (const BadLine& bad : chunk.bad) reject(bad);
    std::int64_t before = documents_;
    documents_ += chunk.documents;
    bytes_ += chunk.bytes;
    const std::int64_t interval = options_.log_interval.value_or(1);
    if (documents_ / interval > before / interval) report(options_.log_interval ? 0 : 10);
  }

  void finish(const std::vector<StoredInput>& inputs) {
    for (IndexedDatasetWriter& writer : writers_) writer.finish();
    if (rejects_) rejects_->commit();
    for (std::size_t k = 0; k < writers_.size(); ++k) {
      write_file_atomic(prefix_of(options_.json_keys[k]) + ".json", provenance(k, inputs).dump(2) + "\n");
    }
    console_.end_progress();
  }

  Json summary() const {
    Json outputs = Json::array();
    std::int64_t tokens = 0;
    for (std::size_t k = 0; k < writers_.size(); ++k) {
      outputs.push(output(k));
      tokens += writers_[k].tokens();
    }
    return Json::object({{"schema", "mtl-preprocess/1"},
                         {"documents", documents_},
                         {"tokens", tokens},
                         {"bytes", bytes_},
                         {"seconds", seconds()},
                         {"mb_per_second", mega() / seconds()},
                         {"skipped", skipped_},
                         {"rejects", rejects_ ? Json(rejects_path()) : Json()},
                         {"outputs", std::move(outputs)}});
  }

 private:
  static void add_column(IndexedDatasetWriter& writer, const TokenColumn& column) {
    std::size_t sequence = 0, token = 0;
    for (std::size_t document_end : column.document_ends) {
      for (; sequence < document_end; ++sequence) {
        std::size_t end = column.sequence_ends[sequence];
        writer.add_sequence(std::span(column.tokens).subspan(token, end - token));
        token = end;
      }
      writer.end_document();
    }
  }

  void report(double least_seconds) {
    console_.progress(
        cat(with_commas(documents_), " documents, ", format("%.1f MB, %.1f MB/s", mega(), mega() / seconds())),
        least_seconds);
  }

  void reject(const BadLine& bad) {
    if (skipped_ >= options_.skip_bad) {
      fail(Exit::bad_data, bad.where, ": ", bad.reason,
           options_.skip_bad > 0 ? cat("; ", skipped_, " bad lines before it were skipped") : "");
    }
    if (!rejects_) rejects_.emplace(rejects_path());
    Json line =
        Json::object({{"where", bad.where}, {"reason", decode_lossy(bad.reason)}, {"line", decode_lossy(bad.text)}});
    rejects_->write(line.dump() + "\n");
    ++skipped_;
  }

  Json output(std::size_t k) const {
    const IndexedDatasetWriter& writer = writers_[k];
    return Json::object({{"key", options_.json_keys[k]},
                         {"prefix", prefix_of(options_.json_keys[k])},
                         {"documents", writer.documents()},
                         {"sequences", writer.sequences()},
                         {"tokens", writer.tokens()},
                         {"dtype", name_of(type_)}});
  }

  Json provenance(std::size_t k, const std::vector<StoredInput>& inputs) const {
    Json command = Json::array(), files = Json::array();
    for (const std::string& word : options_.command) command.push(word);
    for (const StoredInput& input : inputs) {
      files.push(Json::object({{"path", input.path}, {"bytes", input.bytes}, {"xxh3", hash_text(input.hash)}}));
    }
    Json tokenizer = Json::object(
        {{"type", tokenizer_.type()}, {"vocab_size", tokenizer_.vocab_size()}, {"xxh3", hash_text(tokenizer_.hash())}});
    return Json::object({{"schema", "mtl-provenance/1"},
                         {"program", "mtl-preprocess"},
                         {"version", kVersion},
                         {"command", std::move(command)},
                         {"tokenizer", std::move(tokenizer)},
                         {"inputs", std::move(files)},
                         {"skipped", skipped_},
                         {"output", output(k)}});
  }

  std::string prefix_of(const std::string& key) const { return cat(options_.output_prefix, "_", key, "_document"); }
  std::string rejects_path() const { return options_.output_prefix + ".rejects.jsonl"; }
  double mega() const { return static_cast<double>(bytes_) / 1e6; }
  double seconds() const { return now_seconds() - start_ + 1e-9; }

  const PreprocessOptions& options_;
  const Tokenizer& tokenizer_;
  Console& console_;
  DataType type_;
  std::vector<IndexedDatasetWriter> writers_;
  std::optional<AtomicFile> rejects_;
  std::int64_t documents_ = 0, skipped_ = 0;
  std::uint64_t bytes_ = 0;
  double start_ = now_seconds();
};

}  // namespace

Json preprocess(const PreprocessOptions& options, Console& console) {
  std::vector<std::string> files = find_inputs(options.inputs);
  std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(options.tokenizer);
  Outputs outputs(options, *tokenizer, console);
  // Megatron's --partitions deals the lines out in turn and writes one share after another. A pass for each share
  // needs neither memory nor temporary files.
  const std::int64_t parts = options.keep_sequential_samples ? 1 : options.partitions;
  std::vector<StoredInput> stored;
  for (std::int64_t part = 0; part < parts; ++part) {
    LineReader reader(files);
    run_ordered<TokenChunk>(
        resolve_threads(options.workers), [&] { return reader.next(); },
        [&] {
          return [&, worker = std::make_shared<ChunkTokenizer>(options, *tokenizer)](const LineChunk& lines) {
            return worker->tokenize(lines, part, parts);
          };
        },
        [&](const TokenChunk& chunk) { outputs.add(chunk); });
    stored = reader.stored();
  }
  outputs.finish(stored);
  return outputs.summary();
}

}  // namespace mtl
