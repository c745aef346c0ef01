// Elementwise kernels over flat ranges, with 16 bytes per access; find_nonfinite reads single elements. All are
// memory-bound. fill_zero writes its bytes once, copy moves twice its bytes, and sum_of_squares and find_nonfinite read
// once.
#include "kernels/cuda.h"
#include "kernels/cuda/flat.h"
#include "kernels/cuda/warp.h"

namespace mtl::cuda {

namespace {

constexpr std::int64_t kSumBlock = 65536;  // elements that one thread block sums

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
__global__ void sum_squares_of_blocks(double* sums, const T* in, std::int64_t count) {
  const std::int64_t begin = std::int64_t{blockIdx.x} * kSumBlock;
  const std::int64_t end = begin + kSumBlock < count ? begin + kSumBlock : count;
  double sum = 0;
  for (std::int64_t i = begin + std::int64_t{threadIdx.x} * n; i < end; i += std::int64_t{blockDim.x} * n) {
    const Pack<n> x = load<n>(in + i);
    for (int j = 0; j < n; ++j) sum += double{x[j]} * double{x[j]};
  }
  sum = block_sum(sum, shared_memory<double>());
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

/// Runs as one block. Each thread sums its share, and then the block adds up the threads' sums.
__global__ void add_sums(double* out, bool accumulate, const double* sums, int count) {
  double sum = 0;
  for (int i = thread_in_block(); i < count; i += threads_in_block()) sum += sums[i];
  sum = block_sum(sum, shared_memory<double>());
  if (threadIdx.x == 0) *out = (accumulate ? *out : 0) + sum;
}

/// Sets *found to 1 if any element's exponent bits are all ones (infinity or NaN). Multiple threads may find such an
/// element, but all of them write the same value.
template <class Bits>
__global__ void search_nonfinite(std::int32_t* found, const Bits* in, unsigned exponent, std::int64_t count) {
  bool bad = false;
  for (std::int64_t i = first_element(); i < count; i += all_threads()) bad |= (in[i] & exponent) == exponent;
  if (bad) *found = 1;
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

void sum_of_squares(Stream& stream, Tensor work, Tensor out, Tensor in, GradMode mode) {
  auto* sums = static_cast<double*>(work.raw());
  const auto blocks = static_cast<unsigned>((in.numel() + kSumBlock - 1) / kSumBlock);
  constexpr unsigned kThreads = 512;
  constexpr std::size_t kShared = kWarp * sizeof(double);
  with_float_type(in.dtype(), [&]<class T>(T) {
    with_pack_size(in.numel(), {in}, [&]<int n>(std::integral_constant<int, n>) {
      launch(stream, sum_squares_of_blocks<n, T>, {blocks, kThreads, kShared}, sums, in.data<T>(), in.numel());
    });
  });
  launch(stream, add_sums, {1, kThreads, kShared}, out.data<double>(), mode == GradMode::accumulate, sums,
         static_cast<int>(blocks));
}

std::size_t sum_of_squares_work(const Stream&, std::int64_t count) {
  return (count + kSumBlock - 1) / kSumBlock * sizeof(double);
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

}  // namespace mtl::cuda
