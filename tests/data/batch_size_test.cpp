#include "data/batch_size.h"

#include "base/error.h"
#include "tests/data/golden.h"
#include "tests/error_of.h"

using namespace mtl;

namespace {

BatchSizeOptions options_of(const Json& args) {
  BatchSizeOptions options{.global_batch_size = args.at("global_batch_size").as_int(),
                           .micro_batch_size = args.at("micro_batch_size").as_int(),
                           .data_parallel_size = args.at("data_parallel_size").as_int(),
                           .decrease_if_needed = args.at("decrease_batch_size_if_needed").as_bool()};
  if (!args.at("rampup").is_null()) options.rampup = golden::numbers<std::int64_t>(args.at("rampup"));
  return options;
}

void check_batch_sizes(const Json& entry) {
  const BatchSizeOptions options = options_of(entry.at("args"));
  if (!entry.at("error").is_null()) {
    // Megatron-LM divides by zero if a ramp has no steps. Here such a ramp is constant.
    if (options.rampup && options.rampup->front() == options.global_batch_size)
      CHECK(BatchSizes(options).sizes().size() == 1);
    else
      CHECK_THROWS_AS(BatchSizes{options}, Error);
    return;
  }
  const BatchSizes sizes(options);
  for (const Json& row : entry.at("values").as_array()) {
    const auto want = golden::numbers<std::int64_t>(row);
    CAPTURE(want[0]);
    CHECK(sizes.nominal(want[0]) == want[1]);
    CHECK(sizes.running(want[0]) == want[2]);
    CHECK(sizes.micro_batches(want[0]) == want[3]);
  }
  std::int64_t consumed = 0, iterations = 0;
  for (const Json& row : entry.at("walk").as_array()) {
    const auto want = golden::numbers<std::int64_t>(row);
    REQUIRE(want[0] == consumed);
    CHECK(sizes.running(consumed) == want[1]);
    CHECK(sizes.count_samples(iterations) == consumed);
    CHECK(sizes.count_iterations(consumed) == iterations);
    if (consumed > 0) CHECK(sizes.count_iterations(consumed - 1) == iterations - 1);
    consumed += want[1];
    ++iterations;
  }
}

}  // namespace

TEST_CASE("batch sizes equal Megatron-LM's") {
  for (const Json& entry : golden_lines("golden/schedules/batch_size.jsonl")) {
    CAPTURE(entry.at("args").dump());
    check_batch_sizes(entry);
  }
}

TEST_CASE("batch sizes follow a step schedule") {
  for (const Json& entry : golden_lines("golden/schedules/step_schedule.jsonl")) {
    CAPTURE(entry.at("schedule").as_string());
    BatchSizeOptions options{.schedule = entry.at("schedule").as_string()};
    if (!entry.at("seq_length").is_null()) options.seq_length = entry.at("seq_length").as_int();
    const BatchSizes sizes(options);
    for (const Json& row : entry.at("values").as_array())
      CHECK(sizes.nominal(row.as_array()[0].as_int()) == row.as_array()[1].as_int());
  }
}

TEST_CASE("counting iterations and counting samples agree") {
  const BatchSizes sizes({.micro_batch_size = 2, .schedule = "0:4 30:6,100:10"});
  CHECK(sizes.sizes() == std::vector<std::int64_t>{4, 6, 10});
  std::int64_t consumed = 0;
  for (std::int64_t iteration = 0; iteration < 60; ++iteration) {
    CHECK(sizes.count_samples(iteration) == consumed);
    for (std::int64_t read = 0; read < sizes.running(consumed); ++read)
      CHECK(sizes.count_iterations(consumed + read) == iteration);
    consumed += sizes.running(consumed);
  }
  CHECK(sizes.count_iterations(98, 32) == 11);  // from 32 to 98, at 6 samples each
  CHECK(sizes.count_iterations(10, 32) == 0);
}

TEST_CASE("the possible sizes are in ascending order, each once and rounded down") {
  using Sizes = std::vector<std::int64_t>;
  CHECK(BatchSizes({.schedule = "0:8 10:4 20:8"}).sizes() == Sizes{4, 8});
  CHECK(BatchSizes({.schedule = " 0:8,  10:4 "}).sizes() == Sizes{4, 8});
  CHECK(BatchSizes({.global_batch_size = 7, .micro_batch_size = 3, .decrease_if_needed = true}).sizes() == Sizes{6});
  const BatchSizes ramp({.global_batch_size = 8, .rampup = Sizes{2, 3, 10}});
  CHECK(ramp.sizes() == Sizes{2, 5, 8});
  CHECK(ramp.largest() == 8);
  CHECK(BatchSizes({.global_batch_size = 8, .rampup = Sizes{2, 3, 0}}).nominal(0) == 8);
  // Exact above 2^53.
  const BatchSizes late({.schedule = "0:4 9007199254740993:8"});
  CHECK(late.nominal(9007199254740992) == 4);
  CHECK(late.nominal(9007199254740993) == 8);
  CHECK(BatchSizes({.schedule = "0:4 1.5T:8"}).nominal(1'500'000'000'000) == 8);
}

TEST_CASE("impossible batch sizes, ramps and schedules are refused") {
  const auto refused = [](BatchSizeOptions options) { CHECK_THROWS_AS(BatchSizes{options}, Error); };
  for (const char* text : {"10:4", "0:4 0:8", "0:4 20:8 10:16", "0:x", "0", ":4", "0:4 1Q:8", "0:0", " ", "0:4 -1:8",
                           "x:4", "-0.5:4", "0:4 20000000T:8", "nan:4"})
    refused({.schedule = text});
  refused({.micro_batch_size = 4, .schedule = "0:8 10:10"});
  refused({.global_batch_size = 16, .rampup = std::vector<std::int64_t>{4, 4, 100}, .schedule = "0:4"});
  refused({.global_batch_size = 16, .rampup = std::vector<std::int64_t>{4, 4}});
  for (const std::vector<std::int64_t>& ramp : std::initializer_list<std::vector<std::int64_t>>{
           {4, 0, 10}, {0, 4, 10}, {4, 4, -1}, {20, 4, 10}, {4, 5, 10}, {4, 4, 10, 0}, {-4, 4, 10}})
    refused({.global_batch_size = 16, .rampup = ramp});
  refused({.global_batch_size = INT64_C(1) << 31});
  refused({.global_batch_size = 4, .data_parallel_size = 0});
  const auto message = [](std::int64_t size) {
    return test::error_of([&] { BatchSizes({.global_batch_size = size, .micro_batch_size = 4}); }, Exit::usage);
  };
  CHECK(test::contains(message(3), "use at least 4"));
  CHECK(test::contains(message(10), "use --decrease-batch-size-if-needed to round it down to 8"));
  const std::int64_t half = std::int64_t{1} << 62;  // four times this overflows to 0 in 64 bits
  refused({.global_batch_size = 1, .micro_batch_size = half, .data_parallel_size = 4});
  refused({.global_batch_size = half, .micro_batch_size = half});
  CHECK_THROWS_WITH_AS(BatchSizes({.global_batch_size = 4, .micro_batch_size = 0}), doctest::Contains("micro-batch"),
                       Error);
  refused({.schedule = "0:4611686018427387904"});
  refused({.global_batch_size = 2, .micro_batch_size = 4, .decrease_if_needed = true});
}
