// Architecture flags as mtl-train resolves them, for tests.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/str.h"
#include "run/architecture.h"

namespace mtl::test {

/// The configuration that the flags resolve to, and the problems reported.
struct Resolved {
  GptConfig config;
  std::vector<std::string> problems;
};

inline Resolved resolve(const ArchitectureOptions& given, std::optional<GptConfig> loaded = {},
                        std::int64_t vocab = 1000) {
  Resolved out;
  auto report = [&](std::string flag, std::string what) { out.problems.push_back(cat(flag, ": ", what)); };
  check_architecture(given, report);
  out.config = resolve_architecture(given, loaded, 512, report);
  if (!loaded) out.config.vocab_size = vocab;
  out.config.complete();
  return out;
}

inline ArchitectureOptions small() {
  ArchitectureOptions given;
  given.num_layers = 2;
  given.hidden_size = 96;
  given.num_attention_heads = 4;
  given.max_position_embeddings = 128;
  return given;
}

}  // namespace mtl::test
