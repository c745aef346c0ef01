// Which problems are consequences of others, and by which of its names a message calls a flag.
#include "tests/cli_unit/tool.h"

using namespace mtl;
using namespace mtl::test;

TEST_CASE("flags: a problem that names a flag with a refused value, as its remedy, is not reported") {
  Tool tool;
  tool.flags.check([&tool] {
    tool.flags.problem("--style linear", "needs the length of the decay; give --seed, or --other 0");
    tool.flags.problem("data--seed.bin", "is missing");  // a path
    tool.flags.mark_as_meant("--num-layers");
    tool.flags.problem("--num-layers", "is required");
  });
  CHECK(tool.problems({"--seed", "x"}) == "--seed x: is not a whole number\ndata--seed.bin: is missing\n");
}

TEST_CASE("flags: messages use the name that the user gave") {
  Tool short_name;
  short_name.flags.check([&short_name] { short_name.flags.problem("--save x", "is a folder; choose another --save"); });
  CHECK(short_name.problems({"-o", "x"}) == "-o x: is a folder; choose another -o\n");
  for (const char* name : {"--layers", "--num-layers"}) {
    CHECK(Tool().problems({name, "x"}) == cat(name, " x: is not a whole number\n"));
    Tool tool;
    tool.flags.check([&tool] {
      tool.flags.problem("--num-layers 4", "is fewer than 5 (--num-layers)");
      tool.flags.notice("--num-layers: has no effect");
    });
    CHECK(tool.problems({name, "4"}) == cat(name, " 4: is fewer than 5 (", name, ")\n"));
    CHECK(tool.flags.notices() == std::vector<std::string>{cat(name, ": has no effect")});
  }
}
