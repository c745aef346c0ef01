// Implements attention by its definition in fp64 and makes operands for the attention tests.
#pragma once

#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "kernels/attention.h"
#include "tests/kernels/dropout_reference.h"
#include "tests/kernels/reference.h"

namespace mtl::test {

struct AttentionCase {
  std::int64_t batch, length, groups, heads, dim;  // heads per group
  bool documents = false;
  float dropout = 0;
  std::int64_t window = 0;
  DType dtype = DType::f32;
  /// The functions below return a copy with one property changed.
  AttentionCase with_documents() const { return changed(&AttentionCase::documents, true); }
  AttentionCase with_dropout(float probability) const { return changed(&AttentionCase::dropout, probability); }
  AttentionCase with_window(std::int64_t positions) const { return changed(&AttentionCase::window, positions); }
  AttentionCase in_dtype(DType other) const { return changed(&AttentionCase::dtype, other); }
  template <class T>
  AttentionCase changed(T AttentionCase::*member, T value) const {
    AttentionCase c = *this;
    c.*member = value;
    return c;
  }
  std::int64_t all_heads() const { return groups * heads; }
  std::int64_t row() const { return groups * (heads + 2) * dim; }  // elements of packed q, k and v per position
};

using Doubles = std::vector<double>;

/// The dtypes that attention supports.
inline constexpr DType kAttentionTypes[] = {DType::f32, DType::bf16, DType::f16};

/// Copies elements [begin, begin + count) to `at` in another tensor. Both must have the same dtype.
inline void copy_elements(const Owned& from, std::int64_t begin, std::int64_t count, const Owned& to, std::int64_t at) {
  with_float_type(from.dtype(), [&]<class T>(T) { std::copy_n(from.host<T>() + begin, count, to.host<T>() + at); });
}

/// Scratch memory for one call at a time. Clearing new memory for each call would take longer than most calls.
inline Arena& attention_scratch() {
  static auto& only = *new Arena(kDevice, "scratch", std::size_t{16} << 20);  // a static one outlives a GPU's driver
  return only;
}

/// Algorithms that earlier calls measured on a GPU. Equal calls use equal ones, and so give equal bits.
inline std::map<std::string, std::string>& attention_choices() {
  static auto& only = *new std::map<std::string, std::string>;
  return only;
}

/// Operands and results for one case.
struct AttentionProblem {
  explicit AttentionProblem(const AttentionCase& c)
      : shape(c),
        qkv(random_tensor(c.dtype, {c.batch, c.length, c.groups, c.heads + 2, c.dim}, 1)),
        dout(random_tensor(c.dtype, {c.batch, c.length, c.all_heads(), c.dim}, 2)),
        out(c.dtype, dout.shape()),
        logsumexp({c.batch, c.all_heads(), c.length}),
        dqkv(c.dtype, qkv.shape()),
        document_start(DType::i32, {c.batch, c.length}) {
    std::mt19937 random(7);
    for (std::int64_t t = 0; t < c.batch * c.length; ++t) {
      const bool begins = t % c.length == 0 || random() % 40 == 0;
      start()[t] = begins ? static_cast<std::int32_t>(t % c.length) : start()[t - 1];
    }
  }
  std::int32_t* start() const { return document_start.host<std::int32_t>(); }

  AttentionInput input() const {
    AttentionInput in;
    in.qkv = unpack_qkv(qkv);
    if (shape.documents) in.document_start = document_start;
    in.window = shape.window;
    in.scale = 1 / std::sqrt(static_cast<float>(shape.dim));
    if (shape.dropout > 0) in.dropout = {shape.dropout, {1234, 5}};
    in.rows = {samples_from(first_sample).flat(0, shape.batch), 0, shape.length};
    in.first_head = 6;
    return in;
  }

  void run(int threads = 1) const { run(input(), threads); }
  void run(const AttentionInput& in, int threads = 1) const {
    forward(in, threads);
    backward(in, threads);
  }
  void forward(const AttentionInput& in, int threads = 1) const {
    call(threads, [&](Stream& stream) { attention_forward(stream, attention_scratch(), out, logsumexp, in); });
  }
  void backward(const AttentionInput& in, int threads = 1) const {
    call(threads, [&](Stream& stream) {
      attention_backward(stream, attention_scratch(), unpack_qkv(dqkv), dout, out, logsumexp, in);
    });
  }
  template <class Body>
  static void call(int threads, const Body& body) {
    Stream stream(kDevice, threads);
    stream.choices().add(attention_choices());
    body(stream);
    CHECK(attention_scratch().used() == 0);
    attention_choices() = stream.choices().table();
  }

  AttentionCase shape;
  std::int64_t first_sample = (std::int64_t{5} << 32) + 11;
  Owned qkv, dout, out, logsumexp, dqkv, document_start;
};

/// Returns the dropout factor for probability (row, column), as defined in kernels/dropout.h.
inline double attention_dropout_factor(const AttentionInput& in, std::int64_t length, std::int64_t sample,
                                       std::int64_t head, std::int64_t row, std::int64_t column) {
  if (!in.dropout.active()) return 1;
  std::int64_t row_tiles = (length + 15) / 16, column_tiles = (length + 31) / 32;
  std::int64_t tile = ((in.first_head + head) * row_tiles + row / 16) * column_tiles + column / 32;
  std::int64_t lane = 4 * (row % 8) + column % 8 / 2, byte = row % 16 / 8 * 2 + column % 2;
  auto words = philox(in.dropout.key, sample_of(in.rows.samples, sample), tile * 32 + lane);
  std::uint32_t drawn = words[column % 32 / 8] >> (8 * byte) & 255,
                threshold = std::lround(in.dropout.probability * 256.0);
  return drawn >= threshold ? 256.0 / (256 - threshold) : 0;
}

struct AttentionReference {
  Doubles out, logsumexp, dqkv;
};

/// The operands as stored in their dtype, widened to fp64.
struct AttentionOperands {
  explicit AttentionOperands(const AttentionProblem& p) : qkv(p.qkv.values()), dout(p.dout.values()) {}
  Doubles qkv, dout;
};

/// Adds the results for one query head in one sequence to `result`.
///
/// Softmax backward: dS = P (dP - sum over keys of P dP).
inline void attention_reference_head(const AttentionProblem& p, const AttentionOperands& operands, std::int64_t b,
                                     std::int64_t head, AttentionReference& result) {
  const auto& [qkv, dout] = operands;
  const AttentionCase& c = p.shape;
  AttentionInput in = p.input();
  std::int64_t group = head / c.heads, base = b * c.length * c.row() + group * (c.heads + 2) * c.dim;
  std::int64_t q = base + head % c.heads * c.dim, k = base + c.heads * c.dim, v = k + c.dim;
  for (std::int64_t t = 0; t < c.length; ++t) {
    std::int64_t first = std::max<std::int64_t>(c.documents ? p.start()[b * c.length + t] : 0,
                                                c.window > 0 ? t - c.window + 1 : 0),
                 o = ((b * c.length + t) * c.all_heads() + head) * c.dim;
    Doubles probability(t + 1), dp(t + 1);
    double total = 0, row_dot = 0;
    for (std::int64_t s = first; s <= t; ++s) {
      double score = 0;
      for (std::int64_t d = 0; d < c.dim; ++d) score += qkv[q + t * c.row() + d] * qkv[k + s * c.row() + d];
      total += probability[s] = std::exp(in.scale * score);
    }
    result.logsumexp[(b * c.all_heads() + head) * c.length + t] = std::log(total);
    for (std::int64_t s = first; s <= t; ++s) {
      probability[s] /= total;
      double factor = attention_dropout_factor(in, c.length, b, head, t, s);
      for (std::int64_t d = 0; d < c.dim; ++d) {
        result.out[o + d] += probability[s] * factor * qkv[v + s * c.row() + d];
        result.dqkv[v + s * c.row() + d] += probability[s] * factor * dout[o + d];
        dp[s] += factor * dout[o + d] * qkv[v + s * c.row() + d];
      }
      row_dot += probability[s] * dp[s];
    }
    for (std::int64_t s = first; s <= t; ++s) {
      double ds = probability[s] * (dp[s] - row_dot) * in.scale;
      for (std::int64_t d = 0; d < c.dim; ++d) {
        result.dqkv[q + t * c.row() + d] += ds * qkv[k + s * c.row() + d];
        result.dqkv[k + s * c.row() + d] += ds * qkv[q + t * c.row() + d];
      }
    }
  }
}

inline AttentionReference attention_reference(const AttentionProblem& p) {
  const AttentionOperands operands(p);
  AttentionReference result{Doubles(p.out.numel()), Doubles(p.logsumexp.numel()), Doubles(p.dqkv.numel())};
  for (std::int64_t b = 0; b < p.shape.batch; ++b) {
    for (std::int64_t head = 0; head < p.shape.all_heads(); ++head)
      attention_reference_head(p, operands, b, head, result);
  }
  return result;
}

}  // namespace mtl::test
