#include "data/sampler.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "tests/data/golden.h"
#include "tests/error_of.h"

using namespace mtl;

namespace {

SamplerOptions sampler_options_of(const Json& entry) {
  return {.kind = entry.at("kind").as_string() == "cyclic" ? SamplerKind::cyclic : SamplerKind::single,
          .total = entry.at("total").as_int(),
          .consumed = entry.at("consumed").as_int(),
          .micro_batch_size = entry.at("micro_batch_size").as_int(),
          .dp_size = entry.at("dp_size").as_int(),
          .dp_rank = entry.at("rank").as_int(),
          .data_sharding = entry.bool_or("data_sharding", true)};
}

}  // namespace

TEST_CASE("samplers return Megatron-LM's micro-batches") {
  for (const Json& entry : golden_lines("golden/sampler/cases.jsonl")) {
    CAPTURE(entry.dump());
    const SamplerOptions options = sampler_options_of(entry);
    if (entry.find("error") != nullptr) {
      CHECK_THROWS_AS(Sampler{options}, Error);
      continue;
    }
    Sampler sampler(options);
    for (const Json& batch : entry.at("batches").as_array())
      CHECK(sampler.next() == golden::numbers<std::int64_t>(batch));
    if (options.kind == SamplerKind::single) CHECK(sampler.next().empty());
  }
}

TEST_CASE(
    "without data sharding, ranks read one process's samples, and its micro-batches if those are single samples") {
  for (const std::int64_t micro : {1, 2}) {
    SamplerOptions options{.kind = SamplerKind::cyclic, .total = 64, .micro_batch_size = micro, .data_sharding = false};
    Sampler alone(options);
    options.dp_size = 2;
    Sampler first(options);
    options.dp_rank = 1;
    Sampler second(options);
    for (int step = 0; step < 4; ++step) {
      std::vector<std::int64_t> whole, parts;
      for (int i = 0; i < 4; ++i) std::ranges::copy(alone.next(), std::back_inserter(whole));
      for (int i = 0; i < 2; ++i) {
        std::ranges::copy(first.next(), std::back_inserter(parts));
        std::ranges::copy(second.next(), std::back_inserter(parts));
      }
      CHECK((parts == whole) == (micro == 1));
      CHECK(std::ranges::is_permutation(parts, whole));
    }
  }
}

TEST_CASE("a sampler without samples says what to do") {
  const auto message = [](const SamplerOptions& options) {
    return test::error_of([&] { Sampler{options}; }, Exit::usage);
  };
  CHECK(message({.total = 0}) == "there are no samples to draw; use more data, or a smaller --seq-length");
  CHECK(message({.total = 5, .consumed = 5}) ==
        "no samples are left, because 5 of 5 are consumed; use more data, or --dataloader-type cyclic, which reads the "
        "data again");
}

TEST_CASE("a sampler resumed in the middle continues like an uninterrupted one") {
  for (const SamplerKind kind : {SamplerKind::single, SamplerKind::cyclic}) {
    SamplerOptions options{.kind = kind, .total = 103, .micro_batch_size = 3, .dp_size = 2, .dp_rank = 1};
    Sampler uninterrupted(options);
    for (int i = 0; i < 7; ++i) uninterrupted.next();
    options.consumed = uninterrupted.consumed();
    Sampler resumed(options);
    for (int i = 0; i < 20; ++i) CHECK(uninterrupted.next() == resumed.next());
  }
}

TEST_CASE("a sampler that fills up gives every sample once, and the same number of micro-batches to all ranks") {
  SamplerOptions options{.total = 9, .micro_batch_size = 2, .dp_size = 3, .fills_up = true};
  std::vector<std::int64_t> samples;
  for (options.dp_rank = 0; options.dp_rank < 3; ++options.dp_rank) {
    Sampler sampler(options);
    for (int micro_batch = 0; micro_batch < 2; ++micro_batch)
      std::ranges::copy(sampler.next(), std::back_inserter(samples));
    CHECK(sampler.next().empty());
  }
  std::ranges::sort(samples);
  CHECK(samples == std::vector<std::int64_t>{kNoSample, kNoSample, kNoSample, 0, 1, 2, 3, 4, 5, 6, 7, 8});
}
