// Attention variants: which ones accept a call, and which is chosen, using simulated variants. On a GPU with multiple
// variants, also compares their results.
#include "kernels/attention_variant.h"

#include <chrono>
#include <limits>
#include <set>
#include <thread>

#include "device/cuda_device.h"
#include "tests/kernels/attention_reference.h"

using namespace mtl;
using namespace mtl::test;

namespace {

using Variants = std::vector<AttentionVariant>;
constexpr auto simple = AttentionVariant::simple, tiles = AttentionVariant::tiles, hopper = AttentionVariant::hopper,
               cudnn = AttentionVariant::cudnn;

/// A training call whose tensors have shapes but no memory.
struct Call {
  AttentionInput in;
  Tensor out, logsumexp;
  explicit Call(std::int64_t dim, DType dtype = DType::bf16)
      : out(meta({2, 70, 6, dim}, dtype)), logsumexp(meta({2, 6, 70})) {
    in.qkv = unpack_qkv(meta({2, 70, 2, 5, dim}, dtype));
    in.rows.rows_per_sequence = 70;
    in.scale = 1;
  }
  Variants on(int capability) const { return attention_forward_variants(in, out, logsumexp, capability); }
};

/// Simulated variants that write given numbers to the start of a (2, 1, 4) tensor and take a given time.
struct SimulatedVariants {
  std::vector<float> memory = std::vector<float>(8);
  Tensor result{memory.data(), DType::f32, {2, 1, 4}};
  std::map<AttentionVariant, std::vector<float>> numbers;
  std::map<AttentionVariant, int> milliseconds{}, runs{};

  AttentionVariant choose(Stream& stream, const Variants& among) {
    const auto run = [&](AttentionVariant variant) {
      std::copy(numbers.at(variant).begin(), numbers.at(variant).end(), memory.begin());
      ++runs[variant];
      std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds[variant]));
    };
    return choose_variant(stream, "a call", among, run, {result});
  }
};

const std::vector<float> kReferenceResult{1, 2, 3, 4, 100, 200, 300, 400};

}  // namespace

TEST_CASE("attention variants: dtype, head size and GPU decide which accept forward") {
  for (const int capability : {80, 86, 89, 100, 120}) CHECK(Call(64).on(capability) == Variants{tiles, cudnn});
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const std::int64_t dim : {64, 128}) CHECK(Call(dim, dtype).on(90) == Variants{tiles, hopper, cudnn});
    for (const std::int64_t dim : {80, 96}) CHECK(Call(dim, dtype).on(90) == Variants{tiles, cudnn});
    for (const std::int64_t dim : {8, 32, 48, 72, 112}) CHECK(Call(dim, dtype).on(90) == Variants{tiles});
    for (const std::int64_t dim : {4, 60, 100, 136, 192, 256}) CHECK(Call(dim, dtype).on(90) == Variants{simple});
  }
  CHECK(Call(64, DType::f32).on(90) == Variants{simple});
  Call shifted(64);
  shifted.out = {reinterpret_cast<std::byte*>(8), DType::bf16, shifted.out.shape()};
  CHECK(shifted.on(90) == Variants{simple});
}

TEST_CASE("attention variants: a warning says that 16-bit heads of a size run on the scalar kernel") {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const std::int64_t dim : {8, 64, 72, 128}) CHECK(scalar_attention_warning(dtype, dim).empty());
    for (const std::int64_t dim : {60, 136, 256}) {
      const std::string warning = scalar_attention_warning(dtype, dim);
      CHECK(warning.find(cat("heads have ", dim, " elements")) != std::string::npos);
      CHECK(Call(dim, dtype).on(90) == Variants{simple});
    }
    for (const std::int64_t chunk : {32, 64, 4096}) CHECK(scalar_attention_warning(dtype, 64, chunk).empty());
    CHECK(scalar_attention_warning(dtype, 64, 48).find("chunks of 48 positions") != std::string::npos);
  }
  CHECK(scalar_attention_warning(DType::f32, 60).empty());
  CHECK(scalar_attention_warning(DType::f32, 60, 48).empty());
}

TEST_CASE("attention variants: parts of sequences suit tiles, with dropout only in chunks of whole tiles") {
  Call call(64);
  call.in.key_part = call.in.rows.part = {1, 2};
  CHECK(call.on(90) == Variants{tiles, hopper});
  CHECK(call.on(80) == Variants{tiles});
  CHECK(!attention_suits_cudnn(call.in));
  call.in.dropout = {0.1f, {1, 2}};
  CHECK(call.on(90) == Variants{simple});  // chunks of 35 positions
  CHECK(!attention_suits_tiles(call.in));
  for (const std::int64_t rows : {64, 128, 320}) {
    call.in.qkv = unpack_qkv(meta({2, rows, 2, 5, 64}, DType::bf16));
    call.in.rows.rows_per_sequence = rows;
    CHECK(call.on(90) == Variants{tiles, hopper});
  }
}

TEST_CASE("attention variants: decoding uses simple, and hopper does not accept a part of a sequence") {
  Call part(64);
  part.in.qkv.k.tensor = part.in.qkv.v.tensor = meta({2, 100, 2, 5, 64}, DType::bf16);
  CHECK(part.on(90) == Variants{tiles});  // hopper rejects more keys than queries
  part.in.rows.first_row = 30;
  CHECK(part.on(90) == Variants{tiles});
  Call cached(64);
  cached.in.past = meta({2}, DType::i32);
  CHECK(cached.on(90) == Variants{tiles});
  cached.in.qkv.q.tensor = meta({2, 1, 2, 3, 64}, DType::bf16);
  cached.in.qkv.q.first = 0;
  CHECK(attention_forward_variants(cached.in, cached.out, {}, 90) == Variants{simple});
}

TEST_CASE("attention variants: backward uses tiles and hopper if every operand suits them") {
  const Call call(64), narrow(96), wide(64, DType::f32);
  const auto on = [](const Call& c, int capability) {
    return attention_backward_variants(c.in, c.in.qkv, c.out, c.out, capability);
  };
  for (const int capability : {80, 100}) CHECK(on(call, capability) == Variants{tiles});
  CHECK(on(call, 90) == Variants{tiles, hopper});
  CHECK(on(narrow, 90) == Variants{tiles});
  CHECK(on(wide, 90) == Variants{simple});
  Qkv grads = call.in.qkv;
  grads.k.tensor = {reinterpret_cast<std::byte*>(4), DType::bf16, grads.k.tensor.shape()};
  CHECK(attention_backward_variants(call.in, grads, call.out, call.out, 90) == Variants{simple});
}

TEST_CASE("attention variants: cudnn accepts whole causal sequences") {
  Call call(64);
  for (const auto& [groups, heads] : {std::pair{6, 1}, {1, 6}, {2, 3}}) {
    call.in.qkv = unpack_qkv(meta({2, 70, groups, heads + 2, 64}, DType::bf16));
    CHECK(call.on(80) == Variants{tiles, cudnn});
    CHECK(call.on(90) == Variants{tiles, hopper, cudnn});
    CHECK(cudnn_work_bytes(call.in, call.logsumexp) == kCudnnWorkspace);
    CHECK(cudnn_work_bytes(call.in, {}) == kCudnnWorkspace + 2 * 6 * 70 * 4);
  }
  const auto refused = [&](auto change) {
    Call changed = call;
    change(changed.in);
    return changed.on(80) == Variants{tiles};
  };
  CHECK(refused([](AttentionInput& in) { in.window = 69; }));
  CHECK_FALSE(refused([](AttentionInput& in) { in.window = 70; }));
  CHECK(refused([](AttentionInput& in) { in.document_start = meta({2, 70}, DType::i32); }));
  CHECK(refused([](AttentionInput& in) { in.dropout = {0.1f, {1, 2}}; }));
  CHECK(refused([](AttentionInput& in) { in.past = meta({2}, DType::i32); }));
  CHECK(refused([](AttentionInput& in) { in.rows.first_row = 1; }));
  CHECK(refused([](AttentionInput& in) { in.qkv = unpack_qkv(meta({2, 70, 6, 3, 72}, DType::bf16)); }));
}

TEST_CASE("attention variants: calls for other queries, keys or parts have other keys, whole sequences the plain one") {
  const Call whole(64);
  CHECK(attention_forward_key(whole.in) == "attention forward bfloat16 B=2 T=70 G=2 R=3 D=64");
  const auto changed = [&](auto change) {
    Call call = whole;
    change(call.in);
    return call.in;
  };
  const Tensor more_keys = meta({2, 140, 2, 5, 64}, DType::bf16);
  std::vector<AttentionInput> calls = {whole.in};
  calls.push_back(changed([](AttentionInput& in) { in.rows.part = in.key_part = {0, 2}; }));
  calls.push_back(changed([](AttentionInput& in) { in.rows.part = in.key_part = {1, 2}; }));
  calls.push_back(changed([](AttentionInput& in) { in.rows.part = {0, 2}, in.key_part = {1, 2}; }));
  for (const std::int64_t first : {0, 30, 70}) {
    calls.push_back(changed([&](AttentionInput& in) {
      in.qkv.k.tensor = in.qkv.v.tensor = more_keys;
      in.rows.first_row = first;
    }));
  }
  calls.push_back(changed([&](AttentionInput& in) { in.past = meta({2}, DType::i32); }));
  std::set<std::string> keys;
  for (const AttentionInput& in : calls) keys.insert({attention_forward_key(in), attention_backward_key(in)});
  CHECK(keys.size() == 2 * calls.size());
}

TEST_CASE("attention variants: a backend limits which may be used") {
  const auto allowed = [](const char* name, const Variants& all) {
    return allowed_forward_variants(parse_attention_backend(name), all);
  };
  const auto backward = [](const char* name, const Variants& all) {
    return allowed_backward_variants(parse_attention_backend(name), all);
  };
  CHECK(allowed("auto", {tiles, hopper, cudnn}) == Variants{tiles, hopper, cudnn});
  CHECK(allowed("flash", {tiles, hopper, cudnn}) == Variants{tiles, hopper});
  CHECK(allowed("tiles", {tiles, hopper, cudnn}) == Variants{tiles});
  CHECK(allowed("tiles", {simple}) == Variants{simple});
  CHECK(backward("tiles", {tiles, hopper}) == Variants{tiles});
  CHECK(backward("tiles", {simple}) == Variants{simple});
  CHECK(allowed("fused", {tiles, hopper, cudnn}) == Variants{cudnn});
  for (const char* own : {"auto", "flash", "fused"}) CHECK(backward(own, {tiles, hopper}) == Variants{tiles, hopper});
  for (const char* plain : {"unfused", "local"}) {
    CHECK(allowed(plain, {tiles, hopper}) == Variants{simple});
    CHECK(backward(plain, {tiles, hopper}) == Variants{simple});
  }
  CHECK_THROWS_WITH(allowed("fused", {tiles, hopper}), doctest::Contains("choose auto or flash"));
  CHECK_THROWS_WITH(parse_attention_backend("fast"), doctest::Contains("choose auto, flash, tiles"));
}

TEST_CASE("attention variants: the key of a choice names what its time depends on") {
  Call call(64);
  CHECK(attention_forward_key(call.in) == "attention forward bfloat16 B=2 T=70 G=2 R=3 D=64");
  CHECK(attention_backward_key(call.in) == "attention backward bfloat16 B=2 T=70 G=2 R=3 D=64");
  call.in.window = 70;
  CHECK(attention_forward_key(call.in) == "attention forward bfloat16 B=2 T=70 G=2 R=3 D=64");
  call.in.window = 32;
  call.in.document_start = meta({2, 70}, DType::i32);
  call.in.dropout = {0.1f, {1, 2}};
  CHECK(attention_forward_key(call.in) ==
        "attention forward bfloat16 B=2 T=70 G=2 R=3 D=64 window=32 documents dropout");
}

TEST_CASE("attention variants: the fastest variant is measured once, and found again in the choices") {
  Stream stream(Device::cpu);
  SimulatedVariants simulated{.numbers = {{tiles, kReferenceResult}, {hopper, kReferenceResult}},
                              .milliseconds = {{tiles, 20}, {hopper, 1}}};
  CHECK(simulated.choose(stream, {tiles, hopper}) == hopper);
  CHECK(stream.choices().find("a call") == "hopper");
  CHECK(stream.choices().refusals().empty());
  const auto runs = simulated.runs;
  CHECK(simulated.choose(stream, {tiles, hopper}) == hopper);
  CHECK(simulated.runs == runs);

  Stream resumed(Device::cpu);  // with a checkpoint's choices
  resumed.choices().add(stream.choices().table());
  CHECK(simulated.choose(resumed, {tiles, hopper}) == hopper);
  CHECK(simulated.runs == runs);
  CHECK(simulated.choose(resumed, {tiles}) == tiles);  // hopper is not a candidate

  Stream other(Device::cpu);
  simulated.milliseconds = {{tiles, 1}, {hopper, 20}};
  CHECK(simulated.choose(other, {tiles, hopper}) == tiles);
}

TEST_CASE("attention variants: a faster variant with different results is refused, and the reason recorded") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::vector<float>& wrong : {std::vector<float>{1, 2, 3, 5, 100, 200, 300, 400},
                                          {1, 2, 3, 4, 100, 200, 300, 0},
                                          {1, 2, 3, nan, 100, 200, 300, 400}}) {
    Stream stream(Device::cpu);
    SimulatedVariants simulated{.numbers = {{tiles, kReferenceResult}, {hopper, wrong}},
                                .milliseconds = {{tiles, 20}, {hopper, 1}}};
    CHECK(simulated.choose(stream, {tiles, hopper}) == tiles);
    const std::vector<std::string> refused = stream.choices().refusals();
    REQUIRE(refused.size() == 1);
    CHECK(refused[0].starts_with("a call refuses hopper: its results differ from those of tiles: "));
    CHECK(simulated.choose(stream, {tiles, hopper}) == tiles);
    CHECK(stream.choices().refusals() == refused);
  }
}

TEST_CASE("attention variants: a variant that writes nothing, or not everything, is refused") {
  for (const std::size_t written : {0, 3, 7}) {
    Stream stream(Device::cpu);
    SimulatedVariants simulated{.numbers = {{tiles, kReferenceResult},
                                            {hopper, {kReferenceResult.begin(), kReferenceResult.begin() + written}}},
                                .milliseconds = {{tiles, 20}, {hopper, 1}}};
    CHECK(simulated.choose(stream, {tiles, hopper}) == tiles);
    CHECK(
        stream.choices().refusals() ==
        std::vector<std::string>{cat("a call refuses hopper: it does not write element ", written, " of its results")});
    Stream other(Device::cpu);
    CHECK_THROWS_WITH(simulated.choose(other, {hopper, tiles}), doctest::Contains("--attention-backend unfused"));
  }
}

TEST_CASE("attention variants: a variant that throws is refused; an error of the reference is rethrown") {
  Stream stream(Device::cpu);
  std::vector<float> memory(8);
  const auto run = [&](AttentionVariant variant) {
    if (variant == cudnn) fail(Exit::failure, "cuDNN has no engine");
    memory = kReferenceResult;
  };
  const Tensor result{memory.data(), DType::f32, {2, 1, 4}};
  CHECK(choose_variant(stream, "a call", {tiles, cudnn}, run, {result}) == tiles);
  CHECK(stream.choices().refusals() == std::vector<std::string>{"a call refuses cudnn: cuDNN has no engine"});
  CHECK_THROWS_WITH(choose_variant(stream, "another", {cudnn, tiles}, run, {result}), "cuDNN has no engine");
}

TEST_CASE("attention variants: results that differ by rounding agree, in every dtype") {
  for (const auto& [dtype, factor] : {std::pair(DType::f32, 1e-4), {DType::f16, 1e-3}, {DType::bf16, 1e-2}}) {
    with_float_type(dtype, [&]<class T>(T) {
      std::vector<T> want, near, far;
      for (int i = 1; i <= 32; ++i) {
        want.push_back(narrow<T>(static_cast<float>(i)));
        near.push_back(narrow<T>(static_cast<float>(i * (1 + factor))));
        far.push_back(narrow<T>(static_cast<float>(i * (i > 24 ? 1.1 : 1))));
      }
      const auto tensor = [&](std::vector<T>& of) { return Tensor(of.data(), dtype, {4, 1, 8}); };
      CHECK(difference_of(tensor(want), tensor(near)).empty());
      CHECK(difference_of(tensor(want), tensor(far)).starts_with("row 3 differs by "));
    });
  }
}

TEST_CASE("attention variants: a gradient that is 0 up to rounding agrees, a missing one does not") {
  const std::vector<float> want{1e-6f, -2e-6f, 1, 2, 0.01f, 0.02f, 3, 4};
  const auto differs = [&](std::vector<float> got) {
    std::vector<float> expected = want;
    return difference_of({expected.data(), DType::f32, {4, 1, 2}}, {got.data(), DType::f32, {4, 1, 2}});
  };
  CHECK(differs({-3e-6f, 1e-6f, 1, 2, 0.01f, 0.02f, 3, 4}).empty());
  CHECK(differs({1e-6f, -2e-6f, 1, 2, 0, 0, 3, 4}).starts_with("row 2 differs by "));
}

TEST_CASE("attention variants: a head with small gradients is compared with itself, not with larger heads") {
  std::vector<float> want, got;  // as dq beside dv: (8 rows, 2 heads, 1 element)
  for (int row = 0; row < 8; ++row) {
    want.insert(want.end(), {0.01f, 100.0f});
    got.insert(got.end(), {row == 5 ? 0.011f : 0.01f, 100.0f});
  }
  CHECK(difference_of({want.data(), DType::f32, {8, 2, 1}}, {got.data(), DType::f32, {8, 2, 1}})
            .starts_with("row 10 differs by "));
}

TEST_CASE("attention hopper: results equal the reference on a GPU that supports it") {
  const CudaDevice gpu = find_cuda_device();
  const int capability = gpu.usable() ? 10 * gpu.major + gpu.minor : 0;
  for (const std::int64_t dim : {64, 128}) {
    for (const AttentionCase& c :
         {AttentionCase{1, 1, 1, 1, dim},
          AttentionCase{2, 300, 1, 2, dim}.with_documents().with_dropout(0.2f).with_window(150),
          AttentionCase{1, 700, 2, 2, dim}, AttentionCase{1, 1024, 1, 1, dim}.with_dropout(0.1f)}) {
      for (const DType dtype : {DType::bf16, DType::f16}) {
        const AttentionProblem problem(c.in_dtype(dtype));
        const Variants variants =
            attention_forward_variants(problem.input(), problem.out, problem.logsumexp, capability);
        if (variants.back() != hopper) {
          MESSAGE("skipped: needs a GPU of compute capability 9.0");
          return;
        }
        CAPTURE(c.length);
        CAPTURE(dim);
        Stream stream(kDevice);
        stream.choices().set(attention_forward_key(problem.input()), "hopper");
        attention_forward(stream, attention_scratch(), problem.out, problem.logsumexp, problem.input());
        const AttentionReference expected = attention_reference(problem);
        CHECK(relative_rms(problem.out, expected.out) < rounding_of(dtype, kTolerance.elementwise));
        CHECK(relative_rms(problem.logsumexp, expected.logsumexp) < kTolerance.elementwise);
        stream.choices().set(attention_backward_key(problem.input()), "hopper");
        attention_backward(stream, attention_scratch(), unpack_qkv(problem.dqkv), problem.dout, problem.out,
                           problem.logsumexp, problem.input());
        CHECK(relative_rms(problem.dqkv, expected.dqkv) < rounding_of(dtype, kTolerance.reduction));
      }
    }
  }
}
