// Prints documents to standard output, one per line, for mtl-data cat and mtl-data sample.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/console.h"
#include "cli/flags.h"
#include "data/indexed_dataset.h"
#include "text/tokenizer.h"

namespace mtl {

/// Joins numbers, of which there may be many, without making texts of them one by one.
template <class Numbers>
std::string join_numbers(const Numbers& numbers, char separator) {
  std::string out;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0) out += separator;
    append_part(out, numbers[i]);
  }
  return out;
}

struct DataPrintOptions {
  TokenizerOptions tokenizer;
  bool ids = false;
  bool json = false;
  bool plain = false;
  bool keep_eod = false;
};

/// Adds --ids, --json, --plain, --keep-eod, and the tokenizer flags.
void add_data_print_flags(Flags& flags, DataPrintOptions& options);
/// For Flags::check: adds a problem if flags contradict each other.
void check_data_print_flags(Flags& flags, const DataPrintOptions& options);

/// Without a tokenizer, or with --ids, prints a document's ids: `1 2 3` or, with --json,
/// {"document":0,"sequences":[[1,2],[3]]}. With a tokenizer, prints {"document":0,"text":"..."}, which mtl-preprocess
/// reads, or, with --plain, only the text. In JSON, the text is a list if the document has several sequences.
class DocumentPrinter {
 public:
  explicit DocumentPrinter(const DataPrintOptions& options);
  /// Warns if the data set was made with a tokenizer other than this one.
  void warn_about(const IndexedDataset& data, Console& console) const;
  void print(const IndexedDataset& data, std::int64_t document);
  /// Warns if mtl-preprocess would encode the printed texts to other ids. Checks only JSON without --keep-eod.
  void warn_of_changes(Console& console) const;

 private:
  using Ids = std::vector<std::int32_t>;
  std::vector<Ids> read(const IndexedDataset& data, std::int64_t document) const;
  std::string text_line(std::int64_t document, const std::vector<Ids>& sequences);
  std::string decode_and_compare(const Ids& ids);

  const DataPrintOptions& options_;
  std::unique_ptr<Tokenizer> tokenizer_;  // null: print ids
  std::unique_ptr<Encoder> encoder_;      // null: texts are not checked
  std::int64_t changed_ = 0;              // texts that would encode to different ids
};

}  // namespace mtl
