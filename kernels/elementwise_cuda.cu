// Elementwise kernels over flat ranges, with 16 bytes per access; find_nonfinite reads single elements. All are
// memory-bound. fill_zero writes its bytes once, copy moves twice its bytes, add three times, and sum_of_squares,
// find_nonfinite and count_zeros read once.
#include "kernels/cuda.h"
#include "kernels/cuda/flat.h"
#include "kernels/cuda/warp.h"

namespace mtl::cuda {

namespace {

constexpr std::int64_t kSumBlock = 65536;  // elements that one thread block sums
constexpr int kSumThreads = 512, kAddThreads = 1024;

std::int64_t sum_blocks(const Tensor& tensor) { return (tensor.numel() + kSumBlock - 1) / kSumBlock; }

/// The fill and copy kernels move bytes as words, whose size with_words() chooses.
template <class Word>
__global__ void fill_words(Word* out, std::int64_t count) {
  for (std::int64_t i = first_element(); i < count; i += all_threads()) out[i] = Word{};
}
template <class Word>
__global__ void copy_words(Word* out, const Word* in, std::int64_t count) {
  for (std::int64_t i = first_element(); i < count; i += all_threads()) out[i] = in[i];
}

template <int n, class T>
__global__ void add_elements(T* out, const T* in, std::int64_t count) {
  for (std::int64_t i = first_element() * n; i < count; i += all_threads() * n) {
    Pack<n> sum = load<n>(out + i);
    const Pack<n> x = load<n>(in + i);
    for (int j = 0; j < n; ++j) sum[j] += x[j];
    store(out + i, sum);
  }
}

/// Tensors whose squares are summed by the same launches. It is passed by value, so that a captured graph keeps it.
struct Summed {
  struct Part {
    const void* data;
    std::int64_t count;
    int first_block;  // of the blocks that sum this tensor
  };
  static constexpr int kMost = 320;  // 8 KiB
  int count = 0;
  int blocks = 0;
  Part parts[kMost];

  /// Returns the tensor that `block` sums.
  __device__ const Part& of_block(int block) const {
    int low = 0;
    for (int high = count; high - low > 1;) {
      const int middle = (low + high) / 2;
      (parts[middle].first_block <= block ? low : high) = middle;
    }
    return parts[low];
  }
};

/// Returns this thread's share of the sum of squares over elements [begin, end).
template <int n, class T>
__device__ double squares_of(const T* in, std::int64_t begin, std::int64_t end) {
  double sum = 0;
  for (std::int64_t i = begin + std::int64_t{threadIdx.x} * n; i < end; i += std::int64_t{blockDim.x} * n) {
    const Pack<n> x = load<n>(in + i);
    for (int j = 0; j < n; ++j) sum += double{x[j]} * double{x[j]};
  }
  return sum;
}

template <class T>
__global__ void sum_squares_of_blocks(double* sums, const __grid_constant__ Summed summed) {
  const Summed::Part& part = summed.of_block(block_in_grid());
  const T* in = static_cast<const T*>(part.data);
  const std::int64_t begin = std::int64_t{block_in_grid() - part.first_block} * kSumBlock;
  const std::int64_t end = begin + kSumBlock < part.count ? begin + kSumBlock : part.count;
  const bool wide = part.count % 8 == 0 && reinterpret_cast<std::uintptr_t>(in) % kAccess == 0;
  double sum = wide ? squares_of<8>(in, begin, end) : squares_of<1>(in, begin, end);
  sum = block_sum(sum, shared_memory<double>());
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

/// Adds up a tensor's sums with one warp, in the order of a block of kSumThreads threads: each thread's share, then
/// each warp's threads, then the warps.
__device__ inline double sum_as_block(const double* sums, int count) {
  constexpr int kWarps = kSumThreads / kWarp;
  double shares[kWarps] = {};
  for (int begin = lane(); begin < count; begin += kSumThreads) {
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp)
      shares[warp] += begin + warp * kWarp < count ? sums[begin + warp * kWarp] : 0;
  }
  double of_warps = 0;
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) {
    const double sum = warp_sum(shares[warp]);
    if (lane() == warp) of_warps = sum;
  }
  return warp_sum(of_warps);
}

/// Runs as one block, in which a warp sums a tensor. Then one thread adds the tensors' sums in order.
__global__ void __launch_bounds__(kAddThreads)
    add_sums(double* out, bool accumulate, const double* sums, const __grid_constant__ Summed summed) {
  auto* of_parts = shared_memory<double>();
  for (int p = warp_in_block(); p < summed.count; p += warps_in_block()) {
    const int begin = summed.parts[p].first_block;
    const int end = p + 1 < summed.count ? summed.parts[p + 1].first_block : summed.blocks;
    const double sum = sum_as_block(sums + begin, end - begin);
    if (lane() == 0) of_parts[p] = sum;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  double sum = accumulate ? *out : 0;
  for (int p = 0; p < summed.count; ++p) sum += of_parts[p];
  *out = sum;
}

/// Sets *found to 1 if any element's exponent bits are all ones (infinity or NaN). Multiple threads may find such an
/// element, but all of them write the same value.
template <class Bits>
__global__ void search_nonfinite(std::int32_t* found, const Bits* in, unsigned exponent, std::int64_t count) {
  bool bad = false;
  for (std::int64_t i = first_element(); i < count; i += all_threads()) bad |= (in[i] & exponent) == exponent;
  if (bad) *found = 1;
}

/// Returns this thread's share of the number of zeros.
template <int n, class T>
__device__ int zeros_of(const T* in, std::int64_t count) {
  int zeros = 0;
  for (std::int64_t i = first_element() * n; i < count; i += all_threads() * n) {
    const Pack<n> x = load<n>(in + i);
    for (int j = 0; j < n; ++j) zeros += x[j] == 0;
  }
  return zeros;
}

/// Adds the number of zeros to *total.
template <class T>
__global__ void add_zeros(std::int64_t* total, const T* in, std::int64_t count) {
  const bool wide = count % 8 == 0 && reinterpret_cast<std::uintptr_t>(in) % kAccess == 0;
  const int zeros = block_sum(wide ? zeros_of<8>(in, count) : zeros_of<1>(in, count), shared_memory<int>());
  if (threadIdx.x == 0) add_count(total, zeros);  // integer sums do not depend on the order
}

struct alignas(16) Bytes16 {
  std::uint32_t words[4];
};

bool is_wide(const Tensor& tensor) {
  return reinterpret_cast<std::uintptr_t>(tensor.raw()) % kAccess == 0 && tensor.bytes() % kAccess == 0;
}

/// Calls body(Word()). Words have 16 bytes if every tensor's address and size are multiples of 16, otherwise 1 byte.
template <class Body>
void with_words(std::initializer_list<Tensor> tensors, const Body& body) {
  bool wide = true;
  for (const Tensor& tensor : tensors) wide &= is_wide(tensor);
  if (wide)
    body(Bytes16());
  else
    body(std::uint8_t());
}

}  // namespace

void fill_zero(Stream& stream, Tensor out) {
  with_words({out}, [&]<class Word>(Word) {
    const auto count = static_cast<std::int64_t>(out.bytes() / sizeof(Word));
    launch(stream, fill_words<Word>, flat_shape(count), static_cast<Word*>(out.raw()), count);
  });
}

void copy(Stream& stream, Tensor out, Tensor in) {
  with_words({out, in}, [&]<class Word>(Word) {
    const auto count = static_cast<std::int64_t>(out.bytes() / sizeof(Word));
    launch(stream, copy_words<Word>, flat_shape(count), static_cast<Word*>(out.raw()),
           static_cast<const Word*>(in.raw()), count);
  });
}

void add(Stream& stream, Tensor out, Tensor in) {
  const std::int64_t count = out.numel();
  with_float_type(out.dtype(), [&]<class T>(T) {
    with_pack_size(count, {out, in}, [&]<int n>(std::integral_constant<int, n>) {
      launch(stream, add_elements<n, T>, flat_shape(count / n), out.data<T>(), in.data<T>(), count);
    });
  });
}

void sum_of_squares(Stream& stream, Tensor work, Tensor out, const std::vector<Tensor>& in) {
  auto* sums = static_cast<double*>(work.raw());
  std::size_t done = 0;
  do {
    Summed summed{};
    for (; done < in.size() && summed.count < Summed::kMost; ++done) {
      summed.parts[summed.count++] = {in[done].raw(), in[done].numel(), summed.blocks};
      summed.blocks += static_cast<int>(sum_blocks(in[done]));
    }
    if (summed.count > 0)
      with_float_type(in[0].dtype(), [&]<class T>(T) {
        launch(stream, sum_squares_of_blocks<T>,
               {static_cast<unsigned>(summed.blocks), kSumThreads, kWarp * sizeof(double)}, sums, summed);
      });
    launch(stream, add_sums, {1, kAddThreads, Summed::kMost * sizeof(double)}, out.data<double>(),
           done > static_cast<std::size_t>(summed.count), sums, summed);
  } while (done < in.size());
}

std::size_t sum_of_squares_work(const Stream&, const std::vector<Tensor>& in) {
  std::int64_t blocks = 0;
  for (const Tensor& tensor : in) blocks += sum_blocks(tensor);
  return blocks * sizeof(double);
}

void find_nonfinite(Stream& stream, Tensor found, Tensor in) {
  cuda::fill_zero(stream, found);
  const auto search = [&]<class Bits>(Bits, unsigned exponent) {
    launch(stream, search_nonfinite<Bits>, flat_shape(in.numel()), found.data<std::int32_t>(),
           static_cast<const Bits*>(in.raw()), exponent, in.numel());
  };
  if (in.dtype() == DType::f32) return search(std::uint32_t(), 0x7F800000);
  search(std::uint16_t(), in.dtype() == DType::bf16 ? 0x7F80 : 0x7C00);
}

void count_zeros(Stream& stream, Tensor count, Tensor in) {
  LaunchShape shape = flat_shape((in.numel() + 7) / 8);
  shape.shared_bytes = kWarp * sizeof(int);
  with_float_type(in.dtype(), [&]<class T>(T) {
    launch(stream, add_zeros<T>, shape, count.data<std::int64_t>(), in.data<T>(), in.numel());
  });
}

}  // namespace mtl::cuda
