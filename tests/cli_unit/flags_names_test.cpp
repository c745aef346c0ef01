// Which problems are consequences of others, and by which of its names a message calls a flag.
#include <doctest/doctest.h>

#include "base/str.h"
#include "cli/flags.h"

using namespace mtl;

namespace {

/// A tool with two numbers, one of which has two names.
struct SmallTool {
  std::optional<std::int64_t> layers, seed;
  Flags flags{"mtl-tool", "does nothing"};

  SmallTool() {
    flags.add("--num-layers,--layers", &layers, "N", "blocks");
    flags.add("--seed", &seed, "N", "seed");
  }

  /// Returns the problems of a command line, one "where: what" per line.
  std::string problems(std::vector<const char*> words) {
    words.insert(words.begin(), "mtl-tool");
    std::string out;
    try {
      flags.parse(static_cast<int>(words.size()), words.data());
    } catch (const UsageError& error) {
      for (const auto& [where, what] : error.problems()) out += cat(where, ": ", what, "\n");
    }
    return out;
  }
};

}  // namespace

TEST_CASE("flags: a problem that names a flag with a refused value, as its remedy, is not reported") {
  SmallTool tool;
  tool.flags.check([&tool] {
    tool.flags.problem("--style linear", "needs the length of the decay; give --seed, or --other 0");
    tool.flags.problem("data--seed.bin", "is missing");  // a path
    tool.flags.mark_as_meant("--num-layers");
    tool.flags.problem("--num-layers", "is required");
  });
  CHECK(tool.problems({"--seed", "x"}) == "--seed x: is not a whole number\ndata--seed.bin: is missing\n");
}

TEST_CASE("flags: messages use the name that the user gave") {
  for (const char* name : {"--layers", "--num-layers"}) {
    CHECK(SmallTool().problems({name, "x"}) == cat(name, " x: is not a whole number\n"));
    SmallTool tool;
    tool.flags.check([&tool] {
      tool.flags.problem("--num-layers 4", "is fewer than 5 (--num-layers)");
      tool.flags.notice("--num-layers: has no effect");
    });
    CHECK(tool.problems({name, "4"}) == cat(name, " 4: is fewer than 5 (", name, ")\n"));
    CHECK(tool.flags.notices() == std::vector<std::string>{cat(name, ": has no effect")});
  }
}
