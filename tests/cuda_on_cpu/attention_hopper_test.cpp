// Attention for sm_90a, emulated: tile layouts and descriptors, barriers, masks and accumulators.
#include <functional>
#include <queue>

#include "kernels/attention_cuda.h"
#include "kernels/attention_variant.h"
#include "kernels/cuda/hopper_layout.h"
#include "kernels/cuda/tile_order.h"
#include "tests/cuda_on_cpu/kernels/cuda/capability.h"
#include "tests/kernels/attention_part.h"

using namespace mtl;
using namespace mtl::cuda;
using namespace mtl::test;

namespace {

const AttentionCase kHopperCases[] = {
    {1, 1, 1, 1, 64},
    {1, 127, 2, 1, 64, true},
    {2, 140, 1, 2, 64},
    {1, 530, 1, 1, 64},  // more key tiles than stages
    {1, 390, 1, 1, 64, true, 0.3f, 150},
    {2, 70, 1, 2, 128, true, 0.2f, 40},
    {1, 270, 2, 2, 128, false, 0.1f},
    {1, 520, 1, 1, 128, true},
};

/// A single query, one block, multiple blocks; documents, windows that skip tiles, head groups, dropout.
const AttentionCase kBackwardCases[] = {
    {1, 1, 1, 1, 64},
    {2, 70, 1, 2, 64, true, 0.2f, 40},
    {1, 530, 1, 1, 64, true},           // more tiles than stages
    {1, 270, 1, 1, 64, false, 0, 100},  // tiles that need the mask only for the window
    {1, 131, 1, 2, 128, false, 0.1f},
    {1, 140, 2, 1, 128, true, 0, 70},
    {1, 330, 1, 1, 128},  // more tiles than stages
};

/// Runs the order's blocks on 132 processors, one on each at a time. Returns the share of the processors' time in which
/// they compute. Checks that each tile of each head is computed once.
double share_of_time(const TileOrder& order, const std::function<double(TileOrder::Place)>& seconds_of) {
  std::vector<int> found(order.blocks());
  std::priority_queue<double, std::vector<double>, std::greater<>> free_at;  // when each processor is free
  for (int i = 0; i < 132; ++i) free_at.push(0);
  double work = 0, end = 0;
  for (int block = 0; block < static_cast<int>(order.blocks()); ++block) {
    const TileOrder::Place place = order.at(block);
    REQUIRE(place.tile < order.tiles);
    REQUIRE(place.head < order.heads);
    ++found[static_cast<std::size_t>(place.tile) * static_cast<std::size_t>(order.heads) +
            static_cast<std::size_t>(place.head)];
    const double seconds = seconds_of(place), start = free_at.top();
    free_at.pop();
    free_at.push(start + seconds);
    work += seconds;
    end = std::max(end, start + seconds);
  }
  CHECK(std::all_of(found.begin(), found.end(), [](int count) { return count == 1; }));
  return work / (132 * end);
}

}  // namespace

TEST_CASE("attention tiles: blocks compute every tile of every head once, and leave few processors without work") {
  struct Case {
    std::int64_t length, heads, bytes;
    double least;  // share of the processors' time; the time of tile i of n is n - i
  };
  for (const Case& c : {Case{1, 1, 1, 0}, Case{300, 5, 1 << 20, 0}, Case{2048, 12, 1 << 19, 0.75},
                        Case{2048, 32, 1 << 19, 0.95}, Case{4096, 16, 1 << 20, 0.95}, Case{1024, 96, 1 << 18, 0.95},
                        Case{8192, 32, 1 << 21, 0.95}, Case{32768, 40, 1 << 23, 0.95}}) {
    CAPTURE(c.length);
    CAPTURE(c.heads);
    const TileOrder order(c.length, 128, c.heads, c.bytes);
    CHECK(order.section * c.bytes <= 32 << 20);
    CHECK(share_of_time(order, [&](TileOrder::Place place) { return order.tiles - place.tile; }) >= c.least);
  }
}

TEST_CASE("attention tiles: few groups are divided into parts of their heads, so that dk and dv keep processors busy") {
  struct Case {
    std::int64_t groups, heads, length;  // groups: of all sequences
    int parts;
    double least;
  };
  for (const Case& c :
       {Case{1, 4, 8192, 4, 0.95}, Case{2, 4, 8192, 4, 0.95}, Case{8, 4, 2048, 4, 0.95}, Case{1, 4, 4096, 4, 0.45},
        Case{1, 32, 2048, 32, 0.95}, Case{1, 32, 8192, 8, 0.95}, Case{1, 7, 8192, 7, 0.9}, Case{10, 8, 2048, 3, 0.8},
        Case{11, 8, 2048, 1, 0.7}, Case{8, 4, 4096, 1, 0.95}, Case{1, 1, 2048, 1, 0}}) {
    CAPTURE(c.groups);
    CAPTURE(c.heads);
    CAPTURE(c.length);
    const AttentionSizes sizes{1, c.length, c.length, c.groups, c.heads, 128};
    CHECK(key_parts(sizes) == c.parts);
    const TileOrder order = key_order(sizes, 128);
    const auto seconds_of = [&](TileOrder::Place place) {
      const std::int64_t part = place.head % c.parts;
      return (order.tiles - place.tile) * (c.heads * (part + 1) / c.parts - c.heads * part / c.parts);
    };
    CHECK(share_of_time(order, seconds_of) >= c.least);
    CHECK((c.parts == 1 || order.blocks() <= 512));
  }
}

TEST_CASE("attention hopper: forward equals the fp64 reference") {
  for (const AttentionCase& c : kHopperCases) {
    for (const DType dtype : {DType::bf16, DType::f16}) {
      CAPTURE(c.length);
      CAPTURE(c.dim);
      CAPTURE(std::string(name_of(dtype)));
      const AttentionProblem problem(c.in_dtype(dtype));
      Stream stream(Device::cuda);
      attention_forward_hopper(stream, problem.out, problem.logsumexp, problem.input());
      const AttentionReference expected = attention_reference(problem);
      CHECK(relative_rms(problem.out, expected.out) < rounding_of(dtype, kTolerance.elementwise));
      CHECK(relative_rms(problem.logsumexp, expected.logsumexp) < kTolerance.elementwise);
    }
  }
}

TEST_CASE("attention hopper: backward equals the fp64 reference") {
  for (const AttentionCase& c : kBackwardCases) {
    for (const DType dtype : {DType::bf16, DType::f16}) {
      CAPTURE(c.length);
      CAPTURE(c.dim);
      CAPTURE(std::string(name_of(dtype)));
      const AttentionProblem problem(c.in_dtype(dtype));
      Stream stream(Device::cuda);
      attention_forward_tiles(stream, problem.out, problem.logsumexp, problem.input());
      const auto bytes = static_cast<std::int64_t>(attention_backward_work(stream, problem.input()));
      const Owned memory({bytes / 4});
      const BackwardWork work(memory, problem.input());
      attention_backward_hopper(stream, work, unpack_qkv(problem.dqkv), problem.dout, problem.out, problem.logsumexp,
                                problem.input());
      const AttentionReference expected = attention_reference(problem);
      CHECK(relative_rms(problem.dqkv, expected.dqkv) < rounding_of(dtype, kTolerance.reduction));
      const AttentionProblem again(c.in_dtype(dtype));
      attention_backward_hopper(stream, work, unpack_qkv(again.dqkv), problem.dout, problem.out, problem.logsumexp,
                                problem.input());
      CHECK(again.dqkv.values() == problem.dqkv.values());  // threads and blocks run in a different order
    }
  }
}

TEST_CASE("attention hopper: blocks that sum dk and dv over all heads of their group equal the fp64 reference") {
  const AttentionProblem problem({3, 2, 59, 2, 64, false, 0, 0, DType::bf16});
  REQUIRE(key_parts(problem.input().sizes()) == 1);
  Stream stream(Device::cuda);
  attention_forward_tiles(stream, problem.out, problem.logsumexp, problem.input());
  const Owned delta(problem.logsumexp.shape());
  attention_backward_hopper(stream, {delta, problem.input()}, unpack_qkv(problem.dqkv), problem.dout, problem.out,
                            problem.logsumexp, problem.input());
  const AttentionReference expected = attention_reference(problem);
  CHECK(relative_rms(problem.dqkv, expected.dqkv) < rounding_of(DType::bf16, kTolerance.reduction));
}

TEST_CASE("attention hopper: parts with all keys or with those of a part equal the tiles of mma.sync") {
  // Chunks of 64, 24 and 40: whole tiles, a border within a tile, and parts of which some see no key of others.
  const std::pair<AttentionCase, int> cases[] = {
      {AttentionCase{1, 256, 1, 2, 64}.with_dropout(0.2f), 2},
      {AttentionCase{2, 144, 1, 1, 64}.with_documents().with_window(50), 3},
      {AttentionCase{1, 160, 1, 2, 128}, 2},
      {AttentionCase{1, 256, 1, 1, 128}.with_dropout(0.2f).with_documents(), 4},
  };
  const auto difference = [](const Owned& expected, const Owned& actual) {
    const auto on_host = [](const Owned& memory) { return Tensor(memory.host<Bf16>(), DType::bf16, memory.shape()); };
    return difference_of(on_host(expected), on_host(actual));
  };
  for (const auto& [shape, parts] : cases) {
    CAPTURE(shape.length);
    CAPTURE(shape.dim);
    const AttentionProblem whole(shape.in_dtype(DType::bf16));
    std::vector<AttentionPart> all;
    for (int index = 0; index < parts; ++index) all.emplace_back(whole, SequencePart{index, parts});
    for (int own = 0; own < parts; ++own) {
      for (int owner = -1; owner < parts; ++owner) {  // -1: all keys
        CAPTURE(own);
        CAPTURE(owner);
        const AttentionPart& part = all[own];
        const Owned& from = owner < 0 ? whole.qkv : all[owner].qkv;
        const Qkv keys = unpack_qkv(from);
        const AttentionInput in =
            part.input(whole, keys.k, keys.v, owner < 0 ? SequencePart{} : SequencePart{owner, parts});
        REQUIRE(attention_suits_tiles(in));
        Stream stream(Device::cuda);
        const Owned out(DType::bf16, part.out.shape()), logsumexp(part.logsumexp.shape());
        attention_forward_tiles(stream, part.out, part.logsumexp, in);
        attention_forward_hopper(stream, out, logsumexp, in);
        CHECK(difference(part.out, out) == "");
        for (std::int64_t i = 0; i < logsumexp.numel(); ++i) {
          const float expected = part.logsumexp[i], actual = logsumexp[i];
          CHECK((expected == actual || std::abs(expected - actual) < 1e-4f));  // both may be -inf
        }
        // Backward needs the logsumexp of all keys.
        const Qkv every = unpack_qkv(whole.qkv);
        attention_forward_tiles(stream, part.out, part.logsumexp, part.input(whole, every.k, every.v, {}));
        const auto gradients = [&](auto backward) {
          std::vector<Owned> grads;
          grads.emplace_back(DType::bf16, part.dq.shape());
          grads.emplace_back(DType::bf16, Shape{shape.batch, from.shape()[1], shape.groups, 2, shape.dim});
          const Owned memory({static_cast<std::int64_t>(attention_backward_work(stream, in)) / 4});
          backward(BackwardWork(memory, in), Qkv{{grads[0], 0, shape.heads}, {grads[1], 0, 1}, {grads[1], 1, 1}});
          return grads;
        };
        const auto expected = gradients([&](const BackwardWork& work, const Qkv& grads) {
          attention_dq_tiles(stream, work, grads, part.dout, part.out, part.logsumexp, in);
          attention_dk_dv_tiles(stream, work, grads, part.dout, part.out, part.logsumexp, in);
        });
        const auto actual = gradients([&](const BackwardWork& work, const Qkv& grads) {
          attention_backward_hopper(stream, work, grads, part.dout, part.out, part.logsumexp, in);
        });
        for (int i = 0; i < 2; ++i) CHECK(difference(expected[i], actual[i]) == "");
      }
    }
  }
}

TEST_CASE("attention hopper: forward and backward choose between tiles and hopper, each at its first call") {
  const AttentionProblem problem({1, 70, 1, 1, 64, false, 0, 0, DType::bf16});
  const AttentionInput in = problem.input();
  const AttentionReference expected = attention_reference(problem);
  const std::string forward = attention_forward_key(in), backward = attention_backward_key(in);
  Stream stream(Device::cuda);
  Arena scratch(Device::cuda, "scratch", std::size_t{1} << 20);
  emulated::capability() = 90;
  for (const auto& [of_forward, of_backward] : {std::pair("", ""), {"tiles", "hopper"}, {"hopper", "tiles"}}) {
    const auto agrees = [&](const std::string& key, const std::string& variant) {
      const std::string used = stream.choices().find(key).value_or("none");
      return variant.empty() ? used == "tiles" || used == "hopper" : used == variant;
    };
    if (*of_forward != 0) stream.choices().set(forward, of_forward);
    if (*of_backward != 0) stream.choices().set(backward, of_backward);
    attention_forward(stream, scratch, problem.out, problem.logsumexp, in);
    attention_backward(stream, scratch, unpack_qkv(problem.dqkv), problem.dout, problem.out, problem.logsumexp, in);
    CHECK(agrees(forward, of_forward));
    CHECK(agrees(backward, of_backward));
    CHECK(relative_rms(problem.out, expected.out) < rounding_of(DType::bf16, kTolerance.elementwise));
    CHECK(relative_rms(problem.dqkv, expected.dqkv) < rounding_of(DType::bf16, kTolerance.reduction));
  }
  emulated::capability() = 80;
  CHECK(stream.choices().table().size() == 2);  // neither was rejected
}

TEST_CASE("attention hopper: a gradient that is not finite does not decide which backward is chosen") {
  const AttentionProblem problem({1, 70, 1, 1, 64, false, 0, 0, DType::f16});
  Stream stream(Device::cuda);
  Arena scratch(Device::cuda, "scratch", std::size_t{1} << 20);
  attention_forward_tiles(stream, problem.out, problem.logsumexp, problem.input());
  problem.dout.host<Half>()[3 * 64] = narrow<Half>(INFINITY);
  emulated::capability() = 90;
  attention_backward(stream, scratch, unpack_qkv(problem.dqkv), problem.dout, problem.out, problem.logsumexp,
                     problem.input());
  emulated::capability() = 80;
  CHECK(stream.choices().refusals().empty());
  CHECK(stream.choices().find(attention_backward_key(problem.input())).has_value());
}

TEST_CASE("attention hopper: a stream's backend overrules its choices") {
  const AttentionProblem problem({1, 70, 1, 1, 64, false, 0, 0, DType::bf16});
  const auto bits_with = [&](AttentionBackend backend) {
    Stream stream(Device::cuda);
    stream.set_attention_backend(backend);
    stream.choices().set(attention_forward_key(problem.input()), "hopper");
    Arena scratch(Device::cuda, "scratch", std::size_t{1} << 16);
    attention_forward(stream, scratch, problem.out, problem.logsumexp, problem.input());
    return problem.out.values();
  };
  emulated::capability() = 90;
  const auto all = bits_with(AttentionBackend::automatic), plain = bits_with(AttentionBackend::unfused);
  CHECK(bits_with(AttentionBackend::flash) == all);
  CHECK(plain != all);  // accumulated in a different order
  CHECK_THROWS_WITH(bits_with(AttentionBackend::fused), doctest::Contains("libcudnn.so"));
  emulated::capability() = 80;
}

TEST_CASE("attention hopper: a matrix descriptor has its fields where the PTX ISA says") {
  CHECK(matrix_descriptor(0, 0, 0) == 0x4000000000000000);        // 128-byte swizzle: 1 in bits 62 and 63
  CHECK(matrix_descriptor(0x12340, 0, 0) == 0x4000000000001234);  // address / 16 in bits 0 to 13
  CHECK(matrix_descriptor(0x40010, 0, 0) == 0x4000000000000001);  // only the low 18 address bits count
  CHECK(matrix_descriptor(0, 16384, 0) == 0x4000000004000000);    // leading / 16 in bits 16 to 29
  CHECK(matrix_descriptor(0, 0, 1024) == 0x4000004000000000);     // stride / 16 in bits 32 to 45
  CHECK(matrix_descriptor(0x400, 16384, 1024) == 0x4000004004000040);
}

TEST_CASE("attention hopper: a tensor map has the packed tensor's dimensions, the innermost first") {
  const Tensor packed = meta({3, 70, 2, 6, 128}, DType::bf16);
  const PanelMap map = panel_map({packed, 4, 1}, 128);
  CHECK(map.sizes == std::array<std::uint64_t, 5>{128, 6, 2, 70, 3});
  CHECK(map.strides == std::array<std::uint64_t, 4>{256, 6 * 256, 2 * 6 * 256, 70 * 2 * 6 * 256});
  CHECK(map.box == std::array<std::uint32_t, 5>{64, 1, 1, 128, 1});
}
