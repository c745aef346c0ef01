// The ranges of parameters in Megatron-LM's flat gradient buffers equal those that megatron-core computes.
#include "models/megatron_buffers.h"

#include <doctest/doctest.h>

#include "formats/pickle_writer.h"
#include "formats/torch_globals.h"
#include "tests/error_of.h"
#include "tests/golden_lines.h"

using namespace mtl;
using namespace mtl::test;

namespace {

std::vector<std::int64_t> integers(const Json& list) {
  std::vector<std::int64_t> out;
  for (const Json& item : list.as_array()) out.push_back(item.as_int());
  return out;
}

/// Arguments of a run, as {name: value}. A negative value is False, and 0 is None.
struct Arguments {
  std::vector<std::pair<const char*, std::int64_t>> values;

  std::optional<std::int64_t> bucket_size(int stage = 0, std::size_t chunk = 0) const {
    PickleWriter writer;
    writer.begin_dict();
    for (const auto& [name, value] : values) {
      writer.text(name);
      if (value == 0) {
        writer.none();
      } else if (value < 0) {
        writer.boolean(false);
      } else if (contains(name, "overlap")) {
        writer.boolean(true);
      } else {
        writer.integer(value);
      }
    }
    writer.end_dict();
    const std::string stream = writer.finish();
    const Pickle pickle(stream, torch_global_use);
    return megatron_bucket_size(pickle.root(), stage, chunk, 10'000);
  }
};

}  // namespace

TEST_CASE("megatron buffers: every parameter is where megatron-core puts it") {
  int with_buckets = 0, with_shared = 0, without_alignment = 0, broken = 0;
  for (const Json& row : golden_lines("golden/distrib_optim/buffers.jsonl")) {
    std::vector<MegatronBufferParam> params;
    for (std::int64_t size : integers(row.at("sizes"))) params.push_back({.elements = size, .has_own_bucket = false});
    for (std::int64_t index : integers(row.at("shared"))) params[index].has_own_bucket = true;
    std::optional<std::int64_t> bucket_size;
    if (!row.at("bucket_size").is_null()) bucket_size = row.at("bucket_size").as_int();
    const bool is_old = row.at("core").as_string() == "0.7.0";
    const std::int64_t alignment = is_old ? kMegatronNoAlignment : kMegatronAlignment;
    CAPTURE(row.dump());
    if (row.at("places").is_null()) {
      CHECK(contains(error_of([&] { megatron_buffer(params, bucket_size, alignment); }, Exit::bad_data),
                     "begins in the padding before its bucket"));
      broken += 1;
      continue;
    }
    const MegatronBuffer buffer = megatron_buffer(params, bucket_size, alignment);
    REQUIRE(buffer.ranges.size() == params.size());
    for (std::size_t i = 0; i < params.size(); ++i) {
      const MegatronBufferRange& range = buffer.ranges[i];
      CHECK(std::vector<std::int64_t>{range.begin, range.end, static_cast<std::int64_t>(range.bucket)} ==
            integers(row.at("places").as_array()[i]));
    }
    std::vector<std::int64_t> ends;
    for (const MegatronBucket& bucket : buffer.buckets) {
      CHECK(bucket.begin == (ends.empty() ? 0 : ends.back()));
      ends.push_back(bucket.end);
    }
    CHECK(ends == integers(row.at("bucket_ends")));
    CHECK(buffer.elements() == ends.back());
    with_buckets += bucket_size ? 1 : 0;
    with_shared += row.at("shared").as_array().empty() ? 0 : 1;
    without_alignment += is_old ? 1 : 0;
  }
  CHECK(with_buckets >= 60);
  CHECK(with_shared >= 40);
  CHECK(without_alignment >= 40);
  CHECK(broken > 0);
}

TEST_CASE("megatron buffers: sizes that overflow are an error") {
  const std::vector<MegatronBufferParam> params(3, {.elements = std::int64_t{1} << 61, .has_own_bucket = false});
  CHECK(contains(error_of([&] { megatron_buffer(params, std::nullopt, kMegatronAlignment); }, Exit::bad_data),
                 "more than 2^62 elements"));
  CHECK(megatron_buffer({}, 5, kMegatronAlignment).elements() == 0);
}

TEST_CASE("megatron buffers: the arguments determine the bucket size") {
  CHECK(!Arguments{}.bucket_size());
  CHECK(!Arguments{{{"overlap_grad_reduce", -1}, {"ddp_bucket_size", 1500}}}.bucket_size());
  const Arguments sized{{{"overlap_grad_reduce", 1}, {"ddp_bucket_size", 1500}, {"ddp_num_buckets", 0}}};
  CHECK(sized.bucket_size() == 1500);
  CHECK(!sized.bucket_size(1));
  CHECK(!sized.bucket_size(0, 1));
  CHECK(Arguments{{{"overlap_grad_reduce", 1}, {"ddp_num_buckets", 3}}}.bucket_size() == 3333);
  CHECK(Arguments{{{"overlap_grad_reduce", 1}, {"ddp_bucket_size", 0}}}.bucket_size() == 40'000'000);
  const Arguments wide{{{"overlap_grad_reduce", 1}, {"data_parallel_size", 32}, {"context_parallel_size", 2}}};
  CHECK(wide.bucket_size() == 64'000'000);
  CHECK(!Arguments{{{"overlap_grad_reduce", 1}, {"overlap_param_gather_with_optimizer_step", 1}}}.bucket_size());
  CHECK(contains(error_of(
                     [] {
                       Arguments{{{"overlap_grad_reduce", 1}, {"ddp_bucket_size", -1}}}.bucket_size();
                     },
                     Exit::bad_data),
                 "not an integer"));
}
