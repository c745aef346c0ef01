// A planned step's operations between ranks: which of them the stream waits for, and what it runs in the meantime.
#include "engine/collectives.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/str.h"
#include "tests/gpt_of_size.h"

using namespace mtl;
using namespace mtl::test;

namespace {

RunShape shape_on(const GridSizes& sizes) {
  RunShape shape;
  shape.seq_length = 16;
  shape.micro_batches = 5;
  shape.padded_vocab = 128;
  shape.layout.grid = RankGrid(sizes);
  shape.storage.bucket_elements = 1;  // a bucket per layer, or more
  return shape;
}

/// Returns "group operation: operations (exposed)" for each kind.
std::string kinds_of(const std::vector<Collectives>& all) {
  std::vector<std::string> out;
  for (const Collectives& each : all)
    out.push_back(cat(each.group, " ", each.operation, ": ", each.operations, " (", each.exposed_operations, ")"));
  return join(out, "; ");
}

std::vector<Collectives> collectives_in(const RunShape& shape, ParamTraffic::Overlap overlap = {}) {
  const GptConfig config = gpt_of_size({.vocab = 128, .layers = 3, .hidden = 64, .heads = 4, .positions = 16});
  return collectives_of(record_step(config, {}, shape, overlap));
}

}  // namespace

TEST_CASE("tensor parallelism: forward waits for its sums at once, weight gradients hide those of backward") {
  RunShape shape = shape_on({.tensor = 2});
  // 5 micro-batches: 4 sums in each of 3 layers, one of the embedding and one of the head; the norm's. The head gathers
  // its rows' maxima and sums.
  CHECK(kinds_of(collectives_in(shape)) == "tensor all-reduce: 71 (41); tensor all-gather: 5 (5)");
  shape.layout.sequence_parallel = true;
  // The sums of parameters outside of the regions, in 5 buckets, are reduced once a step.
  CHECK(kinds_of(collectives_in(shape)) ==
        "tensor reduce-scatter: 70 (40); tensor all-gather: 105 (105); tensor all-reduce: 6 (6)");
}

TEST_CASE("data parallelism: what overlaps with backward or with the next forward is not exposed") {
  RunShape shape = shape_on({.data = 2});
  CHECK(kinds_of(collectives_in(shape)) == "data all-reduce: 10 (10)");  // 9 buckets and the norm
  // The last two buckets have the embedding's parameters, whose gradients backward completes at its end.
  CHECK(kinds_of(collectives_in(shape, {.reduce = true})) == "data all-reduce: 10 (3)");
  shape.layout.zero = 1;
  // The update of a bucket hides the gather of the bucket before it.
  CHECK(kinds_of(collectives_in(shape)) ==
        "data reduce-scatter: 9 (9); data all-reduce: 1 (1); data all-gather: 9 (1)");
  const std::vector<Collectives> overlapped = collectives_in(shape, {.reduce = true, .gather = true});
  CHECK(kinds_of(overlapped) == "data reduce-scatter: 9 (2); data all-reduce: 1 (1); data all-gather: 9 (0)");
  CHECK(overlapped.front().flops_meanwhile > collectives_in(shape).front().flops_meanwhile);
  shape.layout.zero = 2;
  // Sums of sharded gradients are waited for in a later layer; those of the embedding's whole
  // gradients, in two buckets, are waited for at the end of the step.
  CHECK(kinds_of(collectives_in(shape)) ==
        "data reduce-scatter: 37 (2); data all-reduce: 1 (1); data all-gather: 9 (1)");
  shape.layout.zero = 3;
  // Values are gathered a layer ahead, except those of the step's first layer, which has two buckets.
  CHECK(kinds_of(collectives_in(shape)) ==
        "data all-gather: 41 (2); data reduce-scatter: 37 (2); data all-reduce: 1 (1)");
}
