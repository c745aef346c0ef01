// mtl-data export: writes all tokens as one flat file for other tools.
#include <string>

#include "base/count_of.h"
#include "cli/data/commands.h"
#include "cli/single_process.h"
#include "data/export_tokens.h"

namespace mtl {
namespace {

struct DataExportOptions : ExportOptions {
  std::string prefix, format_name, token_type;
  bool json = false;
};

/// Returns the format that --format or else the ending of --output names.
std::optional<TokenFormat> format_of(const DataExportOptions& options) {
  if (!options.format_name.empty()) return parse_token_format(options.format_name);
  return ends_with(options.output, ".npy") ? std::optional(TokenFormat::npy) : std::nullopt;
}

void check_output(Flags& flags, const DataExportOptions& options) {
  const auto format = format_of(options);
  const bool named_npy = ends_with(options.output, ".npy");
  if (flags.was_given("--output") && !format)
    flags.problem(
        "--output " + options.output,
        "does not end in .npy, so the format is not known; add --format nanogpt or --format llm.c, or choose a "
        "name like tokens.npy");
  if (flags.was_given("--output") && format && named_npy != (format == TokenFormat::npy))
    flags.problem("--output " + options.output,
                  named_npy
                      ? cat("ends in .npy, but --format is ", options.format_name, "; choose a name like tokens.bin")
                      : "does not end in .npy, as NumPy's tools expect; choose a name like tokens.npy");
  if (format == TokenFormat::llm_c && flags.was_given("--token-type") && options.token_type != "u16" &&
      options.token_type != "u32")
    flags.problem("--token-type " + options.token_type,
                  "cannot be used with --format llm.c, which has u16 and u32 only");
}

}  // namespace

int data_export(int argc, const char* const* argv) {
  DataExportOptions options;
  Flags flags("mtl-data export", "write all tokens as one flat file for other tools");
  flags.positional("PREFIX", options.prefix, kPrefixHelp);
  flags.section("Output");
  flags.add("--output", &options.output, "FILE", "file to write", required);
  flags.add("--format", &options.format_name, "FORMAT",
            "format of the file; without it, --output must end in .npy (mtl-data formats lists them)",
            one_of({"npy", "nanogpt", "llm.c"}));
  flags.add("--token-type", &options.token_type, "TYPE",
            "type of tokens in the file (default: npy: as stored; else u16, or u32 if 32 or 64 bits are stored)",
            one_of({"u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64"}));
  flags.add_switch("--json", options.json, "print the result as JSON, schema mtl-data-export/1");
  flags.check([&] {
    options.config_file = flags.config_file();
    check_output(flags, options);
  });
  return run_single_process(flags, argc, argv, [&](Console& console) {
    const IndexedDataset data(options.prefix);
    options.format = format_of(options).value();
    options.type = parse_integer_type(options.token_type);
    const Json made = export_tokens(options, data, console);
    if (options.json) return print_out(made.dump() + "\n");
    console.info(cat(options.output, ": ", count_of(made.at("tokens").as_int(), "token"), " as ",
                     made.at("dtype").as_string(), ", format ", made.at("format").as_string()));
  });
}

}  // namespace mtl
