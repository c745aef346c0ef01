// What tests of flags share: a tool to parse command lines with, and configuration files.
#pragma once

#include <doctest/doctest.h>

#include "cli/flags.h"
#include "tests/scratch_file.h"

namespace mtl::test {

/// A tool with every kind of flag.
struct Tool {
  bool loud = false, bias = true;
  std::int64_t layers = 12;
  double lr = 1.5e-4;
  std::string style = "linear", prefix;
  std::optional<std::int64_t> seed;
  std::optional<double> clip;
  std::optional<std::string> save;
  std::vector<std::string> data, inputs;
  Flags flags{"mtl-tool", "does nothing"};

  Tool() {
    flags.section("Model");
    flags.add("--num-layers,--layers", &layers, "N", "blocks");
    flags.add_switch("--no-bias", bias, "no bias", inverted);
    flags.section("Training");
    flags.add("--lr", &lr, "X", "learning rate");
    flags.add("--lr-decay-style", &style, "NAME", "shape", one_of({"linear", "cosine"}));
    flags.add("--prefix", &prefix, "TEXT", "text");
    flags.add("--seed", &seed, "N", "seed");
    flags.add("--clip-grad", &clip, "X", "clip");
    flags.add("--save,-o", &save, "DIR", "where");
    flags.add("--data-path", &data, "PATH...", "data");
    flags.add_switch("--loud", loud, "more");
    flags.positional("FILE", inputs, "files");
    flags.foreign.refuse(0, "is not supported; leave it out", "--use-flash-attn-3");
    flags.foreign.refuse(1, "has no experts here", "--moe");
    flags.foreign.acknowledge(1, "no longer chooses anything", "--DDP-impl");
  }

  std::optional<std::string> parse(std::vector<const char*> words) {
    words.insert(words.begin(), "mtl-tool");
    return flags.parse(static_cast<int>(words.size()), words.data());
  }

  /// Returns the problems of a command line, one "where: what" per line.
  std::string problems(std::vector<const char*> words) {
    try {
      parse(std::move(words));
    } catch (const UsageError& error) {
      CHECK(error.code() == Exit::usage);
      std::string out;
      for (const auto& [where, what] : error.problems()) out += cat(where, ": ", what, "\n");
      return out;
    }
    return "";
  }
};

}  // namespace mtl::test
