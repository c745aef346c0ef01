#include "cli/data/print.h"

#include "base/count_of.h"
#include "base/json.h"
#include "base/utf8.h"
#include "cli/data/tokenizer.h"
#include "cli/flags/tokenizer_flags.h"
#include "cli/run_main.h"

namespace mtl {
namespace {

using Ids = std::vector<std::int32_t>;

std::string ids_line(const std::vector<Ids>& sequences) {
  return join(sequences, " ", [](const Ids& ids) { return join_numbers(ids, ' '); }) + "\n";
}

std::string ids_json(std::int64_t document, const std::vector<Ids>& sequences) {
  const auto list = [](const Ids& ids) { return "[" + join_numbers(ids, ',') + "]"; };
  return cat("{\"document\":", document, ",\"sequences\":[", join(sequences, ",", list), "]}\n");
}

}  // namespace

void add_data_print_flags(Flags& flags, DataPrintOptions& options) {
  flags.section("Output");
  flags.add_switch("--ids", options.ids, "print token ids even if a tokenizer is given");
  flags.add_switch("--json", options.json, "print ids as JSON lines, too; text is always JSON without --plain");
  flags.add_switch("--plain", options.plain, "print text as it is instead of JSON, with a newline after each document");
  flags.add_switch("--keep-eod", options.keep_eod, "keep the end-of-document token at the end of a text");
  add_tokenizer_flags(flags, options.tokenizer);
}

void check_data_print_flags(Flags& flags, const DataPrintOptions& options) {
  check_optional_tokenizer(flags, options.tokenizer);
  const bool as_text = names_tokenizer(options.tokenizer) && !options.ids;
  if (options.tokenizer.vocab_size && !names_tokenizer(options.tokenizer)) {
    flags.problem("--vocab-size", "needs a tokenizer; add --tokenizer-type NullTokenizer, or leave the flag out");
  }
  if (options.plain && options.json) flags.problem("--plain", "cannot be used with --json; use only one of them");
  if (options.plain && !as_text)
    flags.problem("--plain", "applies only to text; select a tokenizer, and leave out --ids");
  if (options.keep_eod && !as_text)
    flags.problem("--keep-eod", "applies only to text; leave the flag out, because ids always include every token");
}

DocumentPrinter::DocumentPrinter(const DataPrintOptions& options)
    : options_(options), tokenizer_(options.ids ? nullptr : load_optional_tokenizer(options.tokenizer)) {
  if (tokenizer_ && !options.plain && !options.keep_eod) encoder_ = tokenizer_->make_encoder();
}

void DocumentPrinter::warn_about(const IndexedDataset& data, Console& console) const {
  if (tokenizer_) warn_of_provenance(data, tokenizer_.get(), console);
}

/// Returns a document's sequences. For text output, drops the final end-of-document token unless --keep-eod is given.
std::vector<Ids> DocumentPrinter::read(const IndexedDataset& data, std::int64_t document) const {
  std::vector<Ids> sequences;
  for (std::int64_t i = data.document_begin(document); i < data.document_begin(document + 1); ++i) {
    Ids& ids = sequences.emplace_back(data.lengths()[i]);
    data.read(i, 0, ids);
  }
  const bool ends_in_eod = tokenizer_ && !options_.keep_eod && !sequences.empty() && !sequences.back().empty() &&
                           sequences.back().back() == tokenizer_->eod();
  if (ends_in_eod) sequences.back().pop_back();
  return sequences;
}

/// Decodes ids, and counts texts that would not encode back to the same ids. This happens when a tokenizer normalizes a
/// text, drops parts or adds tokens, or when decoded bytes are invalid UTF-8.
std::string DocumentPrinter::decode_and_compare(const Ids& ids) {
  std::string text = decode_lossy(tokenizer_->decode(ids));
  if (encoder_) {
    Ids encoded;
    encoder_->append(text, encoded);
    if (encoded != ids) ++changed_;
  }
  return text;
}

void DocumentPrinter::warn_of_changes(Console& console) const {
  if (changed_ == 0) return;
  console.warn(
      cat(count_of(changed_, "text"),
          " would encode to different tokens with these tokenizer flags: decoding lost a part of the original"));
}

std::string DocumentPrinter::text_line(std::int64_t document, const std::vector<Ids>& sequences) {
  if (options_.plain) return join(sequences, "", [&](const Ids& ids) { return tokenizer_->decode(ids); }) + "\n";
  const std::string texts = join(sequences, ",", [&](const Ids& ids) {
    std::string text;
    append_json_string(text, decode_and_compare(ids));
    return text;
  });
  std::string value = sequences.size() == 1 ? texts : cat("[", texts, "]");
  // NullTokenizer rejects an empty text but accepts an empty list of texts.
  if (sequences.empty() && tokenizer_->type() != "NullTokenizer") value = "\"\"";
  return cat("{\"document\":", document, ",\"text\":", value, "}\n");
}

void DocumentPrinter::print(const IndexedDataset& data, std::int64_t document) {
  const std::vector<Ids> sequences = read(data, document);
  if (!tokenizer_) return print_out(options_.json ? ids_json(document, sequences) : ids_line(sequences));
  try {
    print_out(text_line(document, sequences));
  } catch (const Error& error) {
    if (error.code() != Exit::bad_data) throw;
    fail(Exit::bad_data, data.prefix(), ": document ", document, ": ", error.what(),
         "; select the tokenizer that made the data");
  }
}

}  // namespace mtl
