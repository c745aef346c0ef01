// mtl-data cat: prints the documents in token files, as ids or as text.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/count_of.h"
#include "cli/data/commands.h"
#include "cli/data/print.h"
#include "cli/single_process.h"

namespace mtl {
namespace {

struct DataCatOptions {
  std::vector<std::string> prefixes;
  DataPrintOptions print;
  std::int64_t begin = 0;
  std::optional<std::int64_t> count;
};

void print_documents(const DataCatOptions& options, Console& console) {
  DocumentPrinter printer(options.print);
  for (const std::string& prefix : options.prefixes) {
    const IndexedDataset data(prefix);
    if (options.begin > data.documents()) {
      fail(Exit::usage, "--begin ", options.begin, " is beyond the ", count_of(data.documents(), "document"), " of ",
           data.prefix(), "; use at most ", data.documents());
    }
    printer.warn_about(data, console);
    const std::int64_t available = data.documents() - options.begin;
    const std::int64_t end = options.begin + std::min(available, options.count.value_or(available));
    for (std::int64_t i = options.begin; i < end; ++i) printer.print(data, i);
  }
  printer.warn_of_changes(console);
}

}  // namespace

int data_cat(int argc, const char* const* argv) {
  DataCatOptions options;
  Flags flags("mtl-data cat", "print the documents of token files, as ids or, with a tokenizer, as JSON lines of text");
  flags.positional("PREFIX", options.prefixes, kPrefixHelp);
  flags.section("Documents");
  flags.add("--begin", &options.begin, "N", "first document to print, from 0", at_least(0));
  flags.add("--count", &options.count, "N", "documents to print (default: all that remain)", at_least(0));
  add_data_print_flags(flags, options.print);
  flags.check([&] {
    check_data_print_flags(flags, options.print);
    if (options.prefixes.empty()) flags.problem("PREFIX", cat("is required: ", kWhatPrefix));
    if (options.prefixes.size() > 1 && (flags.was_given("--begin") || flags.was_given("--count"))) {
      flags.problem("--begin, --count", "apply to a single PREFIX; run mtl-data cat once for each");
    }
  });
  return run_single_process(flags, argc, argv, [&](Console& console) { print_documents(options, console); });
}

}  // namespace mtl
