// mtl-data cat: the documents of token files, as ids or as text.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "cli/data_commands.h"
#include "cli/run_main.h"
#include "cli/tokenizer_flags.h"
#include "data/indexed_dataset.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace mtl {
namespace {

struct DataCatOptions {
  std::vector<std::string> prefixes;
  TokenizerOptions tokenizer;
  bool ids = false;
  bool json = false;
  std::int64_t begin = 0;
  std::optional<std::int64_t> count;

  /// Any tokenizer flag asks for text; without one there are only ids to print.
  bool has_tokenizer() const {
    return !tokenizer.type.empty() || !tokenizer.vocab_file.empty() || !tokenizer.merge_file.empty() ||
           !tokenizer.tokenizer_model.empty() || tokenizer.vocab_size || tokenizer.null_tokenizer_eod ||
           tokenizer.legacy_tokenizer || tokenizer.vocab_extra_ids != 0;
  }
};

using Ids = std::vector<std::int32_t>;

/// The sequences of one document.
std::vector<Ids> read_document(const IndexedDataset& data, std::int64_t document) {
  std::vector<Ids> sequences;
  for (std::int64_t i = data.document_begin(document); i < data.document_begin(document + 1); ++i) {
    Ids& ids = sequences.emplace_back(static_cast<std::size_t>(data.lengths()[i]));
    data.read(i, 0, ids);
  }
  return sequences;
}

std::string join_ids(const Ids& ids, char separator) {
  std::string out;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) out += separator;
    append_part(out, ids[i]);
  }
  return out;
}

/// One string for each sequence.
template <class Render>
std::vector<std::string> render(const std::vector<Ids>& sequences, Render one) {
  std::vector<std::string> out;
  std::transform(sequences.begin(), sequences.end(), std::back_inserter(out), one);
  return out;
}

std::string ids_line(const std::vector<Ids>& sequences) {
  return join(render(sequences, [](const Ids& ids) { return join_ids(ids, ' '); }), " ") + "\n";
}

/// {"document":0,"sequences":[[1,2],[3]]}
std::string ids_json(std::int64_t document, const std::vector<Ids>& sequences) {
  const auto lists = render(sequences, [](const Ids& ids) { return "[" + join_ids(ids, ',') + "]"; });
  return cat("{\"document\":", document, ",\"sequences\":[", join(lists, ","), "]}\n");
}

std::string text_line(const std::vector<Ids>& sequences, const Tokenizer& tokenizer) {
  return join(render(sequences, [&](const Ids& ids) { return tokenizer.decode(ids); }), "") + "\n";
}

/// {"document":0,"text":"..."}: what mtl-preprocess reads; a document of several sequences has a list of texts.
std::string text_json(std::int64_t document, const std::vector<Ids>& sequences, const Tokenizer& tokenizer) {
  const auto texts = render(sequences, [&](const Ids& ids) {
    std::string text;
    append_json_string(text, decode_lossy(tokenizer.decode(ids)));
    return text;
  });
  std::string value = texts.empty() ? "\"\"" : texts.front();
  if (texts.size() > 1) value = cat("[", join(texts, ","), "]");
  return cat("{\"document\":", document, ",\"text\":", value, "}\n");
}

void print_documents(const DataCatOptions& options) {
  const IndexedDataset data(options.prefixes.front());
  if (options.begin > data.documents()) {
    fail(Exit::usage, "--begin ", options.begin, ": ", data.prefix(), " has ", data.documents(), " documents");
  }
  const bool as_text = options.has_tokenizer() && !options.ids;
  const auto tokenizer = as_text ? load_tokenizer(options.tokenizer) : nullptr;
  const std::int64_t rest = data.documents() - options.begin;
  const std::int64_t end = options.begin + std::min(rest, options.count.value_or(rest));
  for (std::int64_t i = options.begin; i < end; ++i) {
    const auto sequences = read_document(data, i);
    if (as_text) {
      print_out(options.json ? text_json(i, sequences, *tokenizer) : text_line(sequences, *tokenizer));
    } else {
      print_out(options.json ? ids_json(i, sequences) : ids_line(sequences));
    }
  }
}

}  // namespace

int data_cat(int argc, const char* const* argv) {
  DataCatOptions options;
  Flags flags("mtl-data cat", "prints the documents of token files, one a line, as ids or as text");
  flags.positional("PREFIX", options.prefixes, "token files, named without .bin or .idx, or by either file");
  flags.add("--begin", &options.begin, "N", "the first document to print, counted from 0");
  flags.add("--count", &options.count, "N", "how many documents to print; all that are left when absent");
  flags.add_switch("--ids", options.ids, "print token ids, also when a tokenizer is given");
  flags.add_switch("--json", options.json, "one JSON object a line: a document's number, and its ids or its text");
  add_tokenizer_flags(flags, options.tokenizer);
  flags.check([&] {
    if (options.has_tokenizer()) check_tokenizer_flags(flags, options.tokenizer);
    if (options.prefixes.size() != 1) flags.problem("PREFIX", cat("give one, not ", options.prefixes.size()));
    if (options.begin < 0) flags.problem(cat("--begin ", options.begin), "must not be negative");
    if (options.count.value_or(0) < 0) flags.problem(cat("--count ", *options.count), "must not be negative");
  });
  return run_main(flags, argc, argv, [&](Console&) {
    print_documents(options);
    return Exit::ok;
  });
}

}  // namespace mtl
