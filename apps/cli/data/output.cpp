#include "cli/data/output.h"

#include "base/count_of.h"
#include "cli/run_main.h"
#include "data/integer_type.h"

namespace mtl {

void add_output_flags(Flags& flags, DataOutputOptions& options) {
  flags.section("Output");
  flags.add("--output-prefix", &options.output_prefix, "PREFIX", "prefix of the token files to write", required);
  flags.add_switch("--json", options.json, "print the result as JSON, schema mtl-data-made/1");
  flags.check([&] { options.make.config_file = flags.config_file(); });
}

void add_data_output_flags(Flags& flags, DataOutputOptions& options) {
  add_output_flags(flags, options);
  flags.section("Running");
  add_threads_flag(flags, options.make.threads);
}

void add_token_type_flag(Flags& flags, std::string& name, const std::string& help) {
  flags.add("--token-type", &name, "TYPE", help, one_of({"u8", "i8", "i16", "u16", "i32", "i64"}));
}

std::optional<DataType> indexed_type_of(const std::string& name) {
  const auto type = parse_integer_type(name);
  return type ? indexed_type(*type) : std::nullopt;
}

std::vector<std::string> command_words(int argc, const char* const* argv) {
  std::vector<std::string> words{"mtl-data"};
  words.insert(words.end(), argv, argv + argc);
  return words;
}

void report_made(const DataOutputOptions& options, const TokenFilesMade& made, Console& console) {
  std::int64_t bytes = 0;
  for (const Json& output : made.outputs) bytes += output.at("bin_bytes").as_int() + output.at("idx_bytes").as_int();
  if (options.json) {
    print_out(Json::object({{"schema", "mtl-data-made/1"},
                            {"command", options.make.command.at(1)},
                            {"seconds", made.seconds},
                            {"bytes", bytes},
                            {"outputs", Json(made.outputs)}})
                  .dump() +
              "\n");
    return;
  }
  std::string text = cat(format("%.1f MB", double(bytes) / 1e6), " in ", human_seconds(made.seconds));
  for (const Json& output : made.outputs) {
    text += cat("\n  ", output.at("prefix").as_string(),
                ".bin, .idx: ", count_of(output.at("documents").as_int(), "document"), ", ",
                count_of(output.at("tokens").as_int(), "token"));
  }
  console.info(text);
}

}  // namespace mtl
