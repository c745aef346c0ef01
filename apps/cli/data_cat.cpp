// mtl-data cat: the documents of token files.
#include <optional>
#include <string>
#include <vector>

#include "cli/data_commands.h"
#include "cli/run_main.h"
#include "data/indexed_dataset.h"

namespace mtl {
namespace {

struct DataCatOptions {
  std::vector<std::string> prefixes;
  bool ids = false;
  bool json = false;
  std::int64_t begin = 0;
  std::optional<std::int64_t> count;
};

void append_ids(std::string& out, const std::vector<std::int32_t>& ids, char separator) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) out += separator;
    append_part(out, ids[i]);
  }
}

std::vector<std::int32_t> read_sequence(const IndexedDataset& data, std::int64_t sequence) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(data.lengths()[sequence]));
  data.read(sequence, 0, ids);
  return ids;
}

/// The ids of one document, on one line.
std::string ids_line(const IndexedDataset& data, std::int64_t document) {
  std::string out;
  for (std::int64_t i = data.document_begin(document); i < data.document_begin(document + 1); ++i) {
    if (!out.empty()) out += ' ';
    append_ids(out, read_sequence(data, i), ' ');
  }
  return out + "\n";
}

/// {"document":0,"sequences":[[1,2],[3]]}
std::string json_line(const IndexedDataset& data, std::int64_t document) {
  std::string out = cat("{\"document\":", document, ",\"sequences\":[");
  for (std::int64_t i = data.document_begin(document); i < data.document_begin(document + 1); ++i) {
    out += i == data.document_begin(document) ? "[" : ",[";
    append_ids(out, read_sequence(data, i), ',');
    out += ']';
  }
  return out + "]}\n";
}

void print_documents(const DataCatOptions& options) {
  const IndexedDataset data(options.prefixes.front());
  if (options.begin > data.documents()) {
    fail(Exit::usage, "--begin ", options.begin, ": ", data.prefix(), " has ", data.documents(), " documents");
  }
  const std::int64_t rest = data.documents() - options.begin;
  const std::int64_t end = options.begin + std::min(rest, options.count.value_or(rest));
  for (std::int64_t i = options.begin; i < end; ++i) print_out(options.json ? json_line(data, i) : ids_line(data, i));
}

}  // namespace

int data_cat(int argc, const char* const* argv) {
  DataCatOptions options;
  Flags flags("mtl-data cat", "prints the documents of token files, one a line, as ids");
  flags.positional("PREFIX", options.prefixes, "token files, named without .bin or .idx, or by either file");
  flags.add("--begin", &options.begin, "N", "the first document to print, counted from 0");
  flags.add("--count", &options.count, "N", "how many documents to print; all that are left when absent");
  flags.add_switch("--ids", options.ids, "print token ids, which is the default");
  flags.add_switch("--json", options.json, "one JSON object a line: the document's number and its sequences of ids");
  flags.check([&] {
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
