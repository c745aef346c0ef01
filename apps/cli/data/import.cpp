// mtl-data import: makes token files from the token files of other tools.
#include <string>
#include <vector>

#include "base/inputs.h"
#include "cli/data/commands.h"
#include "cli/data/output.h"
#include "cli/data/tokenizer.h"
#include "cli/flags/tokenizer_flags.h"
#include "cli/single_process.h"
#include "data/import_tokens.h"

namespace mtl {
namespace {

struct DataImportOptions {
  std::vector<std::string> files;
  std::string format, input_type = "u16", token_type;
  std::optional<std::int64_t> eod;
  bool eod_first = false;
  TokenizerOptions tokenizer;
  DataOutputOptions output;
};

void import_files(const DataImportOptions& options, Console& console) {
  const auto tokenizer = load_optional_tokenizer(options.tokenizer);
  ImportOptions to{.prefix = options.output.output_prefix, .command = options.output.make.command};
  to.other_inputs = tokenizer_files(options.tokenizer);
  to.other_inputs.push_back(options.output.make.config_file);
  to.type = indexed_type_of(options.token_type);
  to.vocab_size = options.tokenizer.vocab_size;
  if (options.eod) to.document_token = {*options.eod, options.eod_first};
  if (tokenizer != nullptr) {
    to.vocab_size = tokenizer->vocab_size();
    to.tokenizer = describe_tokenizer(*tokenizer);
    if (!options.eod) to.document_token = {tokenizer->eod(), options.eod_first};
  }
  const auto format = options.format.empty() ? std::optional<TokenFormat>() : parse_token_format(options.format);
  std::vector<FlatTokenFile> inputs;
  for (const std::string& file : find_inputs(options.files))
    inputs.emplace_back(file, format, parse_integer_type(options.input_type).value());
  report_made(options.output, import_tokens(to, inputs, console), console);
}

}  // namespace

int data_import(int argc, const char* const* argv) {
  DataImportOptions options;
  options.output.make.command = command_words(argc, argv);
  Flags flags("mtl-data import", "make token files from files of nanoGPT, llm.c, llmq, lit-gpt or NumPy");
  flags.positional("FILE", options.files,
                   "files or patterns of files, such as 'train_*.bin', in the order to join them",
                   "a token file of another tool");
  flags.section("Input");
  flags.add("--format", &options.format, "FORMAT",
            "format of the files; only nanogpt must be named (mtl-data formats lists them)",
            one_of({"npy", "nanogpt", "llm.c", "llmq", "lit-gpt"}));
  flags.add("--input-type", &options.input_type, "TYPE", "type of tokens in files without a header",
            one_of({"u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64"}),
            only_with("--format nanogpt", [&] { return options.format == "nanogpt"; }));
  flags.add("--eod", &options.eod, "ID",
            "end-of-document token, which divides the tokens into documents (default: the tokenizer's)",
            within({0, INT32_MAX}));
  flags.add_switch("--eod-first", options.eod_first, "the token begins each document, as in llm.c's files",
                   needs("--eod, or a tokenizer", [&] { return options.eod || names_tokenizer(options.tokenizer); }));
  flags.section("Tokens");
  add_token_type_flag(flags, options.token_type,
                      "type in which to store the tokens (default: the input's; i32 for u32 and wider)");
  add_output_flags(flags, options.output);
  add_tokenizer_flags(flags, options.tokenizer);
  flags.check([&] {
    check_optional_tokenizer(flags, options.tokenizer);
    for (const std::string& file : options.files) {
      if (file == "-") flags.problem("FILE -", "standard input cannot be imported; write it to a file first");
    }
  });
  return run_single_process(flags, argc, argv, [&](Console& console) { import_files(options, console); });
}

}  // namespace mtl
