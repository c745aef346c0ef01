#include "data/sampler.h"

#include "base/error.h"
#include "tests/data/golden.h"

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
