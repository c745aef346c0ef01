// Command lines: argparse's syntax, with all mistakes reported together.
#include "cli/flags.h"

#include <doctest/doctest.h>

#include "tests/cli_unit/tool.h"
#include "version.h"

using namespace mtl;
using namespace mtl::test;

TEST_CASE("flags: without arguments the defaults apply") {
  Tool tool;
  CHECK(!tool.parse({}));
  CHECK(tool.layers == 12);
  CHECK(tool.lr == 1.5e-4);
  CHECK(tool.bias);
  CHECK_FALSE(tool.seed.has_value());
  CHECK_FALSE(tool.flags.was_given("--lr"));
}

TEST_CASE("flags: values are read as by argparse") {
  Tool tool;
  tool.parse({"--num-layers", "1_000", "--lr=.1", "--seed", "-7", "--clip-grad", "1e-4", "--lr-decay-style", "cosine",
              "--no-bias", "--loud", "-o", "out", "--prefix=a=b"});
  CHECK(tool.layers == 1000);
  CHECK(tool.lr == 0.1);
  CHECK(tool.seed == -7);
  CHECK(tool.clip == 1e-4);
  CHECK(tool.style == "cosine");
  CHECK_FALSE(tool.bias);
  CHECK(tool.loud);
  CHECK(tool.save == "out");
  CHECK(tool.prefix == "a=b");
  CHECK(tool.flags.was_given("--lr"));
}

TEST_CASE("flags: the last use of a repeated flag counts, under any of its names") {
  Tool tool;
  tool.parse({"--num-layers", "2", "--layers", "3", "--num-layers=4", "--data-path", "a", "b", "--data-path", "c"});
  CHECK(tool.layers == 4);
  CHECK(tool.data == std::vector<std::string>{"c"});
}

TEST_CASE("flags: a list accumulates the words of every use, but the command line replaces those of a file") {
  ScratchFile file("inputs = a b\ninputs = c\n");
  for (bool on_command_line : {false, true}) {
    Tool tool;
    std::vector<std::string> inputs{"default"};
    tool.flags.add("--inputs", &inputs, "FILE...", "files", append);
    std::vector<const char*> words{"--config", file.path.c_str()};
    if (on_command_line) words.insert(words.end(), {"--inputs", "x", "--inputs", "y", "z"});
    tool.parse(words);
    CHECK(inputs ==
          (on_command_line ? std::vector<std::string>{"x", "y", "z"} : std::vector<std::string>{"a", "b", "c"}));
  }
}

TEST_CASE("flags: a list ends at the next flag, negative numbers belong to it") {
  Tool tool;
  tool.parse({"--data-path", "0.5", "a", "-1", "b", "--lr", "-2", "file", "-", "--", "--lr"});
  CHECK(tool.data == std::vector<std::string>{"0.5", "a", "-1", "b"});
  CHECK(tool.lr == -2);
  CHECK(tool.inputs == std::vector<std::string>{"file", "-", "--lr"});
}

TEST_CASE("flags: a value may be a dash, or start with one after an equals sign; a flag is not a value") {
  Tool tool;
  tool.parse({"--save", "-", "--prefix=--x"});
  CHECK(tool.save == "-");
  CHECK(tool.prefix == "--x");
  CHECK(Tool().problems({"--save", "--loud"}) == "--save: needs a value: DIR\n");
  CHECK(Tool().problems({"--prefix"}) == "--prefix: needs a value: TEXT\n");
  CHECK(Tool().problems({"--data-path", "--loud"}) == "--data-path: needs a value: PATH...\n");
}

TEST_CASE("flags: an empty value is refused, whatever the flag, and in a configuration file, too") {
  const auto problems = [](std::vector<const char*> words) {
    Tool tool;
    std::string load;
    tool.flags.add("--load", &load, "PATH", "the model", required);
    return tool.problems(std::move(words));
  };
  const std::string empty = ": is empty; add a value, or leave the flag out", load = "--load: is empty; add a value\n";
  for (const char* flag : {"--prefix", "--save", "--lr", "--num-layers", "--lr-decay-style", "--data-path", "--config"})
    CHECK(problems({flag, "", "--load="}) == cat(flag, empty, "\n", load));
  CHECK(problems({"--load", "x", "--data-path", "a", "", "b"}) == cat("--data-path", empty, "\n"));
  CHECK(problems({"--load", "x", "", "file"}) == "FILE: is empty; add a value\n");
  ScratchFile file("save =\nprefix = \"\"\n");
  CHECK(problems({"--load", "x", "--config", file.path.c_str()}) ==
        cat("--save", empty, " (", file.path, ":1)\n--prefix", empty, " (", file.path, ":2)\n"));
}

TEST_CASE("flags: all problems are reported at once, unknown flags first") {
  Tool tool;
  std::string problems = tool.problems({"--num-layer", "3", "--lr", "fast", "--seed", "1.5", "--lr-decay-style",
                                        "cosin", "--use-flash-attn-3", "--moe", "8", "--zzzzzz"});
  CHECK(problems ==
        "--num-layer: unknown flag; did you mean --num-layers?\n"
        "--zzzzzz: unknown flag; see mtl-tool --help\n"
        "--lr fast: is not a number\n"
        "--seed 1.5: is not a whole number\n"
        "--lr-decay-style cosin: is unknown; choose one of linear, cosine\n"
        "--use-flash-attn-3: is not supported; leave it out\n"
        "--moe 8: has no experts here\n");
}

TEST_CASE("flags: a problem that follows from a refused value or a misspelled name is not reported") {
  const auto problems_with_checks = [](std::vector<const char*> words) {
    Tool tool;
    tool.flags.check([&tool] {
      const std::size_t before = tool.flags.problem_count();
      tool.flags.problem("--layers 4", "is too small");  // another name of --num-layers
      tool.flags.problem("--seed 1, --save", "contradict each other");
      CHECK(tool.flags.problem_count() == before + 2);
    });
    return tool.problems(std::move(words));
  };
  const std::string layers = "--layers 4: is too small\n", seed = "--seed 1, --save: contradict each other\n";
  CHECK(problems_with_checks({}) == layers + seed);
  CHECK(problems_with_checks({"--num-layers", "x"}) == "--num-layers x: is not a whole number\n" + seed);
  CHECK(problems_with_checks({"--save"}) == "--save: needs a value: DIR\n" + layers);
  const std::string unknown = "--num-layer: unknown flag; did you mean --num-layers?\n";
  CHECK(problems_with_checks({"--num-layer", "3"}) == unknown);
  CHECK(problems_with_checks({"--num-layer", "3", "--seed", "1"}) == unknown + seed);
  CHECK(problems_with_checks({"--num-layer", "3", "--num-layers", "4"}) == unknown + "--num-layers 4: is too small\n");
  CHECK(problems_with_checks({"--seed=x", "-o", "d"}) == "--seed x: is not a whole number\n" + layers);
  CHECK(problems_with_checks({"--seed", "x", "--seed", "2"}) == "--seed x: is not a whole number\n" + layers + seed);
}

TEST_CASE("flags: a switch takes no value, but true and false may be attached") {
  Tool tool;
  tool.parse({"--loud=true", "--no-bias=false"});
  CHECK(tool.loud);
  CHECK(tool.bias);
  CHECK(Tool().problems({"--loud=maybe"}) == "--loud maybe: is not true or false\n");
}

TEST_CASE("flags: abbreviations are refused") {
  CHECK(Tool().problems({"--verb"}).find("unknown flag") != std::string::npos);
  CHECK(Tool().problems({"-x", "1"}).find("-x: unknown flag") == 0);
}

TEST_CASE("flags: an acknowledged flag is named once and has no effect, its value is not an input") {
  Tool tool;
  tool.parse({"--DDP-impl", "local", "file", "--DDP-impl", "torch"});
  REQUIRE(tool.flags.notices().size() == 1);
  CHECK(tool.flags.notices()[0] == "--DDP-impl no longer chooses anything");
  CHECK(tool.inputs == std::vector<std::string>{"file"});
}

TEST_CASE("flags: a word after a flag is not the value of the unsupported flag before it") {
  Tool tool;
  tool.parse({"--DDP-impl", "--loud", "file"});
  CHECK(tool.inputs == std::vector<std::string>{"file"});
  CHECK(Tool().problems({"--moe", "--loud", "file"}) == "--moe: has no experts here\n");
  CHECK(Tool().problems({"--moe=8", "9"}) == "--moe 8: has no experts here\n");
  CHECK(Tool().problems({"--frob", "1", "2", "--loud=true"}) == "--frob: unknown flag; see mtl-tool --help\n");
}

TEST_CASE("flags: a blank between = and the value is one problem, unless the value may be a file") {
  const auto problems = [](bool takes_files) {
    double lr = 1;
    std::vector<std::string> files;
    Flags flags("mtl-tool", "does nothing");
    flags.add("--lr", &lr, "X", "learning rate", required);
    if (takes_files) flags.positional("FILE", files, "files");
    const std::vector<const char*> words{"mtl-tool", "--lr=", "5"};
    std::string out;
    try {
      flags.parse(int(words.size()), words.data());
    } catch (const UsageError& error) {
      for (const Problem& problem : error.problems()) out += cat(problem.where, ": ", problem.what, "\n");
    }
    return out;
  };
  CHECK(problems(false) == "--lr: has a blank between = and its value 5; remove the blank\n");
  CHECK(problems(true) == "--lr: is empty; add a value\n");
}

TEST_CASE("flags: a misspelled flag takes as many words as the one that was meant") {
  const auto problems = [](std::vector<const char*> words) {
    Tool tool;
    tool.flags.check([&tool] {
      if (tool.inputs.empty()) tool.flags.problem("FILE", "is required");
    });
    return tool.problems(std::move(words));
  };
  CHECK(problems({"--lou", "file"}) == "--lou: unknown flag; did you mean --loud?\n");
  CHECK(problems({"--sav", "x", "file"}) == "--sav: unknown flag; did you mean --save?\n");
  CHECK(problems({"--sav", "x"}) == "--sav: unknown flag; did you mean --save?\nFILE: is required\n");
  // These may have taken the words that were meant as files.
  CHECK(problems({"--data-pat", "x", "file"}) == "--data-pat: unknown flag; did you mean --data-path?\n");
  CHECK(problems({"--frob", "file"}) == "--frob: unknown flag; see mtl-tool --help\n");
  CHECK(problems({"--lr", "file"}) == "--lr file: is not a number\n");
  CHECK(problems({"--frob"}) == "--frob: unknown flag; see mtl-tool --help\nFILE: is required\n");
}

TEST_CASE("flags: a word that begins with a negative number is a value") {
  Tool tool;
  tool.parse({"--data-path", "-0.5 a 0.5 b", "--clip-grad", "-1"});
  CHECK(tool.data == std::vector<std::string>{"-0.5 a 0.5 b"});
}

TEST_CASE("flags: a single positional word is required, and only one") {
  const auto problems = [](std::vector<const char*> words) {
    Flags flags("mtl-tool", "does nothing");
    std::string file;
    flags.positional("FILE", file, "the file");
    CHECK(flags.help().find("usage: mtl-tool [flags] FILE\n") != std::string::npos);
    words.insert(words.begin(), "mtl-tool");
    try {
      flags.parse(static_cast<int>(words.size()), words.data());
    } catch (const UsageError& error) {
      return cat(error.problems().front().where, ": ", error.problems().front().what);
    }
    return file;
  };
  CHECK(problems({}) == "FILE: is required: the file");
  CHECK(problems({"a"}) == "a");
  CHECK(problems({"a", "b"}) == "FILE: takes one word, not 2; run the command once for each");
}

TEST_CASE("flags: a short flag after a switch is a flag, after a flag with one value its value") {
  CHECK(Tool().parse({"--loud", "-hq"}) == Tool().flags.help());
  Tool tool;
  tool.parse({"--prefix", "-hq"});
  CHECK(tool.prefix == "-hq");
}

TEST_CASE("flags: --help lists sections in order, with choices, defaults and the positional words") {
  const std::string help = Tool().flags.help();
  CHECK(help.find("mtl-tool: does nothing\n\nusage: mtl-tool [flags] FILE...\n\n  FILE                        files\n"
                  "\nModel:\n  --num-layers, --layers N    blocks [12]\n  --no-bias                   no bias\n"
                  "\nTraining:\n") == 0);
  CHECK(help.find("\n  --lr-decay-style NAME       shape: linear, cosine [linear]\n") != std::string::npos);
  CHECK(help.find("\n  --save, -o DIR              where\n") != std::string::npos);
  CHECK(help.find("\nGeneral:\n  --help, -h                  print this help and exit\n") > help.find("Training"));
  CHECK(help.ends_with("\n\nMore in the manual page: man mtl-tool\n"));
  Tool wide;
  wide.flags.add("--a-flag-of-twenty-seven-c", &wide.prefix, "N", "x");
  wide.flags.add("--a-flag-of-twenty-six-c", &wide.prefix, "N", "x");
  CHECK(wide.flags.help().find("  --a-flag-of-twenty-seven-c N\n                              x\n") !=
        std::string::npos);
  CHECK(wide.flags.help().find("  --a-flag-of-twenty-six-c N  x\n") != std::string::npos);
}

TEST_CASE("flags: missing required flags and failed checks are reported, unless an unknown flag may be the cause") {
  Tool tool;
  std::string load;
  tool.flags.add("--load", &load, "PATH", "the model", required);
  tool.flags.check([&] {
    if (tool.layers < 1) tool.flags.problem(cat("--num-layers ", tool.layers), "must be positive");
  });
  CHECK(tool.problems({"--num-layers", "0", "--frob"}) ==
        "--frob: unknown flag; see mtl-tool --help\n--num-layers 0: must be positive\n");
}

TEST_CASE("flags: --help and --version have precedence over everything else") {
  CHECK(Tool().parse({"--nonsense", "--help"}) == Tool().flags.help());
  CHECK(Tool().parse({"-h"}) == Tool().flags.help());
  CHECK(Tool().parse({"--version"}) == cat("mtl-tool ", kVersion, "\n"));
  CHECK(Tool().flags.help().find("--num-layers, --layers N") != std::string::npos);
}

TEST_CASE("flags: numbers must be within the bounds of their flag, and doubles finite") {
  const auto problems = [](std::vector<const char*> words) {
    Tool tool;
    std::int64_t count = 1, size = 1;
    double rate = 0.5, scale = 1;
    std::optional<double> most;
    tool.flags.add("--count", &count, "N", "count", at_least(1));
    tool.flags.add("--size", &size, "N", "size", at_least(0), at_most(4096));
    tool.flags.add("--rate", &rate, "P", "rate", at_least(0), below(1));
    tool.flags.add("--scale", &scale, "X", "scale", above(0));
    tool.flags.add("--most", &most, "X", "most", at_most(0.5));
    return tool.problems(std::move(words));
  };
  CHECK(problems({"--count", "1", "--size", "4096", "--rate", "0", "--scale", "1e-300", "--most", "-7"}).empty());
  CHECK(problems({"--count", "0", "--size", "-1", "--rate", "1", "--scale", "0", "--most", "0.51"}) ==
        "--count 0: must be at least 1\n--size -1: must be from 0 to 4096\n--rate 1: must be at least 0 and below 1\n"
        "--scale 0: must be above 0\n--most 0.51: must be at most 0.5\n");
  CHECK(problems({"--count", "-9223372036854775808", "--size", "9223372036854775807"}) ==
        "--count -9223372036854775808: must be at least 1\n--size 9223372036854775807: must be from 0 to 4096\n");
  CHECK(problems({"--scale", "nan"}) == "--scale nan: must be a finite number\n");
  CHECK(problems({"--scale", "inf"}) == "--scale inf: must be a finite number\n");
  for (const char* word : {"nan", "inf", "-inf", "1e999"}) {
    CHECK(problems({"--lr", word}) == cat("--lr ", word, ": must be a finite number\n"));
    CHECK_FALSE(problems({"--scale", word}).empty());
    CHECK_FALSE(problems({"--most", word}).empty());
    CHECK_FALSE(problems({"--count", word}).empty());
  }
}

TEST_CASE("flags: a flag without effect is named once, one that needs another is a problem") {
  const auto run = [](Tool& tool, std::vector<const char*> words) {
    std::string seen;
    std::int64_t width = 1;
    tool.flags.add("--width", &width, "N", "width", only_with("--loud", [&] { return tool.loud; }));
    tool.flags.add("--marks", &seen, "TEXT", "marks", needs("--save", [&] { return tool.save.has_value(); }),
                   needs("--loud", [&] { return tool.loud; }));
    tool.flags.add("--idle", &seen, "TEXT", "idle", only_with("on one rank", [] { return false; }));
    return tool.problems(std::move(words));
  };
  Tool quiet, idle, active, broken;
  CHECK(run(quiet, {}).empty());
  CHECK(quiet.flags.notices().empty());
  CHECK(run(idle, {"--width", "1", "--idle", "x", "--width", "2"}).empty());
  CHECK(idle.flags.notices() ==
        std::vector<std::string>{"--width has no effect without --loud", "--idle has no effect on one rank"});
  CHECK(run(active, {"--width", "1", "--loud", "--marks", "x", "--save", "y"}).empty());
  CHECK(active.flags.notices().empty());
  CHECK(run(broken, {"--marks", "x"}) == "--marks: needs --save, and needs --loud\n");
  CHECK(broken.flags.list_flags().find("--width whole [-inf inf]; has no effect without --loud\n") !=
        std::string::npos);
}

TEST_CASE("flags: a repeated flag that accumulates takes one word per use") {
  Tool tool;
  std::vector<std::string> prompts;
  tool.flags.add("--prompt", &prompts, "TEXT", "text", repeat, or_blank);
  tool.parse({"--prompt", "a b", "file", "--prompt", "-c-", "--prompt="});
  CHECK(prompts == std::vector<std::string>{"a b", "-c-", ""});
  CHECK(tool.inputs == std::vector<std::string>{"file"});
}

TEST_CASE("flags: a common mistake is recognized") {
  Tool tool;
  tool.flags.foreign.suggest("--learning-rate", "--lr");
  CHECK(tool.problems({"--learning-rate", "1"}) == "--learning-rate: unknown flag; did you mean --lr?\n");
}
