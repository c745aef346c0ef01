// Configuration files: read under the command line, and dumped so that they are accepted back.
#include <doctest/doctest.h>

#include "tests/cli_unit/tool.h"

using namespace mtl;
using namespace mtl::test;

TEST_CASE("flags: a configuration that repeats a default counts as not given") {
  ScratchFile file("lr = 1.5e-4\nnum-layers = 13\nno-bias = false\n");
  Tool tool;
  tool.parse({"--config", file.path.c_str(), "--prefix", "x"});
  CHECK_FALSE(tool.flags.was_given("--lr"));
  CHECK_FALSE(tool.flags.was_given("--no-bias"));
  CHECK(tool.flags.was_given("--num-layers"));
  CHECK(tool.flags.was_given("--prefix"));
}

TEST_CASE("flags: an incomplete configuration can be dumped, an invalid one cannot") {
  Tool tool;
  std::string load;
  tool.flags.add("--load", &load, "PATH", "the model", required);
  tool.flags.check([&] { tool.flags.problem("FILE", "is missing"); });
  CHECK(tool.parse({"--dump-config"}) == tool.flags.dump_config());
  CHECK(Tool().problems({"--dump-config", "--lr", "x"}) == "--lr x: is not a number\n");
}

TEST_CASE("flags: a dump has no value that a check derived from others") {
  Tool tool;
  tool.flags.check([&] { tool.bias = false, tool.seed = 3; });
  tool.parse({"--dump-config", "--loud"});
  CHECK(tool.flags.dump_config().find("\nno-bias = false") != std::string::npos);
  CHECK(tool.flags.dump_config().find("\n# seed = ") != std::string::npos);
}

TEST_CASE("flags: a flag without help text is omitted from --help, but not from a dump") {
  Tool tool;
  std::int64_t level = 3;
  tool.flags.add("--old-level", &level, "N", "");
  CHECK(!tool.parse({"--old-level", "4"}));
  CHECK(level == 4);
  CHECK(tool.flags.help().find("--loud") != std::string::npos);
  CHECK(tool.flags.help().find("old-level") == std::string::npos);
  CHECK(tool.flags.dump_config().find("old-level = 4") != std::string::npos);
}

TEST_CASE("flags: a dump is accepted back, every value equal") {
  Tool tool;
  const std::optional<std::string> request =
      tool.parse({"--dump-config", "--num-layers", "7", "--lr", "3.3333333333333335e-05", "--no-bias", "--loud",
                  "--prefix", "with # hash, \"quotes\", \\ and  blanks ", "--save", " ", "--seed", "0", "--data-path",
                  "0.3", "a b", "0.7", "c#d"});
  CHECK(request == tool.flags.dump_config());
  std::string dump = tool.flags.dump_config();
  CAPTURE(dump);
  ScratchFile file(dump);
  Tool again;
  again.parse({"--config", file.path.c_str()});
  CHECK(again.layers == 7);
  CHECK(again.lr == tool.lr);
  CHECK_FALSE(again.bias);
  CHECK(again.loud);
  CHECK(again.prefix == tool.prefix);
  CHECK(again.save == tool.save);
  CHECK(again.seed == 0);
  CHECK_FALSE(again.clip.has_value());
  CHECK(again.data == tool.data);
  CHECK(again.style == "linear");
}

TEST_CASE("flags: the command line has precedence over the configuration file, and the origin is reported") {
  ScratchFile file("# a comment\nnum-layers = 24\n  lr=0.5  # inline\nloud\nlayers = 25\n\nno-bias = false\n");
  Tool tool;
  tool.parse({"--lr", "2", "--config", file.path.c_str()});
  CHECK(tool.layers == 25);
  CHECK(tool.lr == 2);
  CHECK(tool.loud);
  CHECK(tool.bias);
  CHECK(tool.flags.was_given("--num-layers"));
  std::string dump = tool.flags.dump_config();
  CHECK(dump.find(cat("num-layers = 25")) != std::string::npos);
  CHECK(dump.find(file.path) != std::string::npos);
  CHECK(dump.find("# command line") != std::string::npos);
}

TEST_CASE("flags: mistakes in a configuration file name the file and the line") {
  ScratchFile file("num-layers = many\nhidden = 3\nuse-flash-attn-3\n");
  std::string problems = Tool().problems({"--config", file.path.c_str()});
  CHECK(problems.find("--num-layers many: is not a whole number") != std::string::npos);
  CHECK(problems.find(cat(file.path, ":2")) != std::string::npos);
  CHECK(problems.find("is not supported; leave it out") != std::string::npos);
  CHECK(Tool().problems({"--config"}) == "--config: needs a value: FILE\n");
  CHECK_THROWS_AS(Tool().parse({"--config", "/nonexistent/x"}), Error);
}

TEST_CASE("flags: a configuration file must respect choices and bounds, too, and may begin with a byte order mark") {
  ScratchFile file("\xEF\xBB\xBFlr-decay-style = cosin\nlr = nan\nseed = 3\n");
  Tool tool;
  CHECK(tool.problems({"--config", file.path.c_str()}) ==
        cat("--lr-decay-style cosin: is unknown; choose one of linear, cosine (", file.path,
            ":1)\n--lr nan: must be a finite number (", file.path, ":2)\n"));
  CHECK(tool.seed == 3);
  ScratchFile utf16(std::string("\xFF\xFEl\0r\0=\0001\0\n\0", 12));
  CHECK_THROWS_WITH_AS(Tool().parse({"--config", utf16.path.c_str()}),
                       doctest::Contains(cat(utf16.path, ": this is UTF-16").c_str()), Error);
}
