// mtl-data export: writes all tokens as one NumPy array.
#include <string>
#include <vector>

#include "base/count_of.h"
#include "base/inputs.h"
#include "base/interrupt_guard.h"
#include "cli/data_commands.h"
#include "cli/single_process.h"
#include "data/make_token_files.h"
#include "data/npy.h"

namespace mtl {
namespace {

struct DataExportOptions {
  std::string prefix;
  std::string output, config_file;
};

void export_tokens(const DataExportOptions& options, Console& console) {
  constexpr std::size_t kChunk = 8 << 20;
  const IndexedDataset data(options.prefix);
  std::vector<std::string> read = files_of({&data});
  read.push_back(options.config_file);
  refuse_overwriting(read, {options.output}, "--output");
  require_space(options.output, data.bin_bytes());
  InterruptGuard guard(console.program());  // must outlive `file`
  ByteProgress progress(console, data.bin_bytes());
  AtomicFile file(options.output, &guard);
  file.write(npy_header(data.type(), data.tokens()));
  for (std::string_view unwritten = data.bin_file().text(); !unwritten.empty();) {
    const std::string_view chunk = unwritten.substr(0, kChunk);
    file.write(chunk);
    unwritten.remove_prefix(chunk.size());
    progress.add(chunk.size());
  }
  data.check_sizes();
  file.commit();
  console.end_progress();
  console.info(cat(options.output, ": ", count_of(data.tokens(), "token"), " as ", name_of(data.type())));
}

}  // namespace

int data_export(int argc, const char* const* argv) {
  DataExportOptions options;
  Flags flags("mtl-data export", "write all tokens as one NumPy array");
  flags.positional("PREFIX", options.prefix, "prefix of the token files, or either of the two files");
  flags.section("Output");
  flags
      .add("--output", &options.output, "FILE.npy", "file for the array: one dimension, in the type of the token files")
      .required();
  flags.check([&] {
    options.config_file = flags.config_file();
    if (flags.was_given("--output") && !ends_with(options.output, ".npy")) {
      flags.problem("--output " + options.output,
                    "does not end in .npy, the only supported format; choose a name like tokens.npy");
    }
  });
  return run_single_process(flags, argc, argv, [&](Console& console) { export_tokens(options, console); });
}

}  // namespace mtl
