// Attention, compared with its fp64 definition, with finite differences, and with itself: in other dtypes, with other
// thread counts, and with the batch divided in other ways.
#include "kernels/attention.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "tests/instruction_sets.h"
#include "tests/kernels/attention_reference.h"

using namespace mtl;
using namespace mtl::test;

namespace {

const AttentionCase kCases[] = {
    // batch, length, groups, heads, dim
    AttentionCase{1, 1, 1, 1, 1},
    AttentionCase{2, 3, 1, 1, 3},
    AttentionCase{1, 17, 2, 2, 5},
    AttentionCase{2, 64, 2, 1, 16},
    AttentionCase{1, 65, 1, 4, 32},
    AttentionCase{1, 127, 2, 1, 64}.with_documents(),
    AttentionCase{1, 205, 1, 2, 80},
    AttentionCase{2, 50, 3, 1, 8}.with_dropout(0.1f),
    AttentionCase{1, 97, 2, 4, 64}.with_documents().with_dropout(0.3f),
    AttentionCase{1, 300, 1, 2, 33}.with_documents().with_dropout(0.5f),
    AttentionCase{1, 481, 1, 1, 24}.with_documents(),
    AttentionCase{3, 48, 1, 1, 64}.with_dropout(0.001f),
    AttentionCase{1, 23, 1, 2, 8}.with_window(1),
    AttentionCase{2, 64, 1, 2, 16}.with_window(8),
    AttentionCase{1, 205, 2, 1, 40}.with_window(37),
    AttentionCase{1, 401, 1, 2, 32}.with_window(150),
    AttentionCase{1, 481, 1, 1, 24}.with_documents().with_window(96),
    AttentionCase{1, 300, 1, 2, 33}.with_documents().with_dropout(0.5f).with_window(61),
    AttentionCase{2, 97, 1, 2, 64}.with_dropout(0.3f).with_window(97),
    AttentionCase{1, 65, 1, 4, 32}.with_window(1000),
    AttentionCase{2, 70, 1, 2, 96}.with_documents().with_dropout(0.2f).with_window(40),
    AttentionCase{1, 150, 2, 1, 128}.with_dropout(0.1f),
    // sizes between those of a GPU's tiles
    AttentionCase{2, 70, 2, 3, 48}.with_documents().with_dropout(0.2f).with_window(40),
    AttentionCase{1, 97, 1, 2, 72}.with_documents(),
    AttentionCase{1, 66, 2, 2, 88}.with_dropout(0.1f),
    AttentionCase{2, 130, 1, 2, 112}.with_dropout(0.1f).with_window(50),
};

/// Runs the problem and checks all results against the fp64 reference. In 16 bits, backward reads a rounded `out`.
void check_against_reference(const AttentionProblem& problem) {
  const DType dtype = problem.shape.dtype;
  problem.run();
  const AttentionReference expected = attention_reference(problem);
  CHECK(relative_rms(problem.out, expected.out) < rounding_of(dtype, kTolerance.elementwise));
  CHECK(relative_rms(problem.logsumexp, expected.logsumexp) < kTolerance.elementwise);
  CHECK(relative_rms(problem.dqkv, expected.dqkv) < rounding_of(dtype, kTolerance.reduction));
}

/// Also checks that four threads produce the same bits.
void check_threads(const AttentionProblem& problem) {
  check_against_reference(problem);
  const AttentionProblem four(problem.shape);
  four.run(4);
  CHECK(same_bits(problem.out, four.out));
  CHECK(same_bits(problem.logsumexp, four.logsumexp));
  CHECK(same_bits(problem.dqkv, four.dqkv));
}

/// Copies the elements from `from` to `to`, in fp32.
void widen_into(const Owned& to, const Owned& from) {
  const Doubles values = from.values();
  std::transform(values.begin(), values.end(), to.begin(), [](double value) { return static_cast<float>(value); });
}

}  // namespace

TEST_CASE(
    "attention: forward and backward equal the fp64 reference in every dtype, with the same bits on four threads") {
  for (const AttentionCase& c : kCases) {
    for (const DType dtype : kAttentionTypes) {
      CAPTURE(c.length);
      CAPTURE(c.dim);
      CAPTURE(std::string(name_of(dtype)));
      check_threads(AttentionProblem(c.in_dtype(dtype)));
    }
  }
}

TEST_CASE("attention: key gradients of many groups, which a GPU sums in one part or in three, equal the reference") {
  check_against_reference(AttentionProblem(AttentionCase{3, 5, 60, 2, 16}.with_dropout(0.1f).in_dtype(DType::f16)));
  check_against_reference(AttentionProblem(AttentionCase{4, 5, 33, 4, 16}.with_documents().in_dtype(DType::bf16)));
}

TEST_CASE("attention: 16-bit operands produce the fp32 results of the same numbers, rounded once") {
  if (device_has_tensor_cores()) return;  // their results are as close to the reference, but not the same bits
  for (const AttentionCase& c : kCases) {
    for (const DType dtype : {DType::bf16, DType::f16}) {
      CAPTURE(c.length);
      CAPTURE(c.dim);
      CAPTURE(std::string(name_of(dtype)));
      const AttentionProblem narrow(c.in_dtype(dtype)), wide(c);
      narrow.run();
      widen_into(wide.qkv, narrow.qkv);
      widen_into(wide.dout, narrow.dout);
      wide.forward(wide.input());
      CHECK(same_bits(narrow.out, rounded(wide.out, dtype)));
      CHECK(same_bits(narrow.logsumexp, wide.logsumexp));
      widen_into(wide.out, narrow.out);
      wide.backward(wide.input());
      CHECK(same_bits(narrow.dqkv, rounded(wide.dqkv, dtype)));
    }
  }
}

TEST_CASE("attention: every instruction set of this machine equals the reference") {
  on_every_instruction_set([] {
    for (const DType dtype : kAttentionTypes)
      check_threads(AttentionProblem(
          AttentionCase{1, 131, 1, 2, 21}.with_documents().with_dropout(0.2f).with_window(45).in_dtype(dtype)));
  });
}

TEST_CASE("attention: gradients equal finite differences") {
  for (const AttentionCase& c :
       {AttentionCase{1, 9, 1, 2, 5}, AttentionCase{2, 19, 1, 1, 3}.with_documents().with_dropout(0.25f),
        AttentionCase{1, 19, 1, 2, 3}.with_window(5)}) {
    AttentionProblem problem(c);
    problem.run();
    Owned dqkv = std::move(problem.dqkv);
    problem.dqkv = Owned(dqkv.shape());
    Doubles slopes = finite_differences(problem.qkv, [&] {
      problem.forward(problem.input());
      return weighted_sum(problem.dout, problem.out);
    });
    CHECK(relative_rms(dqkv, slopes) < kTolerance.difference);
  }
}

namespace {

/// Checks that parts of the batch and groups produce the same bits as all of them together.
void check_division(DType dtype) {
  AttentionProblem whole(AttentionCase{4, 70, 2, 2, 16}.with_documents().with_dropout(0.2f).in_dtype(dtype)),
      part(AttentionCase{2, 70, 1, 2, 16}.with_documents().with_dropout(0.2f).in_dtype(dtype));
  whole.run();
  const Doubles whole_out = whole.out.values(), whole_dqkv = whole.dqkv.values();
  const AttentionCase &w = whole.shape, &c = part.shape;
  std::int64_t positions = c.batch * c.length, out_row = c.heads * c.dim;
  for (std::int64_t first = 0; first < w.batch; first += c.batch) {
    for (std::int64_t group = 0; group < w.groups; ++group) {
      auto place = [&](std::int64_t t) { return (first * w.length + t) * w.groups + group; };
      for (std::int64_t t = 0; t < positions; ++t) {
        copy_elements(whole.qkv, place(t) * c.row(), c.row(), part.qkv, t * c.row());
        copy_elements(whole.dout, place(t) * out_row, out_row, part.dout, t * out_row);
        part.start()[t] = whole.start()[first * w.length + t];
      }
      part.first_sample = whole.first_sample + first;
      AttentionInput in = part.input();
      in.first_head += group * c.heads;
      part.run(in);
      const Doubles out = part.out.values(), dqkv = part.dqkv.values();
      for (std::int64_t t = 0; t < positions; ++t) {
        CHECK(std::equal(&out[t * out_row], &out[t * out_row] + out_row, &whole_out[place(t) * out_row]));
        CHECK(std::equal(&dqkv[t * c.row()], &dqkv[t * c.row()] + c.row(), &whole_dqkv[place(t) * c.row()]));
      }
    }
  }
}

}  // namespace

TEST_CASE("attention: dividing the batch in two, or the heads, changes no bit") {
  for (const DType dtype : kAttentionTypes) check_division(dtype);
}

TEST_CASE("attention: meta counts what the device counts, plans its scratch and touches no memory") {
  for (const AttentionCase& c :
       {AttentionCase{2, 33, 2, 2, 8}.with_documents().with_dropout(0.1f),
        AttentionCase{2, 33, 2, 2, 8}.with_documents().with_dropout(0.1f).in_dtype(DType::bf16),
        AttentionCase{1, 64, 4, 1, 64}, AttentionCase{1, 64, 4, 1, 64}.in_dtype(DType::f16)}) {
    AttentionProblem problem(c);
    Stream stream(kDevice, 3), counter(Device::meta, 3, kDevice);
    Arena plan(Device::meta, "scratch", 0);
    AttentionInput on_meta = problem.input();
    on_meta.qkv = unpack_qkv(meta(problem.qkv.shape(), c.dtype));
    if (c.documents) on_meta.document_start = meta({c.batch, c.length}, DType::i32);
    on_meta.rows.samples = meta({c.batch}, DType::i64);
    Tensor out = meta(problem.out.shape(), c.dtype), logsumexp = meta(problem.logsumexp.shape());
    double pairs = static_cast<double>(c.batch * c.all_heads() * c.length * c.length * c.dim);
    attention_forward(counter, plan, out, logsumexp, on_meta);
    CHECK(counter.counters().flops == 2 * pairs);
    attention_backward(counter, plan, on_meta.qkv, out, out, logsumexp, on_meta);
    CHECK(counter.counters().flops == 7 * pairs);

    Arena scratch(kDevice, "scratch", plan.peak());  // the exact planned size
    attention_forward(stream, scratch, problem.out, problem.logsumexp, problem.input());
    attention_backward(stream, scratch, unpack_qkv(problem.dqkv), problem.dout, problem.out, problem.logsumexp,
                       problem.input());
    CHECK(scratch.peak() == plan.peak());
    CHECK(stream.counters().flops == counter.counters().flops);
    CHECK(stream.counters().bytes == counter.counters().bytes);
  }
}

TEST_CASE("attention: a window that covers every query changes no bit") {
  AttentionProblem whole(AttentionCase{2, 130, 1, 2, 24}.with_documents().with_dropout(0.2f)),
      window(AttentionCase{2, 130, 1, 2, 24}.with_documents().with_dropout(0.2f).with_window(130));
  whole.run();
  for (std::int64_t size : {std::int64_t{130}, std::numeric_limits<std::int64_t>::max()}) {
    window.shape.window = size;
    window.run();
    CHECK(same_bits(whole.out, window.out));
    CHECK(same_bits(whole.logsumexp, window.logsumexp));
    CHECK(same_bits(whole.dqkv, window.dqkv));
  }
}

TEST_CASE("attention: FLOPs are those of the scores within the window") {
  for (std::int64_t window : {0, 1, 2, 7, 8, 9, 100}) {
    AttentionInput in;
    for (std::int64_t first : {0, 3, 8}) {
      Stream counter(Device::meta, 1, kDevice);
      Arena plan(Device::meta, "scratch", 0);
      in.qkv = unpack_qkv(meta({2, 8, 1, 5, 4}));
      in.qkv.k.tensor = in.qkv.v.tensor = meta({2, 16, 1, 5, 4});
      in.rows.first_row = first;
      in.window = window;
      in.scale = 1;
      attention_forward(counter, plan, meta({2, 8, 3, 4}), {}, in);
      double scores = 0;
      for (std::int64_t p = first; p < first + 8; ++p)
        scores += static_cast<double>(p + 1) - 0.5 -
                  static_cast<double>(window == 0 ? 0 : std::max<std::int64_t>(0, p + 1 - window));
      CHECK(counter.counters().flops == 4.0 * 2 * 3 * 4 * scores);
    }
  }
}

TEST_CASE("attention: mismatched shapes are refused") {
  AttentionProblem problem(AttentionCase{2, 8, 1, 2, 4}.with_documents().with_dropout(0.1f));
  Stream stream(kDevice);
  Arena scratch(kDevice, "scratch", 1 << 20);
  Tensor out = problem.out, logsumexp = problem.logsumexp, lengths = meta({2}, DType::i32);
  auto forward = [&](const AttentionInput& in) { attention_forward(stream, scratch, out, logsumexp, in); };
  CHECK_NOTHROW(forward(problem.input()));

  auto refused = [&](const char* word, auto change) {
    AttentionInput in = problem.input();
    change(in);
    CHECK_THROWS_WITH(forward(in), doctest::Contains(word));
  };
  Tensor qkv = problem.qkv;
  refused("attention: q", [&](AttentionInput& in) { in.qkv = unpack_qkv(qkv.view({2, 8, 4, 4})); });
  refused("attention: q", [&](AttentionInput& in) { in.qkv = unpack_qkv(qkv.view({2, 8, 2, 2, 4})); });
  refused("attention: q", [](AttentionInput& in) { in.qkv.q.first = 3; });
  refused("attention: k", [](AttentionInput& in) { in.qkv.k.first = 4; });
  refused("one head", [](AttentionInput& in) { in.qkv.v = {in.qkv.v.tensor, 2, 2}; });
  refused("attention: k", [&](AttentionInput& in) { in.qkv.k = {qkv.view({2, 8, 2, 2, 4}), 0, 1}; });
  refused("laid out like k", [&](AttentionInput& in) { in.qkv.v = {qkv.view({2, 4, 1, 8, 4}), 7, 1}; });
  refused("out", [&](AttentionInput& in) {
    in.qkv = unpack_qkv(qkv.view({2, 4, 2, 4, 4}));
    in.rows.rows_per_sequence = 4;
    in.document_start = {};
  });
  refused("document_start", [](AttentionInput& in) { in.document_start = in.document_start.view({8, 2}); });
  refused("dropout", [](AttentionInput& in) { in.dropout.probability = 0.999f; });
  refused("dropout", [](AttentionInput& in) { in.dropout.probability = -0.1f; });
  refused("samples", [](AttentionInput& in) { in.rows.samples = {}; });
  refused("rows_per_sequence is 9, expected 8", [](AttentionInput& in) { in.rows.rows_per_sequence = 9; });
  refused("whole sequences", [&](AttentionInput& in) { in.past = lengths; });
  auto refused_without_dropout = [&](const char* word, auto change) {
    refused(word, [&](AttentionInput& in) {
      in.dropout = {};
      change(in);
    });
  };
  refused_without_dropout("positions 1 to 9", [](AttentionInput& in) { in.rows.first_row = 1; });
  refused_without_dropout("positions -1", [](AttentionInput& in) { in.rows.first_row = -1; });
  refused_without_dropout("documents", [&](AttentionInput& in) { in.past = lengths; });
  refused("window", [](AttentionInput& in) { in.window = -1; });
  refused("scale", [](AttentionInput& in) { in.scale = 0; });
  if (device_checks_indices()) {
    refused("position 3", [&](AttentionInput& in) {
      problem.start()[3] = 4;
      in.document_start = problem.document_start;
    });
    problem.start()[3] = 0;
  }

  CHECK_THROWS_AS(attention_forward(stream, scratch, out, logsumexp.view({2, 8, 2}), problem.input()), Error);
  CHECK_THROWS_AS(attention_forward(stream, scratch, out.view({2, 8, 8}), logsumexp, problem.input()), Error);
  Tensor dqkv = problem.dqkv.tensor().view({2, 8, 2, 2, 4});
  CHECK_THROWS_AS(attention_backward(stream, scratch, unpack_qkv(dqkv), out, out, logsumexp, problem.input()), Error);
  CHECK_THROWS_AS(attention_backward(stream, scratch, unpack_qkv(problem.dqkv), out, out, {}, problem.input()), Error);
  Qkv one_head = unpack_qkv(problem.dqkv);
  one_head.q.count = 1;
  CHECK_THROWS_WITH(attention_backward(stream, scratch, one_head, out, out, logsumexp, problem.input()),
                    doctest::Contains("dq has 1 heads"));
  CHECK(scratch.used() == 0);
}

TEST_CASE("attention: operands of different dtypes are refused") {
  Stream stream(Device::meta, 1, kDevice);
  Arena scratch(Device::meta, "scratch", 0);
  const Shape packed{2, 8, 1, 4, 4}, rows{2, 8, 2, 4}, cached{2, 9, 1, 1, 4};
  Tensor out = meta(rows, DType::bf16), logsumexp = meta({2, 2, 8});
  AttentionInput in;
  in.qkv = unpack_qkv(meta(packed, DType::bf16));
  in.rows.rows_per_sequence = 8;
  in.scale = 1;
  const auto forward = [&](const AttentionInput& with) { attention_forward(stream, scratch, out, logsumexp, with); };
  const auto backward = [&](const Qkv& grads, const Tensor& dout, const Tensor& saved) {
    attention_backward(stream, scratch, grads, dout, saved, logsumexp, in);
  };
  CHECK_NOTHROW(forward(in));
  CHECK_NOTHROW(backward(in.qkv, out, out));
  for (const DType dtype : {DType::f32, DType::f16}) {
    const Tensor other = meta(packed, dtype), other_rows = meta(rows, dtype);
    AttentionInput q = in, k = in, v = in;
    q.qkv.q.tensor = k.qkv.k.tensor = v.qkv.v.tensor = other;
    for (const AttentionInput& mixed : {q, k, v}) CHECK_THROWS_WITH(forward(mixed), doctest::Contains("expected"));
    CHECK_THROWS_WITH(backward(q.qkv, out, out), doctest::Contains("attention: "));
    CHECK_THROWS_WITH(backward(k.qkv, out, out), doctest::Contains("attention: k"));
    CHECK_THROWS_WITH(backward(unpack_qkv(other), out, out), doctest::Contains("attention: dq"));
    CHECK_THROWS_WITH(backward(in.qkv, other_rows, out), doctest::Contains("attention: dout"));
    CHECK_THROWS_WITH(backward(in.qkv, out, other_rows), doctest::Contains("attention: out"));
    CHECK_THROWS_WITH(attention_forward(stream, scratch, other_rows, logsumexp, in),
                      doctest::Contains("attention: out"));
    const Tensor lengths = meta({2}, DType::i32), keys = meta(cached, DType::bf16), wrong = meta(cached, dtype);
    CHECK_NOTHROW(append_to_cache(stream, {keys, keys, lengths}, in.qkv.k, in.qkv.v));
    for (const KvCache& cache : {KvCache{wrong, wrong, lengths}, {wrong, keys, lengths}, {keys, wrong, lengths}})
      CHECK_THROWS_WITH(append_to_cache(stream, cache, in.qkv.k, in.qkv.v), doctest::Contains("expected"));
  }
  CHECK_THROWS_WITH(attention_forward(stream, scratch, out, meta({2, 2, 8}, DType::bf16), in),
                    doctest::Contains("logsumexp"));
}
