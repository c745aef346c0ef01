// A part of the sequences of an AttentionProblem, as a context-parallel rank holds it.
#pragma once

#include "kernels/attention.h"
#include "tests/kernels/attention_reference.h"

namespace mtl::test {

/// A part of a problem's sequences, with results of its own.
struct AttentionPart {
  AttentionPart(const AttentionProblem& p, SequencePart which)
      : c(p.shape),
        part(which),
        rows(c.length / which.parts),
        qkv(c.dtype, {c.batch, rows, c.groups, c.heads + 2, c.dim}),
        dout(c.dtype, {c.batch, rows, c.all_heads(), c.dim}),
        out(c.dtype, dout.shape()),
        dq(c.dtype, {c.batch, rows, c.groups, c.heads, c.dim}),
        logsumexp({c.batch, c.all_heads(), rows}),
        document_start(DType::i32, {c.batch, rows}) {
    each_row([&](std::int64_t b, std::int64_t t, std::int64_t position) {
      const std::int64_t from = b * c.length + position, to = b * rows + t;
      copy_elements(p.qkv, from * c.row(), c.row(), qkv, to * c.row());
      copy_elements(p.dout, from * out_row(), out_row(), dout, to * out_row());
      document_start.host<std::int32_t>()[to] = p.start()[from];
    });
  }
  std::int64_t out_row() const { return c.all_heads() * c.dim; }
  template <class Body>
  void each_row(const Body& body) const {
    for (std::int64_t b = 0; b < c.batch; ++b)
      for (std::int64_t t = 0; t < rows; ++t) body(b, t, part.position(t, rows));
  }
  /// The part's queries with these keys and values.
  AttentionInput input(const AttentionProblem& p, const HeadSlice& k, const HeadSlice& v, SequencePart keys) const {
    AttentionInput in = p.input();
    in.qkv = {unpack_qkv(qkv).q, k, v};
    in.key_part = keys;
    in.rows.rows_per_sequence = rows;
    in.rows.part = part;
    if (c.documents) in.document_start = document_start;
    return in;
  }
  /// Returns the part's elements of a result (batch, length, inner).
  Doubles part_of(const Doubles& whole, std::int64_t inner) const {
    Doubles out_rows;
    each_row([&](std::int64_t b, std::int64_t, std::int64_t position) {
      const auto begin = whole.begin() + (b * c.length + position) * inner;
      out_rows.insert(out_rows.end(), begin, begin + inner);
    });
    return out_rows;
  }
  /// Returns the part's elements of logsumexp (batch, heads, length).
  Doubles logsumexp_of(const Doubles& whole) const {
    Doubles of_part;
    for (std::int64_t i = 0; i < c.batch * c.all_heads(); ++i)
      for (std::int64_t t = 0; t < rows; ++t)
        of_part.push_back(whole[static_cast<std::size_t>(i * c.length + part.position(t, rows))]);
    return of_part;
  }

  AttentionCase c;
  SequencePart part;
  std::int64_t rows;
  Owned qkv, dout, out, dq, logsumexp, document_start;
};

}  // namespace mtl::test
