// Attention for parts of sequences, as context-parallel ranks compute it: queries in a part with all keys, queries in a
// part with the keys in each part, whose results are merged; and the copies of heads between parts and whole sequences.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/attention.h"
#include "tests/kernels/attention_part.h"

using namespace mtl;
using namespace mtl::test;

namespace {

using Part = AttentionPart;

/// Returns elements [first, first + count) of each row of `width`.
Doubles columns_of(const Doubles& rows, std::int64_t width, std::int64_t first, std::int64_t count) {
  Doubles out;
  for (std::size_t row = 0; row < rows.size(); row += static_cast<std::size_t>(width))
    out.insert(out.end(), rows.begin() + static_cast<std::ptrdiff_t>(row) + first,
               rows.begin() + static_cast<std::ptrdiff_t>(row) + first + count);
  return out;
}

/// Returns the reference's dq, or dk and dv, of all positions: (batch, length, groups x ...).
Doubles query_gradient(const AttentionCase& c, const Doubles& dqkv) {
  return columns_of(dqkv, (c.heads + 2) * c.dim, 0, c.heads * c.dim);
}
Doubles key_gradient(const AttentionCase& c, const Doubles& dqkv) {
  return columns_of(dqkv, (c.heads + 2) * c.dim, c.heads * c.dim, 2 * c.dim);
}

struct PartCase {
  AttentionCase shape;
  int parts;
};
/// Chunks of sizes that blocks and dropout's tiles do not divide, too.
const PartCase kPartCases[] = {{AttentionCase{2, 8, 1, 1, 4}, 2},
                               {AttentionCase{2, 16, 1, 2, 8}.with_dropout(0.3f), 2},
                               {AttentionCase{2, 48, 2, 2, 8}.with_documents(), 4},
                               {AttentionCase{1, 100, 1, 2, 16}.with_dropout(0.2f), 2},
                               {AttentionCase{2, 192, 2, 2, 24}.with_documents().with_dropout(0.3f), 3},
                               {AttentionCase{1, 444, 1, 3, 32}.with_window(70).with_dropout(0.1f), 2},
                               {AttentionCase{1, 390, 2, 1, 16}.with_documents().with_window(130), 5},
                               {AttentionCase{1, 256, 1, 2, 64}.with_dropout(0.1f), 4},
                               {AttentionCase{1, 144, 1, 2, 64}.with_documents().with_window(50), 3},
                               {AttentionCase{2, 320, 1, 2, 80}.with_dropout(0.2f), 5},
                               {AttentionCase{1, 160, 2, 1, 128}, 2},
                               {AttentionCase{1, 60, 1, 1, 8}.with_window(3), 3}};

}  // namespace

TEST_CASE("parts of a sequence: chunks, positions and rows before a position") {
  for (const int parts : {1, 2, 3, 8}) {
    for (const std::int64_t chunk : {1, 3, 4}) {
      const std::int64_t rows = 2 * chunk, length = rows * parts;
      std::vector<int> seen(static_cast<std::size_t>(length));
      for (int index = 0; index < parts; ++index) {
        const SequencePart part{index, parts};
        for (std::int64_t row = 0; row < rows; ++row) {
          const std::int64_t position = part.position(row, rows);
          CHECK(position / chunk == (row < chunk ? index : 2 * parts - 1 - index));
          CHECK(position % chunk == row % chunk);
          ++seen[static_cast<std::size_t>(position)];
        }
        for (std::int64_t position = -2; position < length + 2; ++position) {
          std::int64_t before = 0;
          for (std::int64_t row = 0; row < rows; ++row) before += part.position(row, rows) < position;
          CHECK(part.rows_before(position, rows) == before);
        }
      }
      CHECK(seen == std::vector<int>(seen.size(), 1));
    }
  }
  const SequencePart whole;
  CHECK(whole.position(4, 5) == 4);  // of any length
  CHECK(whole.rows_before(4, 5) == 4);
}

TEST_CASE(
    "attention of parts with all keys: a query's results are the same bits, and gradients add up to the whole's") {
  for (const PartCase& p : kPartCases) {
    for (const DType dtype : kAttentionTypes) {
      const AttentionCase& c = p.shape.in_dtype(dtype);
      CAPTURE(c.length);
      CAPTURE(p.parts);
      CAPTURE(std::string(name_of(dtype)));
      AttentionProblem whole(c);
      whole.run();
      const Doubles out = whole.out.values(), lse = whole.logsumexp.values(), dqkv = whole.dqkv.values();
      const AttentionReference expected = attention_reference(whole);
      const Qkv all = unpack_qkv(whole.qkv);
      Doubles sums(key_gradient(c, dqkv).size());
      for (int index = 0; index < p.parts; ++index) {
        Part part(whole, {index, p.parts});
        Owned dkv(c.dtype, {c.batch, c.length, c.groups, 2, c.dim});
        const AttentionInput in = part.input(whole, all.k, all.v, {});
        Stream stream(kDevice, 1 + index % 2);
        attention_forward(stream, attention_scratch(), part.out, part.logsumexp, in);
        attention_backward(stream, attention_scratch(), {{part.dq, 0, c.heads}, {dkv, 0, 1}, {dkv, 1, 1}}, part.dout,
                           part.out, part.logsumexp, in);
        const double elementwise = rounding_of(dtype, kTolerance.elementwise);
        CHECK(relative_rms(part.out, part.part_of(expected.out, part.out_row())) < elementwise);
        if (!device_has_tensor_cores()) {  // a GPU's tiles begin at a chunk's first key
          CHECK(part.out.values() == part.part_of(out, part.out_row()));
          CHECK(part.logsumexp.values() == part.logsumexp_of(lse));
          CHECK(part.dq.values() == part.part_of(query_gradient(c, dqkv), part.out_row()));
        }
        add_to(sums, dkv.values());
      }
      CHECK(rms_relative(sums.data(), key_gradient(c, expected.dqkv)) <
            rounding_of(dtype, kTolerance.reduction) * (dtype == DType::f32 ? 1 : 2));  // each term is rounded
    }
  }
}

namespace {

/// Merges a part's results over the keys of each part. Returns its sums.
struct Merged {
  Merged(const AttentionProblem& whole, const std::vector<Part>& all, std::size_t own)
      : out({all[own].c.batch, all[own].rows, all[own].c.all_heads(), all[own].c.dim}),
        logsumexp(all[own].logsumexp.shape()) {
    const Part& part = all[own];
    std::fill_n(out.begin(), out.numel(), 0.0f);
    std::fill_n(logsumexp.begin(), logsumexp.numel(), -std::numeric_limits<float>::infinity());
    Owned more(part.c.dtype, out.shape()), more_logsumexp(logsumexp.shape());
    for (std::size_t step = 0; step < all.size(); ++step) {
      const Part& owner = all[(own + all.size() - step) % all.size()];
      const Qkv keys = unpack_qkv(owner.qkv);
      Stream stream(kDevice, 2);
      attention_forward(stream, attention_scratch(), more, more_logsumexp,
                        part.input(whole, keys.k, keys.v, owner.part));
      attention_merge(stream, out, logsumexp, more, more_logsumexp);
    }
  }
  Owned out, logsumexp;
};

}  // namespace

TEST_CASE("attention of parts with the keys of each part: merged results and gradients equal the fp64 reference") {
  for (const PartCase& p : kPartCases) {
    for (const DType dtype : kAttentionTypes) {
      const AttentionCase& c = p.shape.in_dtype(dtype);
      CAPTURE(c.length);
      CAPTURE(p.parts);
      CAPTURE(std::string(name_of(dtype)));
      const AttentionProblem whole(c);
      const AttentionReference expected = attention_reference(whole);
      const double rounding = rounding_of(dtype, kTolerance.reduction);
      std::vector<Part> parts;
      for (int index = 0; index < p.parts; ++index) parts.emplace_back(whole, SequencePart{index, p.parts});
      std::vector<Doubles> dkv(parts.size(),
                               Doubles(static_cast<std::size_t>(c.batch * parts[0].rows * c.groups * 2 * c.dim)));
      for (std::size_t own = 0; own < parts.size(); ++own) {
        const Part& part = parts[own];
        const Merged merged(whole, parts, own);
        CHECK(relative_rms(merged.out, part.part_of(expected.out, part.out_row())) < 2 * rounding);
        CHECK(relative_rms(merged.logsumexp, part.logsumexp_of(expected.logsumexp)) < kTolerance.reduction);
        const Owned out = rounded(merged.out, dtype);
        Doubles dq(static_cast<std::size_t>(part.dq.numel()));
        for (std::size_t owner = 0; owner < parts.size(); ++owner) {
          Owned more(c.dtype, {c.batch, part.rows, c.groups, 2, c.dim});
          const Qkv keys = unpack_qkv(parts[owner].qkv);
          Stream stream(kDevice, 2);
          attention_backward(stream, attention_scratch(), {{part.dq, 0, c.heads}, {more, 0, 1}, {more, 1, 1}},
                             part.dout, out, merged.logsumexp, part.input(whole, keys.k, keys.v, parts[owner].part));
          add_to(dq, part.dq.values());
          add_to(dkv[owner], more.values());
        }
        CHECK(rms_relative(dq.data(), part.part_of(query_gradient(c, expected.dqkv), part.out_row())) < 3 * rounding);
      }
      for (std::size_t owner = 0; owner < parts.size(); ++owner)
        CHECK(rms_relative(dkv[owner].data(),
                           parts[owner].part_of(key_gradient(c, expected.dqkv), 2 * c.groups * c.dim)) < 3 * rounding);
    }
  }
}

TEST_CASE("attention of parts: NaN in keys after the last query of a chunk does not spread to the chunk") {
  const AttentionCase c = AttentionCase{1, 80, 1, 2, 16}.with_dropout(0.2f);  // chunks of 20
  AttentionProblem whole(c), damaged(c);
  whole.run();
  const std::int64_t first = 20;  // of chunk 1, which part 0's first chunk does not see
  for (std::int64_t i = first * c.row(); i < damaged.qkv.numel(); ++i)
    damaged.qkv[i] = std::numeric_limits<float>::quiet_NaN();
  Part part(whole, {0, 2});
  const Qkv keys = unpack_qkv(damaged.qkv);
  const AttentionInput in = part.input(whole, keys.k, keys.v, {});
  Owned dkv({c.batch, c.length, c.groups, 2, c.dim});
  Stream stream(kDevice);
  attention_forward(stream, attention_scratch(), part.out, part.logsumexp, in);
  attention_backward(stream, attention_scratch(), {{part.dq, 0, c.heads}, {dkv, 0, 1}, {dkv, 1, 1}}, part.dout,
                     part.out, part.logsumexp, in);
  const Doubles out = part.out.values(), expected = part.part_of(whole.out.values(), part.out_row()),
                dq = part.dq.values(),
                expected_dq = part.part_of(query_gradient(c, whole.dqkv.values()), part.out_row());
  const auto chunk = static_cast<std::ptrdiff_t>(first * part.out_row());
  CHECK(std::equal(out.begin(), out.begin() + chunk, expected.begin()));
  CHECK(std::equal(dq.begin(), dq.begin() + chunk, expected_dq.begin()));
  CHECK(std::isnan(out.back()));  // the second chunk sees them
}

TEST_CASE("attention of parts: FLOPs add up to those of the whole, and meta plans the scratch memory") {
  for (const PartCase& p : kPartCases) {
    const AttentionCase& c = p.shape;
    CAPTURE(c.length);
    AttentionProblem whole(c);
    Stream counter(Device::meta, 2, kDevice), gathered(Device::meta, 2, kDevice), ring(Device::meta, 2, kDevice);
    Arena plan(Device::meta, "scratch", 0), of_parts(Device::meta, "scratch", 0);
    const auto on_meta = [](AttentionInput in, const Shape& q, const Shape& kv) {
      in.qkv = {{meta(q), 0, q[3]}, {meta(kv), 0, 1}, {meta(kv), 1, 1}};
      in.rows.samples = meta({q[0]}, DType::i64);
      if (in.document_start.exists()) in.document_start = meta({q[0], q[1]}, DType::i32);
      return in;
    };
    const Shape all_keys{c.batch, c.length, c.groups, 2, c.dim};
    const auto run = [&](Stream& stream, Arena& scratch, const AttentionInput& in) {
      const Shape q = in.qkv.q.tensor.shape();
      const Tensor out = meta({q[0], q[1], c.all_heads(), c.dim}), lse = meta({q[0], c.all_heads(), q[1]});
      attention_forward(stream, scratch, out, lse, in);
      attention_backward(stream, scratch, in.qkv, out, out, lse, in);
    };
    run(counter, plan, on_meta(whole.input(), {c.batch, c.length, c.groups, c.heads, c.dim}, all_keys));
    for (int index = 0; index < p.parts; ++index) {
      Part part(whole, {index, p.parts});
      const Shape q = part.dq.shape();
      const Qkv keys = unpack_qkv(whole.qkv);
      run(gathered, of_parts, on_meta(part.input(whole, keys.k, keys.v, {}), q, all_keys));
      for (int owner = 0; owner < p.parts; ++owner)
        run(ring, of_parts,
            on_meta(part.input(whole, keys.k, keys.v, {owner, p.parts}), q, {c.batch, part.rows, c.groups, 2, c.dim}));
    }
    CHECK(gathered.counters().flops == counter.counters().flops);
    CHECK(ring.counters().flops == counter.counters().flops);
    Part part(whole, {0, p.parts});
    Arena scratch(kDevice, "scratch", of_parts.peak());
    Stream stream(kDevice, 2);
    const Qkv keys = unpack_qkv(whole.qkv);
    CHECK_NOTHROW(attention_forward(stream, scratch, part.out, part.logsumexp, part.input(whole, keys.k, keys.v, {})));
  }
}

TEST_CASE("attention of parts: impossible parts are refused") {
  AttentionProblem whole(AttentionCase{1, 16, 1, 1, 4});
  Part part(whole, {1, 2});
  Stream stream(kDevice);
  const Qkv keys = unpack_qkv(whole.qkv);
  const auto refused = [&](const char* word, auto change) {
    AttentionInput in = part.input(whole, keys.k, keys.v, {});
    change(in);
    CHECK_THROWS_WITH(attention_forward(stream, attention_scratch(), part.out, part.logsumexp, in),
                      doctest::Contains(word));
  };
  refused("part 2 of 2", [](AttentionInput& in) { in.rows.part.index = 2; });
  refused("parts of them", [](AttentionInput& in) { in.rows.part = {1, 4}; });
  refused("parts of them", [](AttentionInput& in) { in.key_part = {0, 2}; });
  refused("parts of them", [](AttentionInput& in) { in.rows.first_row = 1; });
}

TEST_CASE("copied heads: between dtypes, parts and whole sequences, overwriting and adding") {
  for (const DType to_type : kAttentionTypes) {
    for (const DType from_type : kAttentionTypes) {
      for (const GradMode mode : {GradMode::overwrite, GradMode::accumulate}) {
        for (const bool gathers : {true, false}) {
          const SequencePart part{1, 3};
          const Owned whole = random_tensor(gathers ? to_type : from_type, {2, 12, 2, 3, 5}, 1),
                      some = random_tensor(gathers ? from_type : to_type, {2, 4, 2, 2, 5}, 2);
          const Doubles before = whole.values(), part_before = some.values();
          Stream stream(kDevice, 2);
          const HeadSlice of_whole{whole, 1, 1}, of_part{some, 0, 1};
          if (gathers)
            copy_heads(stream, of_whole, of_part, {.to = part, .mode = mode});
          else
            copy_heads(stream, of_part, of_whole, {.from = part, .mode = mode});
          const Doubles after = whole.values(), part_after = some.values();
          Doubles expected = gathers ? before : part_before;
          for (std::int64_t i = 0; i < 2 * 4 * 2 * 5; ++i) {
            const std::int64_t d = i % 5, g = i / 5 % 2, t = i / 10 % 4, b = i / 40;
            const auto in_part = static_cast<std::size_t>((((b * 4 + t) * 2 + g) * 2 + 0) * 5 + d),
                       in_whole = static_cast<std::size_t>((((b * 12 + part.position(t, 4)) * 2 + g) * 3 + 1) * 5 + d);
            double& result = expected[gathers ? in_whole : in_part];
            const double value = gathers ? part_before[in_part] : before[in_whole];
            result =
                mode == GradMode::overwrite ? value : double{static_cast<float>(result) + static_cast<float>(value)};
          }
          const Owned rounded_results = rounded(rounded(expected, {std::ssize(expected)}), to_type);
          CHECK((gathers ? after : part_after) == rounded_results.values());
          CHECK((gathers ? part_after == part_before : after == before));
        }
      }
    }
  }
  Stream counter(Device::meta, 1, kDevice);
  const auto refused = [&](const HeadSlice& to, const HeadSlice& from, const HeadCopy& how) {
    CHECK_THROWS_WITH(copy_heads(counter, to, from, how), doctest::Contains("cannot copy"));
  };
  refused({meta({1, 4, 1, 1, 4})}, {meta({1, 4, 2, 1, 4})}, {});
  refused({meta({1, 4, 1, 1, 4})}, {meta({1, 8, 1, 1, 4})}, {});
  refused({meta({1, 4, 1, 1, 4})}, {meta({1, 8, 1, 1, 4})}, {.to = {0, 2}});
  refused({meta({1, 4, 1, 1, 4})}, {meta({1, 4, 1, 1, 4})}, {.to = {0, 2}, .from = {0, 2}});
}
