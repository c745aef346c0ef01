#include "kernels/attention_variant.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "base/enum_index.h"
#include "base/str.h"
#include "device/copy.h"
#include "device/measure.h"

namespace mtl {

namespace {

/// True for a head size whose rows can start at multiples of 16 bytes, and that fits in a tile. The largest has 128
/// columns: with more, the sums of dk and dv would not fit in a warp's registers.
bool has_tiles(std::int64_t dim) { return dim % 8 == 0 && dim <= 128; }
/// True for 16-bit elements at a 16-byte aligned address, with a head size the tiles support.
bool has_tiles(const Tensor& heads) {
  return size_of(heads.dtype()) == 2 && has_tiles(heads.size(-1)) &&
         reinterpret_cast<std::uintptr_t>(heads.raw()) % 16 == 0;
}
/// True if dropout's tiles do not cross the border between the two chunks of a part.
bool has_whole_dropout_tiles(const SequencePart& part, const HeadSlice& rows) {
  return part.is_whole() || rows.tensor.size(1) % (2 * kDropoutTile) == 0;
}
bool has_tiles(const Qkv& qkv) { return has_tiles(qkv.q.tensor) && has_tiles(qkv.k.tensor) && has_tiles(qkv.v.tensor); }

/// Needs whole sequences or parts, because TMA copies tiles up to the ends of the tensors and must not read positions
/// that have never been written.
bool has_hopper(const AttentionInput& in) {
  const std::int64_t dim = in.sizes().dim;
  return (dim == 64 || dim == 128) && in.covers_sequences();
}

std::string key_of(const char* direction, const AttentionInput& in) {
  const AttentionSizes s = in.sizes();
  std::string key = cat("attention ", direction, " ", name_of(in.qkv.q.tensor.dtype()), " B=", s.batch,
                        " T=", s.queries, " G=", s.groups, " R=", s.heads, " D=", s.dim);
  if (in.window > 0 && in.window < s.keys) key += cat(" window=", in.window);
  if (in.document_start.exists()) key += " documents";
  if (in.dropout.active()) key += " dropout";
  if (in.is_whole()) return key;
  const auto text_of = [](SequencePart part) { return cat(part.index, "/", part.parts); };
  key += cat(" first=", in.rows.first_row, " part=", text_of(in.rows.part), " keys=", s.keys,
             " of part=", text_of(in.key_part));
  return in.past.exists() ? key + " past" : key;
}

/// Copies of tensors on the host.
struct HostCopies {
  std::vector<std::vector<std::byte>> bytes;
  std::vector<Tensor> tensors;

  HostCopies(Stream& stream, const std::vector<Tensor>& from) {
    for (const Tensor& tensor : from) {
      bytes.emplace_back(tensor.bytes());
      copy_to_host(stream, bytes.back(), tensor);
      tensors.emplace_back(bytes.back().data(), tensor.dtype(), tensor.shape());
    }
  }
};

/// Sets every bit of the results. A GPU computes no number with this pattern: its NaN is 0x7FFF and so on.
void mark_unwritten(Stream& stream, const std::vector<Tensor>& results) {
  for (const Tensor& result : results) {
    const std::vector<std::byte> ones(result.bytes(), std::byte{0xFF});
    copy_from_host(stream, result, std::span(ones));
  }
}

/// Returns the index of the first element that is still marked.
std::optional<std::int64_t> unwritten_element(const Tensor& result) {
  const std::size_t size = size_of(result.dtype());
  const auto* data = static_cast<const std::byte*>(result.raw());
  for (std::int64_t i = 0; i < result.numel(); ++i) {
    if (std::all_of(data + i * size, data + (i + 1) * size, [](std::byte byte) { return byte == std::byte{0xFF}; }))
      return i;
  }
  return {};
}

}  // namespace

std::string name_of(AttentionVariant variant) {
  constexpr const char* kNames[] = {"simple", "tiles", "hopper", "cudnn"};
  return kNames[enum_index(variant)];
}

std::vector<AttentionVariant> attention_forward_variants(const AttentionInput& in, const Tensor& out,
                                                         const Tensor& logsumexp, int capability) {
  if (in.decodes(logsumexp) || !attention_suits_tiles(in) || !has_tiles(out)) return {AttentionVariant::simple};
  std::vector<AttentionVariant> variants{AttentionVariant::tiles};
  if (capability == 90 && has_hopper(in)) variants.push_back(AttentionVariant::hopper);
  if (attention_suits_cudnn(in)) variants.push_back(AttentionVariant::cudnn);
  return variants;
}

std::vector<AttentionVariant> attention_backward_variants(const AttentionInput& in, const Qkv& grads,
                                                          const Tensor& dout, const Tensor& out, int capability) {
  if (!attention_suits_tiles(in) || !has_tiles(grads) || !has_tiles(dout) || !has_tiles(out))
    return {AttentionVariant::simple};
  if (capability != 90 || !has_hopper(in)) return {AttentionVariant::tiles};
  return {AttentionVariant::tiles, AttentionVariant::hopper};
}

std::vector<AttentionVariant> allowed_forward_variants(AttentionBackend backend,
                                                       std::vector<AttentionVariant> variants) {
  switch (backend) {
    case AttentionBackend::automatic:
      break;
    case AttentionBackend::flash:
      std::erase(variants, AttentionVariant::cudnn);
      break;
    case AttentionBackend::tiles:
      return {variants[0]};
    case AttentionBackend::fused:
      if (std::ranges::count(variants, AttentionVariant::cudnn) > 0) return {AttentionVariant::cudnn};
      fail(Exit::usage,
           "--attention-backend fused cannot compute this attention, because cuDNN supports only bf16 and fp16, head "
           "sizes 64, 80, 96 and 128, without dropout, document boundaries, window and context parallelism; choose "
           "auto or flash");
    case AttentionBackend::unfused:
      return {AttentionVariant::simple};
  }
  return variants;
}

std::vector<AttentionVariant> allowed_backward_variants(AttentionBackend backend,
                                                        std::vector<AttentionVariant> variants) {
  if (backend == AttentionBackend::fused) backend = AttentionBackend::flash;
  return allowed_forward_variants(backend, std::move(variants));
}

bool attention_suits_tiles(const AttentionInput& in) {
  return has_tiles(in.qkv) && (!in.dropout.active() || (has_whole_dropout_tiles(in.rows.part, in.qkv.q) &&
                                                        has_whole_dropout_tiles(in.key_part, in.qkv.k)));
}

bool attention_suits_cudnn(const AttentionInput& in) {
  const AttentionSizes sizes = in.sizes();
  const bool is_masked = in.document_start.exists() || (in.window > 0 && in.window < sizes.keys);
  const bool is_known = sizes.dim == 64 || sizes.dim == 80 || sizes.dim == 96 || sizes.dim == 128;
  return has_tiles(in.qkv) && is_known && in.is_whole() && sizes.queries > 1 && !is_masked && !in.dropout.active();
}

std::size_t cudnn_work_bytes(const AttentionInput& in, const Tensor& logsumexp) {
  const AttentionSizes s = in.sizes();
  const std::int64_t rows = logsumexp.exists() ? 0 : s.batch * s.groups * s.heads * s.queries;
  return kCudnnWorkspace + rows * sizeof(float);
}

std::string scalar_attention_warning(DType dtype, std::int64_t dim, std::int64_t dropout_chunk) {
  if (size_of(dtype) != 2) return {};
  const std::string begin = "attention runs on a scalar kernel, many times slower than tensor cores, because ";
  if (!has_tiles(dim))
    return cat(begin, "heads have ", dim, " elements; in ", name_of(dtype),
               ", tensor cores need a head size that is a multiple of 8, up to 128");
  if (dropout_chunk % kDropoutTile == 0) return {};
  return cat(begin, "context parallelism cuts sequences into chunks of ", dropout_chunk,
             " positions; with dropout, tensor cores need multiples of ", kDropoutTile,
             ": choose a --seq-length that is a multiple of ", 2 * kDropoutTile,
             " times --context-parallel-size, or --attention-dropout 0");
}

std::string attention_forward_key(const AttentionInput& in) { return key_of("forward", in); }
std::string attention_backward_key(const AttentionInput& in) { return key_of("backward", in); }

std::string difference_of(const Tensor& expected, const Tensor& actual) {
  return with_float_type(expected.dtype(), [&]<class T>(T) -> std::string {
    const double tolerance = std::is_same_v<T, float> ? 1e-3 : std::is_same_v<T, Half> ? 1e-2 : 4e-2;
    const T *expected_data = expected.data<T>(), *actual_data = actual.data<T>();
    const std::int64_t dim = expected.size(-1);
    const std::int64_t heads = expected.size(-2), rows = expected.numel() / dim;
    std::vector<double> floors(heads, std::numeric_limits<double>::min());
    for (std::int64_t i = 0; i < expected.numel(); ++i) {
      const double a = double{widen(expected_data[i])};
      if (std::isfinite(a)) floors[i / dim % heads] += a * a * double(heads) / double(rows);
    }
    for (std::int64_t row = 0; row < rows; ++row) {
      double error = 0, size = 0;
      for (std::int64_t i = row * dim; i < (row + 1) * dim; ++i) {
        const double a = double{widen(expected_data[i])}, b = double{widen(actual_data[i])};
        if (std::isfinite(a) != std::isfinite(b) || std::isnan(a) != std::isnan(b))
          return cat("element ", i, " is ", b, ", expected ", a);
        if (!std::isfinite(a)) continue;
        error += (a - b) * (a - b);
        size += a * a;
      }
      const double relative = std::sqrt(error / std::max(size, floors[row % heads]));
      if (relative > tolerance) return cat("row ", row, " differs by ", relative, " of its size");
    }
    return {};
  });
}

AttentionVariant choose_variant(Stream& stream, const std::string& key, const std::vector<AttentionVariant>& variants,
                                const std::function<void(AttentionVariant)>& run, const std::vector<Tensor>& results) {
  const auto names = texts_of(variants, [](AttentionVariant variant) { return name_of(variant); });
  const auto variant_of = [&](const std::string& name) {
    return variants[std::find(names.begin(), names.end(), name) - names.begin()];
  };
  std::vector<HostCopies> reference;  // the first variant's results, once it has run
  // Runs a variant. Returns why it cannot be used, or "".
  const auto fault_of = [&](const std::string& name) -> std::string {
    mark_unwritten(stream, results);
    try {
      run(variant_of(name));
    } catch (const Error& error) {
      if (reference.empty()) throw;
      return error.what();
    }
    HostCopies actual(stream, results);
    for (const Tensor& result : actual.tensors) {
      const std::optional<std::int64_t> element = unwritten_element(result);
      if (!element) continue;
      std::string why = cat("it does not write element ", *element, " of its results");
      require(!reference.empty(), key, ": ", name, " cannot be used: ", why,
              "; train with --attention-backend unfused, and please report this");
      return why;
    }
    if (reference.empty()) {
      reference.push_back(std::move(actual));
      return {};
    }
    for (std::size_t i = 0; i < results.size(); ++i) {
      const std::string why = difference_of(reference[0].tensors[i], actual.tensors[i]);
      if (!why.empty()) return cat("its results differ from those of ", names[0], ": ", why);
    }
    return {};
  };
  return variant_of(stream.choices().choose(key, names, [&](const std::string& name) {
    const std::string why = fault_of(name);
    if (why.empty()) return seconds_of(stream, [&] { run(variant_of(name)); });
    stream.choices().refuse(key, name, why);
    return std::numeric_limits<double>::infinity();
  }));
}

}  // namespace mtl
