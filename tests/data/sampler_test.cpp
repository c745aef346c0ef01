#include "data/sampler.h"

#include "base/error.h"
#include "tests/data/golden.h"

using namespace mtl;

namespace {

SamplerOptions options_of(const Json& one) {
  return {.kind = one.at("kind").as_string() == "cyclic" ? SamplerKind::cyclic : SamplerKind::single,
          .total = one.at("total").as_int(),
          .consumed = one.at("consumed").as_int(),
          .micro_batch_size = one.at("micro_batch_size").as_int(),
          .dp_size = one.at("dp_size").as_int(),
          .dp_rank = one.at("rank").as_int(),
          .data_sharding = one.bool_or("data_sharding", true)};
}

}  // namespace

TEST_CASE("samplers return Megatron-LM's micro-batches") {
  for (const Json& one : golden_lines("golden/sampler/cases.jsonl")) {
    CAPTURE(one.dump());
    const SamplerOptions options = options_of(one);
    if (one.find("error") != nullptr) {
      CHECK_THROWS_AS(Sampler{options}, Error);
      continue;
    }
    Sampler sampler(options);
    for (const Json& batch : one.at("batches").as_array())
      CHECK(sampler.next() == golden::numbers<std::int64_t>(batch));
    if (options.kind == SamplerKind::single) CHECK(sampler.next().empty());
  }
}

TEST_CASE("a sampler resumed in the middle continues like an uninterrupted one") {
  for (const SamplerKind kind : {SamplerKind::single, SamplerKind::cyclic}) {
    SamplerOptions options{.kind = kind, .total = 103, .micro_batch_size = 3, .dp_size = 2, .dp_rank = 1};
    Sampler whole(options);
    for (int i = 0; i < 7; ++i) whole.next();
    options.consumed = whole.consumed();
    Sampler resumed(options);
    for (int i = 0; i < 20; ++i) CHECK(whole.next() == resumed.next());
  }
}
