// Other tools' flags: exact names, families, and suggestions for all other names.
#include "cli/foreign_flags.h"

#include "tests/cli_unit/tool.h"

using namespace mtl;
using namespace mtl::test;
using Answer = ForeignFlags::Answer;

namespace {

const std::vector<std::string> kKnown = {"--lr", "--num-layers", "--hidden-size"};

}  // namespace

TEST_CASE("foreign flags: refused and acknowledged by name") {
  ForeignFlags foreign("mtl-tool");
  foreign.refuse(0, "trains in fp32", "--fp16 --bf16");
  foreign.acknowledge(1, "has no effect", "--num-workers");
  for (const char* name : {"--fp16", "--bf16"}) {
    const Answer answer = foreign.find(name, kKnown);
    CHECK(answer.kind == Answer::refused);
    CHECK(answer.takes == 0);
    CHECK(answer.text == "trains in fp32");
  }
  CHECK(foreign.find("--num-workers", kKnown).kind == Answer::acknowledged);
  CHECK(foreign.find("--num-workers", kKnown).takes == 1);
}

TEST_CASE("foreign flags: a name has precedence over its families, and the longest family over shorter ones") {
  ForeignFlags foreign("mtl-tool");
  foreign.refuse(-1, "no experts", "--moe-*");
  foreign.refuse(1, "no routers", "--moe-router-*");
  foreign.acknowledge(1, "has no effect", "--moe-router-dtype");
  CHECK(foreign.find("--moe-router-dtype", kKnown).text == "has no effect");
  CHECK(foreign.find("--moe-router-topk", kKnown).text == "no routers");
  CHECK(foreign.find("--moe-layers", kKnown).text == "no experts");
  CHECK(foreign.find("--moe", kKnown).kind == Answer::unknown);
}

TEST_CASE("foreign flags: an unknown flag names the flag that may be meant") {
  ForeignFlags foreign("mtl-tool");
  foreign.suggest("--learning-rate --rate", "--lr");
  CHECK(foreign.find("--rate", kKnown).text == "unknown flag; did you mean --lr?");
  CHECK(foreign.find("--num-layer", kKnown).text == "unknown flag; did you mean --num-layers?");
  const Answer answer = foreign.find("--zzzzzzzz", kKnown);
  CHECK(answer.kind == Answer::unknown);
  CHECK(answer.takes == -1);
  CHECK(answer.text == "unknown flag; see mtl-tool --help");
}

TEST_CASE("foreign flags: a text with subjects, answers, and how many values a flag takes") {
  ForeignFlags foreign("mtl-tool");
  foreign.read(
      "# comment\n\n[precision]\nrefused: use --bf16: it is the only one\n  --fp8-* --fp8-recipe= --fp8-hybrid\n"
      "acknowledged: has no effect\n  --margins=... --old\n[logging]\nacknowledged: goes elsewhere\n  --wandb-*\n");
  const auto check = [&](const char* name, Answer::Kind kind, int takes, const char* text, const char* subject) {
    CAPTURE(name);
    const Answer answer = foreign.find(name, kKnown);
    CHECK(answer.kind == kind);
    CHECK(answer.takes == takes);
    CHECK(answer.text == text);
    CHECK(answer.subject == subject);
  };
  check("--fp8-hybrid", Answer::refused, 0, "use --bf16: it is the only one", "precision");
  check("--fp8-recipe", Answer::refused, 1, "use --bf16: it is the only one", "precision");
  check("--fp8-else", Answer::refused, -1, "use --bf16: it is the only one", "precision");
  check("--margins", Answer::acknowledged, -1, "has no effect", "precision");
  check("--old", Answer::acknowledged, 0, "has no effect", "precision");
  check("--wandb-project", Answer::acknowledged, -1, "goes elsewhere", "logging");
  CHECK(foreign.list().find("acknowledged\t--old\thas no effect\tprecision\n") != std::string::npos);
  CHECK_THROWS(foreign.read("ignored: no such answer\n --x"));
}

TEST_CASE("foreign flags: an unknown flag's answer has the flag that may be meant") {
  ForeignFlags foreign("mtl-tool");
  CHECK(foreign.find("--num-layer", kKnown).meant == "--num-layers");
  CHECK(foreign.find("--zzzzzzzz", kKnown).meant.empty());
}

TEST_CASE("foreign flags: a refused flag's value is explained after the message, and not treated as names of flags") {
  Tool tool;
  tool.flags.foreign.explain("--moe", [](const std::string& value) { return cat("\n    ", value, ": --layers"); });
  CHECK(tool.problems({"--num-layers=2", "--moe", "experts.json", "x"}) ==
        "--moe experts.json: has no experts here\n    experts.json: --layers\n");
  Tool other;
  other.flags.foreign.explain("--moe", [](const std::string&) { return "\n    a text"; });
  CHECK(other.problems({"--moe"}) == "--moe: has no experts here\n");
}
