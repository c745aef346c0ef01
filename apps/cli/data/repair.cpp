// mtl-data repair: computes an .idx file's pointers again.
#include <string>

#include "base/count_of.h"
#include "base/output_lock.h"
#include "cli/data/commands.h"
#include "cli/single_process.h"
#include "data/index_repair.h"
#include "data/indexed_dataset.h"

namespace mtl {
namespace {

struct DataRepairOptions {
  std::string prefix;
  std::string output, config_file;
  bool in_place = false;
};

void repair(const DataRepairOptions& options, Console& console) {
  const std::string prefix = dataset_prefix(options.prefix), idx = prefix + ".idx";
  const std::string output = options.in_place ? idx : options.output;
  InterruptGuard guard(console.program());  // must outlive the lock
  OutputClaim claim{.prefixes = {dataset_prefix(output)}, .names = {output}, .inputs = {}, .flag = "PREFIX"};
  if (!options.in_place) {
    claim.inputs = {idx, prefix + ".bin", options.config_file};
    claim.flag = "--output";
  }
  const std::vector<OutputLock> locks = claim_outputs(claim, guard, console);
  const IndexRepair made = repair_index(prefix, output, &guard);
  console.info(cat(output, ": ", count_of(made.changed, "pointer"), " of ", with_commas(made.sequences), " corrected"));
}

}  // namespace

int data_repair(int argc, const char* const* argv) {
  DataRepairOptions options;
  Flags flags("mtl-data repair", "write an .idx with pointers computed from its lengths");
  flags.positional("PREFIX", options.prefix, kPrefixHelp);
  flags.section("Output");
  flags.add("--output", &options.output, "FILE.idx", "file to write; PREFIX.bin belongs to it as it is");
  flags.add_switch("--in-place", options.in_place, "replace PREFIX.idx once the new one is complete");
  flags.check([&] {
    options.config_file = flags.config_file();
    if (options.in_place == !options.output.empty())
      flags.problem("--output, --in-place", "use exactly one of them: write another .idx, or replace PREFIX.idx");
    if (!options.output.empty() && !ends_with(options.output, ".idx"))
      flags.problem("--output " + options.output, "does not end in .idx; choose a name like PREFIX.idx");
  });
  return run_single_process(flags, argc, argv, [&](Console& console) { repair(options, console); });
}

}  // namespace mtl
