// RMSNorm of q and k and their rotation in one pass, memory-bound:
//   forward   reads x and writes y             4 (R + 1) / R bytes per element of q, in 16 bits
//   backward  reads x and dy and writes dx     6 (R + 1) / R
// A head has D / 16 units of two packs of 8, and a team of 4, 8 or 16 threads has a thread for each. The packs of a
// unit hold 8 pairs, so that a thread has both elements of every pair it rotates: elements [8 u, 8 u + 8) and `pairs`
// after them or, if pairs are interleaved and beyond the pairs, [16 u, 16 u + 16). If D is not a multiple of 16 or
// above 256, or pairs is not a multiple of 8, the separate operators run.
#include "kernels/cuda.h"
#include "kernels/cuda/column_sums.h"

namespace mtl::cuda {

namespace {

constexpr int kQkThreads = 256, kUnit = 16;

/// The heads of q or k. Blocks from first_block on process them.
template <class T>
struct QkHeads {
  T* out;  // y or the gradient, at the first head of the slice, like x
  const T* x;
  float* rstd;
  const T* gamma;
  unsigned count;  // in a group
  unsigned rows;   // B T G count
  unsigned first_block, blocks;
};

template <class T>
struct QkOperands {
  QkHeads<T> q, k;
  const float* angles;
  float* partials;  // null in forward
  unsigned groups;
  int pairs, dim;
  std::int64_t group_stride;
  bool interleaved;
  float eps;
};

/// A thread's place in a head.
struct QkUnit {
  int first, second;  // elements at which its packs begin
  int pair;           // its first pair, or -1 if its elements are not rotated

  template <class T>
  __device__ QkUnit(const QkOperands<T>& o, int unit) {
    pair = 8 * unit < o.pairs ? 8 * unit : -1;
    const bool halves = pair >= 0 && !o.interleaved;
    first = halves ? 8 * unit : kUnit * unit;
    second = halves ? o.pairs + first : first + 8;
  }
};

struct TwoPacks {
  Pack<8> a, b;
};

template <class T>
__device__ TwoPacks load_unit(const T* head, const QkUnit& unit) {
  return {load<8>(head + unit.first), load<8>(head + unit.second)};
}

template <class T>
__device__ void store_unit(T* head, const QkUnit& unit, const TwoPacks& values) {
  store(head + unit.first, values.a);
  store(head + unit.second, values.b);
}

__device__ inline void rotate_by(float c, float s, float& a, float& b) {
  const float before = a;
  a = before * c - b * s;
  b = b * c + before * s;
}

/// Rotates the unit's pairs by the angles of the head's position. `sign` is -1 to rotate back.
template <class T>
__device__ void rotate_unit(const QkOperands<T>& o, const QkUnit& unit, unsigned position, float sign, TwoPacks& v) {
  if (unit.pair < 0) return;
  const float* angles = o.angles + std::int64_t{position} * 2 * o.pairs + unit.pair;
  const Pack<8> c = load<8>(angles), s = load<8>(angles + o.pairs);
  if (o.interleaved) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      rotate_by(c[j], sign * s[j], v.a[2 * j], v.a[2 * j + 1]);
      rotate_by(c[j + 4], sign * s[j + 4], v.b[2 * j], v.b[2 * j + 1]);
    }
  } else {
#pragma unroll
    for (int j = 0; j < 8; ++j) rotate_by(c[j], sign * s[j], v.a[j], v.b[j]);
  }
}

template <class T>
__device__ void round_to(Pack<8>& pack) {
#pragma unroll
  for (int j = 0; j < 8; ++j) pack[j] = to_float(from_float<T>(pack[j]));
}

/// A row's place: a head in a group in a position.
struct QkPlace {
  unsigned position;
  std::int64_t offset;  // from the first head of the slice

  template <class T>
  __device__ QkPlace(const QkOperands<T>& o, const QkHeads<T>& heads, unsigned row) {
    const unsigned group = row / heads.count;
    position = group / o.groups;
    offset = group * o.group_stride + std::int64_t{row - group * heads.count} * o.dim;
  }
};

template <class T>
__device__ const QkHeads<T>& heads_of_block(const QkOperands<T>& o) {
  return blockIdx.x < o.k.first_block ? o.q : o.k;
}

/// Sums `value` over the `team` threads that share a head.
template <int team>
__device__ float team_sum(float value) {
#pragma unroll
  for (int distance = team / 2; distance > 0; distance /= 2) value += __shfl_xor_sync(kAllLanes, value, distance);
  return value;
}

template <int team, class T>
__global__ void __launch_bounds__(kQkThreads) qk_norm_then_rotate(const __grid_constant__ QkOperands<T> o) {
  const QkHeads<T>& heads = heads_of_block(o);
  const unsigned row = (blockIdx.x - heads.first_block) * (kQkThreads / team) + threadIdx.x / team;
  const int in_team = thread_in_block() % team;
  const bool active = row < heads.rows && kUnit * in_team < o.dim;
  const QkUnit unit(o, in_team);
  const QkPlace place(o, heads, row);
  TwoPacks v{};
  if (active) v = load_unit(heads.x + place.offset, unit);
  float squares_a = 0, squares_b = 0;
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    squares_a += v.a[j] * v.a[j];
    squares_b += v.b[j] * v.b[j];
  }
  const float squares = team_sum<team>(squares_a + squares_b);
  if (!active) return;
  const float rstd = 1 / sqrtf(squares / static_cast<float>(o.dim) + o.eps);
  const TwoPacks gamma = load_unit(heads.gamma, unit);
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    v.a[j] = v.a[j] * rstd * gamma.a[j];
    v.b[j] = v.b[j] * rstd * gamma.b[j];
  }
  round_to<T>(v.a);
  round_to<T>(v.b);
  rotate_unit(o, unit, place.position, 1, v);
  store_unit(heads.out + place.offset, unit, v);
  if (in_team == 0) heads.rstd[row] = rstd;
}

/// The sums for dgamma stay in registers: a thread has the same columns in all of its rows.
template <int team, class T>
__global__ void __launch_bounds__(kQkThreads) qk_rotate_back_then_norm(const __grid_constant__ QkOperands<T> o) {
  const QkHeads<T>& heads = heads_of_block(o);
  constexpr unsigned teams = kQkThreads / team;
  const unsigned in_block = threadIdx.x / team;
  const int in_team = thread_in_block() % team;
  const bool in_head = kUnit * in_team < o.dim;
  const QkUnit unit(o, in_team);
  TwoPacks gamma{}, sums{};
  if (in_head) gamma = load_unit(heads.gamma, unit);
  for (unsigned first = (blockIdx.x - heads.first_block) * teams; first < heads.rows; first += heads.blocks * teams) {
    const unsigned row = first + in_block;
    const bool active = in_head && row < heads.rows;
    const QkPlace place(o, heads, row);
    TwoPacks x{}, grad{};
    float rstd = 0;
    if (active) {
      x = load_unit(heads.x + place.offset, unit);
      grad = load_unit(heads.out + place.offset, unit);
      rstd = heads.rstd[row];
      rotate_unit(o, unit, place.position, -1, grad);
    }
    round_to<T>(grad.a);
    round_to<T>(grad.b);
    float sum_a = 0, sum_b = 0;  // of g x_hat
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float product_a = grad.a[j] * (x.a[j] * rstd), product_b = grad.b[j] * (x.b[j] * rstd);
      sum_a += gamma.a[j] * product_a;
      sum_b += gamma.b[j] * product_b;
      sums.a[j] += product_a;
      sums.b[j] += product_b;
    }
    const float mean_gx = team_sum<team>(sum_a + sum_b) / static_cast<float>(o.dim);
    if (!active) continue;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      grad.a[j] = rstd * (gamma.a[j] * grad.a[j] - x.a[j] * rstd * mean_gx);
      grad.b[j] = rstd * (gamma.b[j] * grad.b[j] - x.b[j] * rstd * mean_gx);
    }
    store_unit(heads.out + place.offset, unit, grad);
  }
  auto* shared = shared_memory<float>();  // (teams, D)
  if (in_head) store_unit(shared + in_block * o.dim, unit, sums);
  write_block_sums(o.partials, shared, teams, o.dim);
}

constexpr int team_of(std::int64_t dim) { return dim <= 64 ? 4 : dim <= 128 ? 8 : 16; }
/// Calls body(std::integral_constant<int, team_of(dim)>()).
template <class Body>
void with_team(std::int64_t dim, const Body& body) {
  switch (team_of(dim)) {
    case 4:
      return body(std::integral_constant<int, 4>());
    case 8:
      return body(std::integral_constant<int, 8>());
    default:
      return body(std::integral_constant<int, 16>());
  }
}

/// The most blocks of backward: 2 per H100 multiprocessor.
constexpr int kMostQkBlocks = 132 * 2;

/// The launch for x: a block has a team for each of some heads of q, or of k. With `most`, there are at most so many
/// blocks, at least 2, divided in proportion to the heads.
struct QkShape {
  unsigned q_blocks, k_blocks;

  explicit QkShape(const Tensor& x, std::int64_t most = INT64_MAX) {
    const Qkv slices = unpack_qkv(x);
    const std::int64_t teams = kQkThreads / team_of(x.size(4)), heads = slices.q.count;
    const std::int64_t most_k = std::max<std::int64_t>(most / (heads + 1), 1);
    const auto blocks_for = [&](const HeadSlice& slice, std::int64_t limit) {
      return static_cast<unsigned>(std::min((slice.heads().numel() + teams - 1) / teams, limit));
    };
    q_blocks = blocks_for(slices.q, std::max<std::int64_t>(most - most_k, 1));
    k_blocks = blocks_for(slices.k, most_k);
  }
};

/// True if the kernels above support the operands.
bool is_fused(const Tensor& out, const Tensor& x, const QkNorm& norm) {
  bool fused = x.size(4) % kUnit == 0 && x.size(4) <= 16 * kUnit && norm.angles.size(2) % 8 == 0 &&
               norm.q_rstd.numel() < std::int64_t{1} << 31;
  for (const Tensor& tensor : {out, x, norm.q_gamma, norm.k_gamma, norm.angles})
    fused &= reinterpret_cast<std::uintptr_t>(tensor.raw()) % kAccess == 0;
  return fused;
}

template <class T>
QkOperands<T> operands_of(const Tensor& out, const Tensor& x, const QkNorm& norm, const QkShape& shape) {
  const auto dim = static_cast<int>(x.size(4));
  const auto heads_of = [&](const HeadSlice& slice, const Tensor& rstd, const Tensor& gamma) {
    return QkHeads<T>{.out = out.data<T>() + slice.first * dim,
                      .x = x.data<T>() + slice.first * dim,
                      .rstd = rstd.data<float>(),
                      .gamma = gamma.data<T>(),
                      .count = static_cast<unsigned>(slice.count),
                      .rows = static_cast<unsigned>(rstd.numel()),
                      .first_block = slice.first == 0 ? 0 : shape.q_blocks,
                      .blocks = slice.first == 0 ? shape.q_blocks : shape.k_blocks};
  };
  const Qkv slices = unpack_qkv(x);
  return {.q = heads_of(slices.q, norm.q_rstd, norm.q_gamma),
          .k = heads_of(slices.k, norm.k_rstd, norm.k_gamma),
          .angles = norm.angles.data<float>(),
          .partials = nullptr,
          .groups = static_cast<unsigned>(x.size(2)),
          .pairs = static_cast<int>(norm.angles.size(2)),
          .dim = dim,
          .group_stride = x.size(3) * dim,
          .interleaved = norm.interleaved,
          .eps = 0};
}

}  // namespace

void qk_norm_rotary_forward(Stream& stream, Tensor y, Tensor x, const QkNorm& norm, float eps) {
  if (!is_fused(y, x, norm)) {
    const Qkv to = unpack_qkv(y), from = unpack_qkv(x);
    cuda::head_norm_forward(stream, to.q, norm.q_rstd, from.q, norm.q_gamma, eps);
    cuda::head_norm_forward(stream, to.k, norm.k_rstd, from.k, norm.k_gamma, eps);
    return cuda::rotary_forward(stream, {y, 0, y.size(3) - 1}, norm.angles, norm.interleaved);
  }
  const QkShape shape(x);
  with_float_type(x.dtype(), [&]<class T>(T) {
    QkOperands<T> operands = operands_of<T>(y, x, norm, shape);
    operands.eps = eps;
    with_team(x.size(4), [&]<int team>(std::integral_constant<int, team>) {
      launch(stream, qk_norm_then_rotate<team, T>, {shape.q_blocks + shape.k_blocks, kQkThreads}, operands);
    });
  });
}

void qk_norm_rotary_backward(Stream& stream, Tensor work, Tensor grad, const Grad& dq_gamma, const Grad& dk_gamma,
                             Tensor x, const QkNorm& norm) {
  if (!is_fused(grad, x, norm)) {
    const Qkv grads = unpack_qkv(grad), from = unpack_qkv(x);
    const auto work_for = [&](const Grad& dgamma) { return dgamma.wanted() ? work : Tensor(); };
    cuda::rotary_backward(stream, {grad, 0, grad.size(3) - 1}, norm.angles, norm.interleaved);
    cuda::head_norm_backward(stream, work_for(dq_gamma), grads.q, dq_gamma, grads.q, from.q, norm.q_rstd, norm.q_gamma);
    cuda::head_norm_backward(stream, work_for(dk_gamma), grads.k, dk_gamma, grads.k, from.k, norm.k_rstd, norm.k_gamma);
    return;
  }
  QkShape shape(x);
  const auto dim = static_cast<int>(x.size(4));
  auto* partials = static_cast<float*>(work.raw());
  with_float_type(x.dtype(), [&]<class T>(T) {
    with_team(x.size(4), [&]<int team>(std::integral_constant<int, team>) {
      const auto kernel = qk_rotate_back_then_norm<team, T>;
      const std::size_t shared = kQkThreads / team * dim * sizeof(float);
      // Only blocks that run at a time: each writes a row of sums.
      shape = QkShape(x, std::min(kMostQkBlocks, resident_blocks(kernel, kQkThreads, shared)));
      QkOperands<T> operands = operands_of<T>(grad, x, norm, shape);
      operands.partials = partials;
      launch(stream, kernel, {shape.q_blocks + shape.k_blocks, kQkThreads, shared}, operands);
    });
  });
  if (dq_gamma.wanted()) sum_partials(stream, {dq_gamma}, partials, static_cast<int>(shape.q_blocks), dim);
  if (dk_gamma.wanted())
    sum_partials(stream, {dk_gamma}, partials + std::int64_t{shape.q_blocks} * dim, static_cast<int>(shape.k_blocks),
                 dim);
}

std::size_t qk_norm_rotary_work(const Stream& stream, Tensor x) {
  const QkShape shape(x, kMostQkBlocks);
  const std::size_t fused = std::size_t{shape.q_blocks + shape.k_blocks} * x.size(4) * sizeof(float);
  return std::max(fused, cuda::row_sums_work(stream, unpack_qkv(x).q.heads().numel(), x.size(4), x.size(4)));
}

}  // namespace mtl::cuda
