// mtl-data: inspects token files (.bin, .idx) and makes new ones from them.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/shell_word.h"
#include "base/str.h"
#include "cli/build_info.h"
#include "cli/data/commands.h"
#include "cli/run_main.h"
#include "data/indexed_dataset.h"
#include "data/token_formats.h"

using namespace mtl;

namespace {

struct Command {
  std::string_view name, summary;
  DataCommand* run;
};

constexpr Command kCommands[] = {
    {"info", "print counts, sizes and sequence lengths", data_info},
    {"verify", "check every rule of the format", data_verify},
    {"cat", "print documents as ids or text", data_cat},
    {"sample", "print documents drawn at random", data_sample},
    {"stats", "print token frequencies and document lengths", data_stats},
    {"merge", "join token files", data_merge},
    {"split", "divide the documents into several token files", data_split},
    {"shuffle", "put the documents into a random order", data_shuffle},
    {"repair", "compute the pointers of an .idx again", data_repair},
    {"import", "make token files from those of nanoGPT, llm.c, llmq, lit-gpt or NumPy", data_import},
    {"export", "write the tokens for nanoGPT, llm.c or NumPy", data_export},
    {"formats", "list the formats that import and export know", data_formats},
    {"order", "print which tokens make each training sample, in the order of a run", data_order},
};

std::string help() {
  std::string out =
      "mtl-data: inspect token files (PREFIX.bin, PREFIX.idx) and make new ones from them\n\nusage: mtl-data COMMAND "
      "[flags]\n\n";
  for (const Command& command : kCommands) {
    out += format("  %-10s%s\n", std::string(command.name).c_str(), std::string(command.summary).c_str());
  }
  out += "\n  --help, -h  print this help and exit\n";
  out += "  --version   print the version and exit; with --verbose also the build and the folder of share files\n";
  return out + "\nmtl-data COMMAND --help lists the flags of a command. More in the manual page: man mtl-data\n";
}

/// What Flags::list_completions() returns in other programs.
std::string list_completions() {
  std::string out = "flag\t--help,-h\t\t\tprint this help and exit\nflag\t--version\t\t\tprint the version and exit\n";
  for (const Command& command : kCommands) out += cat("command\t", command.name, "\t", command.summary, "\n");
  return out;
}

/// Says why a word is not a command.
std::string objection(const std::string& word) {
  if (file_exists(dataset_prefix(word) + ".idx"))
    return cat(word, " names token files; put a command first, for example: mtl-data info ", shell_word(word));
  if (const auto missing = explain_missing_index(word)) return missing->message;
  const std::vector<std::string> names = texts_of(kCommands, &Command::name);
  const std::string guess = nearest(word, names);
  return cat("unknown command ", word, "; ",
             guess.empty() ? cat("the commands are ", join(names, ", ")) : cat("did you mean ", guess, "?"));
}

int print_and_succeed(const std::string& text) {
  if (std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0) return 0;
  std::fprintf(stderr, "mtl-data: standard output: cannot write: %s\n", std::strerror(errno));
  return static_cast<int>(Exit::io);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs(help().c_str(), stderr);
    return static_cast<int>(Exit::usage);
  }
  std::string word = argv[1];
  if (word == "help" && argc == 2) word = "--help";
  for (const Command& command : kCommands) {
    if (word == command.name) return command.run(argc - 1, argv + 1);
  }
  if (word == "--help" || word == "-h") return print_and_succeed(help());
  if (word == "--version")
    return print_and_succeed(version_text("mtl-data", argc == 3 && argv[2] == std::string_view("--verbose")));
  if (word == "--list-completions") return print_and_succeed(list_completions());
  std::fprintf(stderr, "mtl-data: %s\n", objection(word).c_str());
  return static_cast<int>(Exit::usage);
}
