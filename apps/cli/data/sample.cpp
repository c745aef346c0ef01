// mtl-data sample: prints documents drawn at random.
#include <algorithm>
#include <string>

#include "cli/data/commands.h"
#include "cli/data/print.h"
#include "cli/single_process.h"
#include "data/divide.h"

namespace mtl {
namespace {

struct DataSampleOptions {
  std::string prefix;
  DataPrintOptions print;
  std::int64_t count = 10;
  std::int64_t seed = 1234;
};

void print_sample(const DataSampleOptions& options, Console& console) {
  DocumentPrinter printer(options.print);
  const IndexedDataset data(options.prefix);
  printer.warn_about(data, console);
  const std::int64_t count = std::min(options.count, data.documents());
  for (const std::int64_t document :
       sample_documents(data.documents(), count, static_cast<std::uint32_t>(options.seed))) {
    printer.print(data, document);
  }
  printer.warn_of_changes(console);
}

}  // namespace

int data_sample(int argc, const char* const* argv) {
  DataSampleOptions options;
  Flags flags("mtl-data sample", "print documents of token files drawn at random, as cat does");
  flags.positional("PREFIX", options.prefix, kPrefixHelp);
  flags.section("Documents");
  flags.add("--count", &options.count, "N", "number of distinct documents to print", at_least(0));
  flags.add("--seed", &options.seed, "N", "random seed for the draw", within({0, UINT32_MAX}));
  add_data_print_flags(flags, options.print);
  flags.check([&] { check_data_print_flags(flags, options.print); });
  return run_single_process(flags, argc, argv, [&](Console& console) { print_sample(options, console); });
}

}  // namespace mtl
