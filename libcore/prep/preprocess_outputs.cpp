#include "prep/preprocess_outputs.h"

#include <algorithm>
#include <cmath>

#include "base/count_of.h"
#include "base/disk_space.h"
#include "base/error.h"
#include "base/files.h"
#include "base/threads.h"
#include "base/utf8.h"
#include "data/provenance.h"
#include "data/publish.h"

namespace mtl {

namespace {

const char* const kSuffixes[] = {".bin", ".idx", ".json"};

void add_column(IndexedDatasetWriter& writer, const TokenColumn& column) {
  auto add = [&]<class Token>(const std::vector<Token>& tokens) {
    std::size_t sequence = 0, token = 0;
    for (std::size_t document_end : column.document_ends) {
      for (; sequence < document_end; ++sequence) {
        const std::size_t end = column.sequence_ends[sequence];
        writer.add_sequence(std::span(tokens).subspan(token, end - token));
        token = end;
      }
      writer.end_document();
    }
  };
  std::visit(add, column.tokens);
}

}  // namespace

/// Returns PREFIX_KEY_document, or PREFIX_KEY_sentence with split_sentences.
std::string PreprocessOutputs::prefix_of(std::size_t k) const {
  return cat(options_.output_prefix, "_", options_.json_keys[k], options_.split_sentences ? "_sentence" : "_document");
}

/// Returns the names of all files that a run can write: each key's .bin, .idx and .json, and the rejects.
std::vector<std::string> PreprocessOutputs::output_names() const {
  std::vector<std::string> names;
  for (std::size_t k = 0; k < options_.json_keys.size(); ++k) {
    for (const char* suffix : kSuffixes) names.push_back(prefix_of(k) + suffix);
  }
  names.push_back(rejects_path());
  return names;
}

PreprocessOutputs::PreprocessOutputs(const PreprocessOptions& options, const Tokenizer& tokenizer,
                                     const std::vector<std::string>& inputs, std::optional<std::uint64_t> input_bytes,
                                     InterruptGuard& guard, Console& console)
    : options_(options),
      tokenizer_(tokenizer),
      input_bytes_(input_bytes),
      guard_(guard),
      console_(console),
      type_(token_type_for_vocab(tokenizer.vocab_size())),
      // Hash here, in parallel, because at the end of the run all other threads would be idle.
      tokenizer_hash_(std::async(resolve_threads(options.workers) > 1 ? std::launch::async : std::launch::deferred,
                                 [&tokenizer] { return tokenizer.hash(); })) {
  std::vector<std::string> prefixes{options.output_prefix};  // of the rejects
  for (std::size_t k = 0; k < options.json_keys.size(); ++k) prefixes.push_back(prefix_of(k));
  std::vector<std::string> read = tokenizer_files(options.tokenizer);
  read.push_back(options.config_file);
  read.insert(read.end(), inputs.begin(), inputs.end());
  locks_ = claim_outputs({.prefixes = prefixes, .names = output_names(), .inputs = read}, guard, console);
  for (std::size_t k = 0; k < options.json_keys.size(); ++k) writers_.emplace_back(prefix_of(k), type_);
}

void PreprocessOutputs::add(const TokenBatch& batch) {
  try {
    write(batch);
  } catch (const NoSpaceError& error) {
    fail_full(error);
  }
}

void PreprocessOutputs::write(const TokenBatch& batch) {
  for (std::size_t k = 0; k < writers_.size(); ++k) add_column(writers_[k], batch.columns[k]);
  for (const BadLine& bad : batch.bad) reject(bad);
  std::int64_t before = documents_;
  documents_ += batch.documents;
  bytes_ += batch.bytes;
  stored_bytes_ = batch.stored_bytes;
  const std::int64_t interval = options_.log_interval.value_or(1);
  if (interval == 0) return;
  if (documents_ / interval > before / interval) report(options_.log_interval ? 0 : 10);
}

void PreprocessOutputs::reject(const BadLine& bad) {
  if (skipped_ >= options_.skip_bad) {
    fail(Exit::bad_data, bad.where, ": ", bad.reason,
         options_.skip_bad > 0 ? cat("; there are more bad lines than --skip-bad ", options_.skip_bad) : "");
  }
  if (!rejects_) rejects_.emplace(rejects_path());
  Json line =
      Json::object({{"where", bad.where}, {"reason", decode_lossy(bad.reason)}, {"line", decode_lossy(bad.text)}});
  rejects_->write(line.dump() + "\n");
  ++skipped_;
}

void PreprocessOutputs::finish(const std::vector<StoredInput>& inputs) {
  for (const StoredInput& input : inputs) file_bytes_ += input.bytes;
  try {
    publish(inputs);
  } catch (const NoSpaceError& error) {
    fail_full(error);
  }
  console_.end_progress();
}

void PreprocessOutputs::publish(const std::vector<StoredInput>& inputs) {
  std::vector<SealedTokenFiles> files;
  for (IndexedDatasetWriter& writer : writers_) writer.seal();
  if (rejects_) rejects_->seal();
  for (std::size_t k = 0; k < writers_.size(); ++k) files.emplace_back(provenance(k, inputs), writers_[k].files());
  const auto kept = guard_.keep_files();
  if (!rejects_) remove_old_file(rejects_path());
  if (rejects_) rejects_->commit();
  publish_token_files(files);
}

/// Throws Error(io) with the message from `error` and the size of the entire output, extrapolated from the input read
/// so far.
void PreprocessOutputs::fail_full(const NoSpaceError& error) const {
  const double written = output_bytes();
  std::string needs = "at least " + human_bytes(written);
  if (input_bytes_ && stored_bytes_ > 0) {
    double part = std::min(1.0, double(stored_bytes_) / double(*input_bytes_));
    needs = cat("about ", human_bytes(written / part), ", judging by the ", format("%.0f", 100 * part),
                "% of the input that was read");
  }
  std::error_code code;
  const std::string folder = fs::canonical(parent_folder(options_.output_prefix), code).string();
  const auto free = free_disk_bytes(folder);
  const std::string has = free ? cat(", and ", folder, " had ", human_bytes(*free), " free") : "";
  fail(Exit::io, error.what(), "\n  the output needs ", needs, has,
       "; if that disk is too small, choose an --output-prefix on another one. The unfinished files are removed.");
}

/// Returns the size of the token files: tokens, header, 4 + 8 bytes per sequence and 8 per document.
double PreprocessOutputs::output_bytes() const {
  double bytes = 0;
  for (const IndexedDatasetWriter& writer : writers_) {
    bytes += double(writer.tokens()) * double(item_size(type_)) + 12.0 * double(writer.sequences()) +
             8.0 * double(writer.documents() + 1) + 34;
  }
  return bytes;
}

std::int64_t PreprocessOutputs::tokens() const {
  std::int64_t total = 0;
  for (const IndexedDatasetWriter& writer : writers_) total += writer.tokens();
  return total;
}

void PreprocessOutputs::report(double interval_seconds) {
  std::string line =
      cat(count_of(documents_, "document"), ", ", format("%.1f MB; %.1f MB/s, ", mega(), mega() / seconds()),
          with_commas(std::llround(double(documents_) / seconds())), " documents/s, ",
          with_commas(std::llround(double(tokens()) / seconds())), " tokens/s");
  if (input_bytes_ && stored_bytes_ > 0 && stored_bytes_ <= *input_bytes_) {
    double part = double(stored_bytes_) / double(*input_bytes_);
    line += cat("; ", format("%.0f", 100 * part), "% read, ", human_seconds(seconds() * (1 - part) / part), " left");
  }
  console_.progress(line, interval_seconds);
}

Json PreprocessOutputs::summary() const {
  Json outputs = Json::array();
  for (std::size_t k = 0; k < writers_.size(); ++k) outputs.push(output(k));
  const double seconds = this->seconds();
  return Json::object({{"schema", "mtl-preprocess/1"},
                       {"documents", documents_},
                       {"tokens", tokens()},
                       {"bytes", bytes_},
                       {"input_bytes", file_bytes_},
                       {"seconds", seconds},
                       {"mb_per_second", mega() / seconds},
                       {"documents_per_second", double(documents_) / seconds},
                       {"tokens_per_second", double(tokens()) / seconds},
                       {"skipped", skipped_},
                       {"rejects", rejects_ ? Json(rejects_path()) : Json()},
                       {"outputs", std::move(outputs)}});
}

Json PreprocessOutputs::output(std::size_t k) const {
  Json out = Json::object({{"key", options_.json_keys[k]}});
  const Json files = describe_output(writers_[k].written());
  for (const auto& [name, value] : files.as_object()) out.set(name, value);
  return out;
}

Json PreprocessOutputs::provenance(std::size_t k, const std::vector<StoredInput>& inputs) const {
  Json files = Json::array();
  for (const StoredInput& input : inputs) files.push(describe_input(input.path, input.bytes, input.hash));
  const Json tokenizer = Json::object({{"type", tokenizer_.type()},
                                       {"vocab_size", tokenizer_.vocab_size()},
                                       {"xxh3", hash_text(tokenizer_hash_.get())}});
  Json provenance = make_provenance("mtl-preprocess", options_.command, tokenizer, files, output(k));
  provenance.set("skipped", skipped_);
  return provenance;
}

}  // namespace mtl
