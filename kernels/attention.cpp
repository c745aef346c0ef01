#include "kernels/attention.h"

#include <algorithm>

#include "kernels/dispatch.h"
#include "kernels/stream_types.h"

namespace mtl {

namespace {

Shape out_shape(const AttentionSizes& sizes) {
  return {sizes.batch, sizes.queries, sizes.groups * sizes.heads, sizes.dim};
}
Shape logsumexp_shape(const AttentionSizes& sizes) { return {sizes.batch, sizes.groups * sizes.heads, sizes.queries}; }

/// Returns the sum of the positive numbers among last - count + 1 .. last.
double sum_of_positive(std::int64_t last, std::int64_t count) {
  const std::int64_t first = std::max<std::int64_t>(1, last - count + 1);
  if (last <= 0) return 0;
  return double(last - first + 1) * double(first + last) / 2;
}

/// Returns how many of one head's scores are unmasked, for `count` consecutive queries of which the last sees the keys
/// before position `end`, and the keys before position `keys`. These include all the queries' own or none. The window
/// masks the keys before p + 1 - window of the query at position p.
double scores_before(std::int64_t keys, std::int64_t count, std::int64_t end, std::int64_t window) {
  const auto queries = double(count);
  const double beyond = window == 0 ? 0 : sum_of_positive(end - window, count);
  if (keys >= end) return queries * double(end) - queries * queries / 2 - beyond;
  return queries * double(keys) - (beyond - (window == 0 ? 0 : sum_of_positive(end - window - keys, count)));
}

/// Returns how many of one head's scores are unmasked, in all chunks of queries and keys.
double visible_scores(const AttentionInput& in, const AttentionSizes& sizes) {
  if (in.rows.part.is_whole()) return scores_before(sizes.keys, sizes.queries, sizes.keys, in.window);
  const std::int64_t chunk = sizes.queries / 2, key_chunk = in.key_part.is_whole() ? sizes.keys : sizes.keys / 2;
  double scores = 0;
  for (std::int64_t query = 0; query < sizes.queries; query += chunk) {
    const std::int64_t end = in.position(query) + chunk;
    for (std::int64_t key = 0; key < sizes.keys; key += key_chunk) {
      const std::int64_t begin = in.key_part.position(key, sizes.keys);
      scores += scores_before(begin + key_chunk, chunk, end, in.window) - scores_before(begin, chunk, end, in.window);
    }
  }
  return scores;
}

/// Returns the forward pass's FLOPs: two products over D for each unmasked score.
double forward_flops(const AttentionInput& in, const AttentionSizes& sizes) {
  return 4.0 * double(sizes.batch * sizes.groups * sizes.heads * sizes.dim) * visible_scores(in, sizes);
}

double bytes_of(const Qkv& qkv) { return double(qkv.q.bytes() + qkv.k.bytes() + qkv.v.bytes()); }

/// Checks that keys, or values, match these queries.
void check_keys(const char* what, const HeadSlice& keys, const HeadSlice& q) {
  check_slice(what, keys);
  require(keys.count == 1, what, ": expected one head per group, got ", keys.count);
  const Tensor& t = keys.tensor;
  expect_tensor(what, t, q.tensor.dtype(),
                {q.tensor.size(0), t.size(1), q.tensor.size(2), t.size(3), q.tensor.size(4)});
}

void check_qkv(const Qkv& qkv) {
  check_slice("attention: q", qkv.q);
  check_keys("attention: k", qkv.k, qkv.q);
  check_keys("attention: v", qkv.v, qkv.q);
  expect_tensor("attention: v, laid out like k", qkv.v.tensor, qkv.k.tensor.dtype(), qkv.k.tensor.shape());
}

void check_whole(const char* what, const AttentionInput& in, const AttentionSizes& sizes) {
  require(in.covers_sequences(), "attention: ", what, " needs whole sequences or parts of them, got ", sizes.queries,
          " queries from position ", in.rows.first_row, ", ", in.qkv.k.tensor.size(1), " keys");
}

void check_part(const char* what, const SequencePart& part, std::int64_t rows) {
  require(part.index >= 0 && part.index < part.parts, "attention: part ", part.index, " of ", part.parts, " of the ",
          what, " does not exist");
  require(part.is_whole() || rows % 2 == 0, "attention: part of the ", what, " has ", rows,
          " rows, which are not two equal chunks");
}

void check_dropout(const AttentionInput& in, const AttentionSizes& sizes) {
  require(in.dropout.probability >= 0 && in.dropout.probability < 1, "attention: a dropout of ", in.dropout.probability,
          " is not in [0, 1)");
  if (!in.dropout.active()) return;
  require(attention_dropout_threshold(in.dropout.probability) < 256, "attention: a dropout of ", in.dropout.probability,
          " keeps nothing at a resolution of 1 / 256");
  check_whole("dropout", in, sizes);
  expect_tensor("attention: samples", in.rows.samples, DType::i64, {sizes.batch});
  require(in.rows.rows_per_sequence == sizes.queries, "attention: rows.rows_per_sequence is ",
          in.rows.rows_per_sequence, ", expected ", sizes.queries, ", the number of queries");
}

AttentionSizes checked_sizes(const AttentionInput& in) {
  check_qkv(in.qkv);
  AttentionSizes sizes = in.sizes();
  const std::int64_t keys = in.qkv.k.tensor.size(1);
  check_part("queries", in.rows.part, sizes.queries);
  check_part("keys", in.key_part, keys);
  check_dropout(in, sizes);
  require(in.window >= 0, "attention: window must be 0 (no limit) or more, got ", in.window);
  require(in.scale > 0, "attention: scale must be positive, got ", in.scale);
  if (!in.rows.part.is_whole() || !in.key_part.is_whole()) check_whole("a part of a sequence", in, sizes);
  require(in.rows.first_row >= 0 && in.position(sizes.queries - 1) < keys * in.key_part.parts, "attention: positions ",
          in.rows.first_row, " to ", in.position(sizes.queries - 1) + 1, " are not within ", keys, " keys");
  if (in.past.exists()) {
    expect_tensor("attention: past", in.past, DType::i32, {sizes.batch});
    require(in.rows.first_row == 0, "attention: rows.first_row must be 0 with past, got ", in.rows.first_row);
    require(!in.document_start.exists(), "attention: past does not support documents");
  }
  if (in.document_start.exists()) {
    expect_tensor("attention: document_start", in.document_start, DType::i32, {sizes.batch, sizes.queries});
  }
  return sizes;
}

}  // namespace

Qkv unpack_qkv(Tensor packed) {
  const std::int64_t heads = packed.size(3) - 2;
  return {{packed, 0, heads}, {packed, heads, 1}, {packed, heads + 1, 1}};
}

AttentionSizes AttentionInput::sizes() const {
  const Tensor& q = qkv.q.tensor;
  const bool has_all = past.exists() || !rows.part.is_whole() || !key_part.is_whole();
  const std::int64_t queries = q.size(1), keys = has_all ? qkv.k.tensor.size(1) : rows.first_row + queries;
  return {.batch = q.size(0),
          .queries = queries,
          .keys = keys,
          .groups = q.size(2),
          .heads = qkv.q.count,
          .dim = q.size(4)};
}

std::int64_t AttentionInput::keys_in_reach() const {
  const AttentionSizes all = sizes();
  if (window == 0 || !rows.part.is_whole()) return all.keys;
  return all.queries + std::min(all.keys - all.queries, window - 1);
}

bool AttentionInput::is_whole() const { return covers_sequences() && rows.part.is_whole() && key_part.is_whole(); }

bool AttentionInput::covers_sequences() const {
  return !past.exists() && rows.first_row == 0 &&
         qkv.q.tensor.size(1) * rows.part.parts == qkv.k.tensor.size(1) * key_part.parts;
}

bool AttentionInput::decodes(const Tensor& logsumexp) const {
  return sizes().queries == 1 && !logsumexp.exists() && !document_start.exists() && !dropout.active();
}

void attention_forward(Stream& stream, Arena& scratch, Tensor out, Tensor logsumexp, const AttentionInput& in) {
  AttentionSizes sizes = checked_sizes(in);
  expect_tensor("attention: out", out, in.qkv.q.tensor.dtype(), out_shape(sizes));
  if (logsumexp.exists()) expect_tensor("attention: logsumexp", logsumexp, DType::f32, logsumexp_shape(sizes));
  Arena::Mark mark(scratch);
  Tensor work = make_work<cpu::attention_forward_work, cuda::attention_forward_work>(stream, scratch, logsumexp, in);
  stream.count(forward_flops(in, sizes), bytes_of(in.qkv) + double(out.bytes() + logsumexp.bytes()));
  run<cpu::attention_forward, cuda::attention_forward>(stream, work, out, logsumexp, in);
}

void attention_backward(Stream& stream, Arena& scratch, const Qkv& grads, Tensor dout, Tensor out, Tensor logsumexp,
                        const AttentionInput& in) {
  AttentionSizes sizes = checked_sizes(in);
  check_whole("backward", in, sizes);
  check_qkv(grads);
  require(grads.q.count == sizes.heads, "attention: dq has ", grads.q.count, " heads per group, q has ", sizes.heads);
  const DType dtype = in.qkv.q.tensor.dtype();
  const auto expect_like = [&](const char* what, const Tensor& grad, const Tensor& of) {
    expect_tensor(what, grad, dtype, {of.size(0), of.size(1), of.size(2), grad.size(3), of.size(4)});
  };
  expect_like("attention: dq", grads.q.tensor, in.qkv.q.tensor);
  expect_like("attention: dk", grads.k.tensor, in.qkv.k.tensor);
  expect_tensor("attention: dout", dout, dtype, out_shape(sizes));
  expect_tensor("attention: out", out, dtype, out_shape(sizes));
  expect_tensor("attention: logsumexp", logsumexp, DType::f32, logsumexp_shape(sizes));
  Arena::Mark mark(scratch);
  Tensor work = make_work<cpu::attention_backward_work, cuda::attention_backward_work>(stream, scratch, in);
  stream.count(2.5 * forward_flops(in, sizes), 2 * bytes_of(in.qkv) + double(2 * out.bytes() + logsumexp.bytes()));
  run<cpu::attention_backward, cuda::attention_backward>(stream, work, grads, dout, out, logsumexp, in);
}

void attention_merge(Stream& stream, Tensor out, Tensor logsumexp, Tensor part, Tensor part_logsumexp) {
  require(out.shape().rank() == 4, "attention: merged results must be (B, T, H, D), got ", out.shape());
  const Shape rows{out.size(0), out.size(2), out.size(1)};
  expect_tensor("attention: merged results", out, DType::f32, out.shape());
  expect_computed("attention: a partial result", part);
  expect_tensor("attention: a partial result", part, part.dtype(), out.shape());
  expect_tensor("attention: merged logsumexp", logsumexp, DType::f32, rows);
  expect_tensor("attention: a partial logsumexp", part_logsumexp, DType::f32, rows);
  stream.count(0, double(2 * out.bytes() + part.bytes() + 3 * logsumexp.bytes()));
  run<cpu::attention_merge, cuda::attention_merge>(stream, out, logsumexp, part, part_logsumexp);
}

void append_to_cache(Stream& stream, const KvCache& cache, const HeadSlice& k, const HeadSlice& v) {
  require(cache.keys.shape().rank() == 5, "attention: cached keys must be (B, S, G, 1, D), got ", cache.keys.shape());
  const HeadSlice keys{cache.keys};
  const DType dtype = cache.keys.dtype();
  check_keys("attention: new keys", k, keys);
  check_keys("attention: new values", v, keys);
  expect_tensor("attention: new values, laid out like keys", v.tensor, dtype, k.tensor.shape());
  const std::int64_t batch = cache.keys.size(0), capacity = cache.keys.size(1), added = k.tensor.size(1);
  const Shape shape{batch, capacity, cache.keys.size(2), 1, cache.keys.size(4)};
  expect_tensor("attention: cached keys", cache.keys, dtype, shape);
  expect_tensor("attention: cached values", cache.values, dtype, shape);
  expect_tensor("attention: cache lengths", cache.lengths, DType::i32, {batch});
  require(added <= capacity, "attention: the cache has room for ", capacity, " positions, got ", added);
  stream.count(0, 2 * double(k.bytes() + v.bytes()));
  run<cpu::append_to_cache, cuda::append_to_cache>(stream, cache, k, v);
}

}  // namespace mtl
