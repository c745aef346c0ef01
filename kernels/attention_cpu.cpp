// Attention on the CPU. The threads share out the key-value groups of all sequences (attention_cpu.h).
#include <omp.h>

#include <cstddef>
#include <utility>

#include "kernels/attention_cpu.h"
#include "kernels/attention_cpu_work.h"
#include "kernels/cpu.h"

namespace mtl::cpu {

namespace {

/// Throws unless all query positions are also key positions and each query attends to at least its own key, because a
/// softmax needs at least one.
void check_contents(const AttentionInput& in, const AttentionSizes& sizes) {
  for (std::int64_t b = 0; in.past.exists() && b < sizes.batch; ++b) {
    const std::int32_t past = in.past.data<std::int32_t>()[b];
    require(past >= 0 && past + sizes.queries <= sizes.keys, "attention: past of sequence ", b, " is ", past,
            ", expected 0 to ", sizes.keys - sizes.queries, " for ", sizes.queries, " queries and ", sizes.keys,
            " keys");
  }
  if (!in.document_start.exists()) return;
  const std::int32_t* start = in.document_start.data<std::int32_t>();
  for (std::int64_t i = 0; i < sizes.batch * sizes.queries; ++i) {
    const std::int64_t position = in.position(i % sizes.queries);
    require(start[i] >= 0 && start[i] <= position, "attention: document_start of position ", position, " is ", start[i],
            ", expected 0 to ", position);
  }
}

/// Returns a tensor element's address.
void* address_of(const Tensor& tensor, std::int64_t element) {
  return static_cast<std::byte*>(tensor.raw()) + element * static_cast<std::int64_t>(size_of(tensor.dtype()));
}

/// Returns a slice's rows for the heads in group g of sequence b, starting at row `first_row`.
HeadRows rows_of(const HeadSlice& slice, std::int64_t b, std::int64_t g, std::int64_t first_row = 0) {
  const Tensor& t = slice.tensor;
  const std::int64_t dim = t.size(4), stride = t.size(2) * t.size(3) * dim;
  return {address_of(t, (b * t.size(1) + first_row) * stride + (g * t.size(3) + slice.first) * dim), stride};
}

/// Like the overload above, for attention's output (B, Tq, H, D) or its gradient.
HeadRows rows_of(const Tensor& out, const AttentionSizes& sizes, std::int64_t b, std::int64_t g) {
  const std::int64_t stride = sizes.groups * sizes.heads * sizes.dim;
  return {address_of(out, b * sizes.queries * stride + g * sizes.heads * sizes.dim), stride};
}

/// Returns the address of logsumexp (R, Tq) for group g of sequence b.
float* logsumexp_of(const Tensor& logsumexp, const AttentionSizes& sizes, std::int64_t b, std::int64_t g) {
  return logsumexp.data<float>() + (b * sizes.groups + g) * sizes.heads * sizes.queries;
}

/// Describes group g of sequence b.
AttentionGroup group_of(const AttentionInput& in, const AttentionSizes& sizes, std::int64_t b, std::int64_t g) {
  AttentionGroup group;
  group.queries = sizes.queries;
  group.first_position = in.past.exists() ? in.past.data<std::int32_t>()[b] : in.rows.first_row;
  group.part = in.rows.part;
  group.all_keys = in.qkv.k.tensor.size(1);
  group.key_part = in.key_part;
  group.window = in.window == 0 ? INT64_MAX : in.window;
  std::int64_t first_key = std::max<std::int64_t>(0, group.window_key(0));
  if (!in.rows.part.is_whole())
    first_key = first_key / kKeyAlign * kKeyAlign;  // where blocks of entire sequences start
  group.keys = group.last_key(sizes.queries - 1) + 1 - first_key;
  group.first_key_row = first_key;
  group.heads = sizes.heads;
  group.dim = sizes.dim;
  group.scale = in.scale;
  group.dtype = in.qkv.q.tensor.dtype();
  group.q = rows_of(in.qkv.q, b, g);
  group.k = rows_of(in.qkv.k, b, g, first_key);
  group.v = rows_of(in.qkv.v, b, g, first_key);
  if (in.document_start.exists()) group.document_start = in.document_start.data<std::int32_t>() + b * sizes.queries;
  if (in.dropout.active()) {
    const auto threshold = static_cast<std::int32_t>(attention_dropout_threshold(in.dropout.probability));
    group.dropout = {.active = threshold > 0,
                     .key = in.dropout.key,
                     .sample = static_cast<std::uint64_t>(in.rows.samples.data<std::int64_t>()[b]),
                     .head = static_cast<std::uint64_t>(in.first_head + g * sizes.heads),
                     .row_tiles = static_cast<std::uint64_t>((in.rows.seq_length() + 15) / 16),
                     .column_tiles = static_cast<std::uint64_t>((in.rows.seq_length() + 31) / 32),
                     .threshold = threshold,
                     .scale = 256.0f / static_cast<float>(256 - threshold)};
  }
  return group;
}

/// Zeroes the gradients of keys that no query attends to.
void zero_unseen(const HeadRows& rows, const AttentionGroup& group) {
  with_float_type(group.dtype, [&]<class T>(T) {
    for (std::int64_t key = 0; key < group.all_keys; ++key) {
      if (key < group.first_key_row || key >= group.first_key_row + group.keys)
        std::fill_n(rows.row<T>(key), group.dim, narrow<T>(0.0f));
    }
  });
}

/// Returns the number of floats in a thread's work area.
std::int64_t forward_area(const AttentionInput& in, const Tensor& logsumexp) {
  const AttentionSizes sizes = in.sizes();
  const std::int64_t keys = in.keys_in_reach();
  return in.decodes(logsumexp) ? DecodeWork{WorkArea(), keys, sizes.heads, sizes.dim}.area.used()
                               : ForwardWork{WorkArea(), keys, sizes.dim}.area.used();
}
std::int64_t backward_area(const AttentionInput& in) {
  const AttentionSizes sizes = in.sizes();
  return BackwardWork{WorkArea(), sizes.keys, sizes.dim}.area.used();
}

/// Calls body(b, g, own) for every group in every sequence. `own` is the calling thread's part of `work`, with `area`
/// floats.
template <class Body>
void for_groups(const Stream& stream, const AttentionInput& in, const Tensor& work, std::int64_t area,
                const Body& body) {
  const AttentionSizes sizes = in.sizes();
  const std::int64_t keys = in.keys_in_reach();
  float* base = work_as<float>(work);
  std::int64_t items = sizes.batch * sizes.groups;
  parallel_for(stream.threads(), items, items * sizes.heads * sizes.queries * keys * sizes.dim, [&](std::int64_t item) {
    body(item / sizes.groups, item % sizes.groups, base + area * omp_get_thread_num());
  });
}

}  // namespace

std::size_t attention_forward_work(const Stream& stream, Tensor logsumexp, const AttentionInput& in) {
  return stream.threads() * forward_area(in, logsumexp) * sizeof(float);
}

std::size_t attention_backward_work(const Stream& stream, const AttentionInput& in) {
  return stream.threads() * backward_area(in) * sizeof(float);
}

void attention_forward(Stream& stream, Tensor work, Tensor out, Tensor logsumexp, const AttentionInput& in) {
  const AttentionSizes sizes = in.sizes();
  const bool decode = in.decodes(logsumexp);
  check_contents(in, sizes);
  for_groups(stream, in, work, forward_area(in, logsumexp), [&](std::int64_t b, std::int64_t g, float* own) {
    AttentionForward call;
    call.group = group_of(in, sizes, b, g);
    call.out = rows_of(out, sizes, b, g);
    if (logsumexp.exists()) call.logsumexp = logsumexp_of(logsumexp, sizes, b, g);
    decode ? decode_group(call, own) : forward_group(call, own);
  });
}

void attention_backward(Stream& stream, Tensor work, const Qkv& grads, Tensor dout, Tensor out, Tensor logsumexp,
                        const AttentionInput& in) {
  const AttentionSizes sizes = in.sizes();
  check_contents(in, sizes);
  for_groups(stream, in, work, backward_area(in), [&](std::int64_t b, std::int64_t g, float* own) {
    AttentionBackward call;
    call.group = group_of(in, sizes, b, g);
    call.dout = rows_of(dout, sizes, b, g);
    call.out = rows_of(out, sizes, b, g);
    call.logsumexp = logsumexp_of(logsumexp, sizes, b, g);
    call.dq = rows_of(grads.q, b, g);
    call.dk = rows_of(grads.k, b, g, call.group.first_key_row);
    call.dv = rows_of(grads.v, b, g, call.group.first_key_row);
    backward_group(call, own);
    for (const HeadSlice* grad : {&grads.k, &grads.v}) zero_unseen(rows_of(*grad, b, g), call.group);
  });
}

void append_to_cache(Stream& stream, const KvCache& cache, const HeadSlice& k, const HeadSlice& v) {
  const std::int64_t batch = cache.keys.size(0), capacity = cache.keys.size(1), groups = cache.keys.size(2);
  const std::int64_t dim = cache.keys.size(4), added = k.tensor.size(1);
  const std::int32_t* lengths = cache.lengths.data<std::int32_t>();
  for (std::int64_t b = 0; b < batch; ++b) {
    require(lengths[b] >= 0 && lengths[b] + added <= capacity, "attention: the cache is full: sequence ", b, " holds ",
            lengths[b], " of ", capacity, " positions, ", added, " are new");
  }
  const std::pair<HeadSlice, HeadSlice> moves[] = {{k, {cache.keys}}, {v, {cache.values}}};
  parallel_for(stream.threads(), batch * groups, 2 * batch * groups * added * dim, [&](std::int64_t item) {
    const std::int64_t b = item / groups, g = item % groups;
    for (const auto& [from, to] : moves) {
      const HeadRows source = rows_of(from, b, g), target = rows_of(to, b, g);
      with_float_type(from.tensor.dtype(), [&]<class T>(T) {
        for (std::int64_t t = 0; t < added; ++t) std::copy_n(source.row<T>(t), dim, target.row<T>(lengths[b] + t));
      });
    }
  });
}

}  // namespace mtl::cpu
