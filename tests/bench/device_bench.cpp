#include "tests/bench/device_bench.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <random>
#include <string_view>

#include "base/error.h"
#include "base/str.h"
#include "device/copy.h"
#include "device/cuda_device.h"
#include "device/cuda_profile.h"
#include "device/event.h"
#include "device/graph.h"
#include "device/measure.h"
#include "kernels/elementwise.h"

namespace mtl::test {

namespace {

constexpr int kCalls = 20;

void print(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);  // a part that is cut keeps its lines
}

/// Returns text such as "1234.5 GB/s", with more digits for the small rates of a rehearsal.
std::string rate(double value, const char* unit) { return format(value < 1 ? "%10.4g %s" : "%10.1f %s", value, unit); }

/// Returns the scratch memory that `call` needs, and adds its counts to `work`.
Arena scratch_of(const Stream& stream, const DeviceBench::Call& call, Counters& work) {
  Stream meta(Device::meta, stream.threads(), stream.device());
  Arena plan(Device::meta, "scratch", 0);
  call(meta, plan, 0);
  work = meta.counters();
  return {stream.device(), "scratch", plan.peak()};
}

}  // namespace

DeviceBench::DeviceBench(Device device, bool tiny) : stream_(device, 2), tiny_(tiny) {
  const CudaDevice gpu = find_cuda_device();
  print(cat("device: ", device == Device::cpu ? "cpu" : gpu.usable() ? gpu.text() : "emulated"));
  const Operands to = zeros(DType::f32, {tiny ? 1024 : 1 << 24}), from = random(DType::f32, to[0].shape());
  if (!tiny) warm_up(stream_, [&] { copy(stream_, to[0], from[0]); });
  clear();
}

DeviceBench::Operands DeviceBench::zeros(DType dtype, const Shape& shape) {
  Operands out;
  for (Tensor& tensor : out) {
    buffers_.emplace_back(stream_.device(), static_cast<std::size_t>(shape.numel()) * size_of(dtype));
    tensor = buffers_.back().tensor(dtype, shape);
  }
  return out;
}

DeviceBench::Operands DeviceBench::random(DType dtype, const Shape& shape) {
  const Operands out = zeros(dtype, shape);
  fill(out);
  return out;
}

void DeviceBench::fill(const Operands& operands) {
  constexpr std::int64_t kDrawn = 1 << 20;  // the rest are copies: a host takes long to draw a GPU's memory
  with_float_type(operands[0].dtype(), [&]<class T>(T) {
    const std::int64_t numel = operands[0].numel();
    std::vector<T> values(static_cast<std::size_t>(std::min(kDrawn, numel)));
    std::minstd_rand generator;
    std::uniform_real_distribution<float> numbers(-1, 1);
    for (T& value : values) value = narrow<T>(numbers(generator));
    for (const Tensor& tensor : operands) {
      copy_from_host(stream_, tensor.flat(0, std::ssize(values)), values);
      for (std::int64_t done = std::ssize(values); done < numel;) {
        const std::int64_t count = std::min(done, numel - done);
        copy_on_device(stream_, tensor.flat(done, count), tensor.flat(0, count));
        done += count;
      }
    }
  });
}

double DeviceBench::seconds_per_call(const std::function<void(int set)>& call) {
  const int calls = tiny_ ? kSets : kCalls;
  const auto all = [&] {
    for (int i = 0; i < calls; ++i) call(i % kSets);
  };
  if (stream_.device() != Device::cuda) return seconds_of(stream_, all) / calls;
  call(0);  // loads kernels and chooses variants, which a graph cannot contain
  Graph graph;
  graph.capture(stream_, all);
  return seconds_of(stream_, [&] { graph.launch(stream_); }) / calls;
}

double DeviceBench::copy_gbs(double bytes) {
  const std::size_t kept = buffers_.size();
  const std::int64_t numel = std::max<std::int64_t>(1, static_cast<std::int64_t>(bytes / 8));
  const Operands to = zeros(DType::f32, {numel}), from = zeros(DType::f32, {numel});
  fill(from);
  const double seconds = seconds_per_call([&](int set) { copy(stream_, to[set], from[set]); });
  buffers_.resize(kept);
  return 8e-9 * double(numel) / seconds;
}

void DeviceBench::run(const std::string& name, const Call& call) {
  Counters work;
  Arena scratch = scratch_of(stream_, call, work);
  const double seconds = seconds_per_call([&](int set) { call(stream_, scratch, set); });
  std::string line = format("%-58s %10.2f us ", name.c_str(), 1e6 * seconds);
  if (work.flops > 0) {
    line += rate(1e-12 * work.flops / seconds, "TFLOP/s");
  } else {
    const double gbs = 1e-9 * work.bytes / seconds, peak = copy_gbs(work.bytes);
    line += rate(gbs, "GB/s") + format(" %6.1f %% of ", 100 * gbs / peak) + rate(peak, "GB/s") +
            format(", a copy that moves %.1f MB", 1e-6 * work.bytes);
  }
  print(line);
}

void DeviceBench::kernels(const std::string& name, const Call& call) {
  if (stream_.device() != Device::cuda || !find_cuda_device().usable()) return;
  Counters work;
  Arena scratch = scratch_of(stream_, call, work);
  print(name);
  if (const std::string why_not = cuda::start_kernel_records(); !why_not.empty()) print("  no kernels: " + why_not);
  for (int set = 0; set < kSets; ++set) call(stream_, scratch, set);
  std::map<std::string, double> fastest;
  for (const ProfileKernel& kernel : cuda::stop_kernel_records()) {
    const double ms = kernel.end_ms - kernel.begin_ms;
    const auto [known, added] = fastest.emplace(short_kernel_name(kernel.name), ms);
    if (!added) known->second = std::min(known->second, ms);
  }
  for (const auto& [kernel, ms] : fastest) print(format("  kernel %10.2f us  ", 1e3 * ms) + kernel);
}

void DeviceBench::events() {
  const Operands out = zeros(DType::f32, {4});
  std::vector<double> ms;
  for (int round = 0; round < 100; ++round) {
    Event begin(stream_.device(), Event::Kind::time), end(stream_.device(), Event::Kind::time);
    begin.record(stream_);
    fill_zero(stream_, out[0]);
    end.record(stream_);
    end.wait();
    ms.push_back(end.milliseconds_since(begin));
  }
  std::ranges::sort(ms);
  print(format("an operator of 16 bytes between two events %10.2f us", 1e3 * ms[ms.size() / 2]));
  clear();
}

bool names_device(int argc, char** argv) {
  return argc > 1 && (argv[1] == std::string_view("cuda") || argv[1] == std::string_view("cpu"));
}

int run_on_device(int argc, char** argv, const std::vector<std::string>& groups,
                  const std::function<void(DeviceBench&, const std::string& group)>& time) {
  const std::string only = argc > 2 ? argv[2] : "";
  const bool tiny = argc > 3 && argv[3] == std::string_view("tiny");
  if ((!only.empty() && only != "all" && std::ranges::find(groups, only) == groups.end()) || (argc > 3 && !tiny)) {
    std::fprintf(stderr, "usage: %s cuda|cpu [all|%s [tiny]]\n", argv[0], join(groups, "|").c_str());
    return 2;
  }
  try {
    DeviceBench bench(argv[1] == std::string_view("cuda") ? Device::cuda : Device::cpu, tiny);
    for (const std::string& group : groups) {
      if (only.empty() || only == "all" || only == group) time(bench, group);
      bench.clear();
    }
    for (const auto& [key, choice] : bench.stream().choices().table()) print(cat("choice ", key, ": ", choice));
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}

}  // namespace mtl::test
