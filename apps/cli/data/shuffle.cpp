// mtl-data shuffle: writes documents in random order.
#include <string>
#include <vector>

#include "cli/data/commands.h"
#include "cli/data/output.h"
#include "cli/single_process.h"
#include "data/divide.h"

namespace mtl {
namespace {

struct DataShuffleOptions {
  std::string prefix;
  std::int64_t seed = 1234;
  DataOutputOptions output;
};

void shuffle(const DataShuffleOptions& options, Console& console) {
  const IndexedDataset data(options.prefix);
  const std::vector<std::uint32_t> order =
      shuffled_documents(data.documents(), static_cast<std::uint32_t>(options.seed));
  const DocumentList list{data.documents(), [&](std::int64_t i) {
                            const std::int64_t document = order[i];
                            return DocumentRange{&data, document, document + 1};
                          }};
  const TokenFilesMade made = make_token_files(options.output.make, {&data}, {data.type(), data.is_multimodal()},
                                               {{options.output.output_prefix, list}}, console);
  report_made(options.output, made, console);
}

}  // namespace

int data_shuffle(int argc, const char* const* argv) {
  DataShuffleOptions options;
  options.output.make.command = command_words(argc, argv);
  Flags flags("mtl-data shuffle", "put the documents of token files into a random order");
  flags.positional("PREFIX", options.prefix, kPrefixHelp);
  flags.section("Order");
  flags.add("--seed", &options.seed, "N", "random seed; the order is numpy.random.RandomState(N).permutation",
            within({0, UINT32_MAX}));
  add_data_output_flags(flags, options.output);
  return run_single_process(flags, argc, argv, [&](Console& console) { shuffle(options, console); });
}

}  // namespace mtl
