// Device basics: 16-bit types, views, arenas, and Philox compared with its published test vectors.
#include <doctest/doctest.h>

#include <cmath>

#include "device/copy.h"
#include "device/cuda_device.h"
#include "device/memory.h"
#include "device/philox.h"
#include "device/step_state.h"

using namespace mtl;

TEST_CASE("float16 and bfloat16: every value round-trips, ties round to even") {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    auto half = static_cast<std::uint16_t>(bits);
    if (!std::isnan(f16_to_f32(half))) CHECK(f32_to_f16(f16_to_f32(half)) == half);
    if (!std::isnan(bf16_to_f32(half))) CHECK(f32_to_bf16(bf16_to_f32(half)) == half);
  }
  CHECK(f32_to_f16(65519.0f) == 0x7BFF);
  CHECK(f32_to_f16(65520.0f) == 0x7C00);
  CHECK(f32_to_f16(2049.0f) == f32_to_f16(2048.0f));
  CHECK(f32_to_bf16(1.00390625f) == 0x3F80);
  CHECK(std::isnan(f16_to_f32(f32_to_f16(NAN))));
  CHECK(std::isnan(bf16_to_f32(f32_to_bf16(NAN))));
}

TEST_CASE("philox: reproduces the test vectors of Random123") {
  CHECK(philox({0, 0}, 0, 0) == std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox({0xffffffff, 0xffffffff}, ~0ull, ~0ull) ==
        std::array<std::uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0xa4093822, 0x299f31d0}, 0x0370734413198a2eull, 0x85a308d3243f6a88ull) ==
        std::array<std::uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("arena: tensors are aligned, marks release, an overflow names the arena") {
  Arena arena(Device::cpu, "scratch", 1024);
  Tensor first = arena.make(DType::f32, {3});
  CHECK(reinterpret_cast<std::uintptr_t>(first.raw()) % 64 == 0);
  {
    Arena::Mark mark(arena);
    arena.make(DType::f32, {10, 10});
  }
  CHECK(arena.used() == 64);
  CHECK(arena.peak() == 64 + 448);
  CHECK_THROWS_WITH(arena.make(DType::f32, {1000}), doctest::Contains("scratch"));
}

TEST_CASE("arenas: parts of a buffer do not overlap and keep to their bounds") {
  const std::size_t before = buffer_use().made;
  Buffer buffer(Device::cpu, 256);
  Arena first(Device::cpu, "first", buffer, 0, 128), second(Device::cpu, "second", buffer, 128, 128);
  CHECK(buffer_use().made == before + 1);
  CHECK(first.make(DType::f32, {32}).raw() == buffer.data());
  CHECK(second.make(DType::f32, {32}).raw() == buffer.data() + 128);
  CHECK_THROWS_WITH(first.make(DType::f32, {1}), doctest::Contains("first: the plan has 128 bytes"));
  CHECK_THROWS_AS(Arena(Device::cpu, "outside", buffer, 192, 128), Error);
  CHECK_THROWS_AS(Arena(Device::cpu, "unaligned", buffer, 32, 128), Error);
}

TEST_CASE("views: rows and reshapes share the memory") {
  Buffer buffer(Device::cpu, 24 * 4);
  Tensor t = buffer.tensor(DType::f32, {2, 3, 4});
  CHECK(t.rows(1, 1).data<float>() == t.data<float>() + 12);
  CHECK(t.view({6, 4}).size(0) == 6);
  CHECK_THROWS_AS(t.view({5, 5}), Error);
  CHECK_THROWS_AS(t.data<double>(), Error);
}

TEST_CASE("memory on the device cuda is refused with the reason why no GPU is usable") {
  const CudaDevice found = find_cuda_device();
  if (found.usable())
    CHECK_NOTHROW(Buffer(Device::cuda, 64));
  else
    CHECK_THROWS_WITH_AS(Buffer(Device::cuda, 64), doctest::Contains(found.why_not.c_str()), Error);
  CHECK_NOTHROW(Buffer(Device::meta, 64));
}

TEST_CASE("copies between host and device: whole tensors of one dtype, nothing on meta") {
  Stream stream(Device::cpu), meta(Device::meta);
  Buffer memory(Device::cpu, 64);
  Tensor x = memory.tensor(DType::f32, {3}), y = memory.tensor(DType::f32, {3}, 32);
  copy_from_host(stream, x, std::vector<float>{1, 2, 3});
  copy_on_device(stream, y, x);
  CHECK(host_copy<float>(stream, y) == std::vector<float>{1, 2, 3});
  CHECK_THROWS_AS(copy_from_host(stream, x, std::vector<float>{1, 2}), Error);
  CHECK_THROWS_AS(copy_from_host(stream, x, std::vector<std::int32_t>{1, 2, 3}), Error);
  CHECK_THROWS_AS(host_copy<double>(stream, x), Error);
  CHECK_THROWS_AS(copy_on_device(stream, x, y.flat(0, 2)), Error);
  copy_from_host(meta, Tensor(nullptr, DType::f32, {3}), std::vector<float>{1, 2, 3});
}

TEST_CASE("on the cpu, the host's view of a tensor is the tensor") {
  Buffer memory(Device::cpu, 64);
  Tensor x = memory.tensor(DType::f32, {3});
  HostView view(Device::cpu, x);
  CHECK(view.tensor().raw() == x.raw());
  CHECK(view.bytes().size() == 12);
}

TEST_CASE("the step state: inputs and reports are copied without changing each other") {
  Stream stream(Device::cpu);
  StepMemory memory(Device::cpu);
  memory.on_device()->grad_norm = 2;
  memory.send(stream, {.step = 7, .lr = 0.5, .weight_decay = 0.1, .loss_scale = 4});
  CHECK(memory.on_device()->step == 7);
  CHECK(memory.on_device()->loss_scale == 4);
  *memory.loss_sums().data<double>() = 3;
  CHECK(memory.receive(stream).grad_norm == 2);
  CHECK(memory.receive(stream).loss_sums[0] == 3);
}

TEST_CASE("cuda: runs_on() accepts the GPUs that compiled kernels support") {
  CHECK(runs_on("80", 8, 0));
  CHECK(runs_on("80", 8, 9));
  CHECK(!runs_on("86", 8, 0));
  CHECK(!runs_on("80", 9, 0));
  CHECK(runs_on("90a", 9, 0));
  CHECK(!runs_on("90a", 9, 1));
  CHECK(!runs_on("90a", 10, 0));
  CHECK(runs_on("80,90a,100", 10, 0));
  CHECK(runs_on("80,90a,100", 10, 3));
  for (const auto& [major, minor] : {std::pair(8, 0), {8, 9}, {9, 0}, {10, 0}, {12, 0}})
    CHECK(runs_on(architecture_for(major, minor), major, minor));
  CHECK(architecture_for(9, 0) == "90a");  // with wgmma
  CHECK(architecture_for(10, 0) == "100");
  CHECK(!runs_on("80,90a,100", 12, 0));
  CHECK(!runs_on("", 9, 0));
}

TEST_CASE("cuda: a GPU that the kernels do not run on is named with what helps") {
  CHECK(missing_kernels_text("A10", "80,90a", 8, 6).empty());
  CHECK(missing_kernels_text("B200", "80,90a", 10, 0) ==
        "this build has no kernels for B200, only for sm_80,90a; configure it with -DMTL_CUDA_ARCHS=100");
  for (const auto& [major, minor] : {std::pair(7, 0), {7, 5}, {6, 0}})
    CHECK(missing_kernels_text("V100", "80,90a", major, minor) ==
          "V100 is too old: mtl's kernels need sm_80 (A100, A10, RTX 30) or newer");
}

TEST_CASE("cuda: the reason is known if a machine has no usable GPU") {
  const CudaDevice device = find_cuda_device();
  if (device.usable()) {
    CHECK(!device.name.empty());
    CHECK(device.memory > 0);
  } else {
    CHECK(device.why_not.size() > 10);
  }
}
