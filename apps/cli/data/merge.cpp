// mtl-data merge: joins token files, like Megatron-LM's merge_datasets.
#include <memory>
#include <string>
#include <vector>

#include "cli/data/commands.h"
#include "cli/data/output.h"
#include "cli/single_process.h"
#include "data/merge.h"

namespace mtl {
namespace {

struct DataMergeOptions {
  std::vector<std::string> prefixes;
  std::string input, token_type;
  DataOutputOptions output;
};

void merge(const DataMergeOptions& options, Console& console) {
  std::vector<std::unique_ptr<IndexedDataset>> inputs;
  std::vector<const IndexedDataset*> views;
  std::vector<DocumentRange> ranges;
  for (const std::string& prefix : options.input.empty() ? options.prefixes : find_token_files(options.input)) {
    inputs.push_back(std::make_unique<IndexedDataset>(prefix));
    views.push_back(inputs.back().get());
    ranges.push_back({views.back(), 0, views.back()->documents()});
  }
  const MergeTraits traits = check_mergeable(inputs, indexed_type_of(options.token_type));
  const TokenFilesMade made = make_token_files(options.output.make, views, traits,
                                               {{options.output.output_prefix, list_of(std::move(ranges))}}, console);
  report_made(options.output, made, console);
}

}  // namespace

int data_merge(int argc, const char* const* argv) {
  DataMergeOptions options;
  options.output.make.command = command_words(argc, argv);
  Flags flags("mtl-data merge", "join token files: the documents of the first, then of the second, ...");
  flags.positional("PREFIX", options.prefixes, "prefixes of the token files, in the order to join them");
  flags.section("Input");
  flags.add("--input", &options.input, "DIR",
            "join all token files of a folder instead, by name in byte order, as Megatron-LM's merge_datasets does");
  flags.section("Tokens");
  add_token_type_flag(flags, options.token_type,
                      "type in which to store all tokens; without it, all files must have the same type");
  add_data_output_flags(flags, options.output);
  flags.foreign.acknowledge(0, "has no effect, because the files record whether they have modes", "--multimodal");
  flags.check([&] {
    if (options.input.empty() == options.prefixes.empty()) {
      flags.problem("PREFIX, --input", options.input.empty()
                                           ? "are both missing; name the token files, or their folder with --input DIR"
                                           : "cannot be used together; name token files without a flag (mtl-data merge "
                                             "A B ...), or a folder with --input");
    }
  });
  return run_single_process(flags, argc, argv, [&](Console& console) { merge(options, console); });
}

}  // namespace mtl
