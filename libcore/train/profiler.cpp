#include "train/profiler.h"

#include <algorithm>

#include "base/files.h"
#include "base/str.h"
#include "comm/text_exchange.h"
#include "device/cuda_device.h"
#include "device/cuda_profile.h"
#include "device/memory.h"
#include "kernels/elementwise.h"
#include "train/profile_report.h"

namespace mtl {

namespace {

/// Measures how many bytes per second a copy of a large tensor reads and writes, in GB/s.
double measure_copy_gbs(Device device, int threads) {
  const std::int64_t elements = (device == Device::cuda ? 256 : 32) << 20 >> 2;
  Buffer memory(device, 2 * elements * sizeof(float));
  const Tensor from = memory.tensor(DType::f32, {elements}), to = memory.tensor(DType::f32, {elements}, from.bytes());
  Stream stream(device, threads);
  double best = 0;
  copy(stream, to, from);
  stream.synchronize();
  for (const double begin = now_seconds(); now_seconds() < begin + 0.08;) {
    const double start = now_seconds();
    copy(stream, to, from);
    stream.synchronize();
    best = std::max(best, 2e-9 * static_cast<double>(from.bytes()) / (now_seconds() - start));
  }
  return best;
}

constexpr char kSeparator = '\0';

}  // namespace

Hardware hardware_of(Device device, int threads, double peak_tflops) {
  if (device == Device::cuda) {
    const std::string name = find_cuda_device().name;
    if (const Hardware* known = find_hardware(name)) return *known;
    return {.name = name,
            .dram_gbs = measure_copy_gbs(device, threads),
            .tflops_16 = peak_tflops,
            .source = "measured: a copy, a product in bf16"};
  }
  const std::string name = cat("CPU, ", threads, threads == 1 ? " thread" : " threads");
  return {.name = name,
          .dram_gbs = measure_copy_gbs(device, threads),
          .tflops_16 = peak_tflops,
          .tflops_tf32 = peak_tflops,
          .tflops_f32 = peak_tflops,
          .source = "a measured copy; products by --peak-tflops or a measured one"};
}

Profiler::Profiler(const ProfileOptions& options, Communicator& world, const std::vector<std::string>& hosts,
                   Console& console)
    : options_(options), world_(world), hosts_(hosts), console_(console) {}

bool Profiler::is_chosen() const {
  return std::find(options_.ranks.begin(), options_.ranks.end(), cat(world_.rank())) != options_.ranks.end();
}

void Profiler::prepare(Device device, int threads, bool tf32, double peak_tflops) {
  if (!options_.enabled || !is_chosen()) return;
  tf32_ = tf32;
  hardware_ = hardware_of(device, threads, peak_tflops);
}

void Profiler::begin_step(Stream& stream, std::int64_t done) {
  if (!is_recorded(done) || is_written_) return;
  if (recorded_++ == 0) first_ = done + 1;
  if (!is_chosen()) return;
  if (profile_ == nullptr) {
    profile_ = std::make_unique<Profile>(stream.device());
    if (stream.device() == Device::cuda) why_no_kernels_ = cuda::start_kernel_records();
  }
  stream.set_profile(profile_.get());
  step_.emplace(stream, ProfileKind::step, "step", done + 1);
}

void Profiler::end_step(Stream& stream, std::int64_t done) {
  step_.reset();
  stream.set_profile(nullptr);
  if (recorded_ > 0 && !is_recorded(done)) write(stream);
}

void Profiler::finish(Stream& stream) {
  if (recorded_ > 0) write(stream);
  if (options_.enabled && recorded_ == 0 && world_.rank() == 0)
    console_.warn(cat("no step was profiled: this session ran none of the iterations ", options_.step_start + 1, " to ",
                      options_.step_end, "; set --profile-step-start and --profile-step-end to iterations that run"));
}

/// Returns this rank's text, JSON and trace events, separated by kSeparator, to be sent to rank 0.
std::string Profiler::report() const {
  const ProfileReport report = report_profile(*profile_, hardware_, tf32_);
  const std::string title =
      cat("profile of rank ", world_.rank(), " (", hosts_.at(world_.rank()), "), iterations ", first_, " to ",
          first_ + recorded_ - 1, why_no_kernels_.empty() ? "" : "; kernels are not listed: " + why_no_kernels_);
  return cat(profile_text(report, title), kSeparator, profile_json(report).dump(2), "\n", kSeparator,
             trace_events(*profile_, world_.rank(), hosts_.at(world_.rank())));
}

void Profiler::write(Stream& stream) {
  if (std::exchange(is_written_, true)) return;
  std::string own;
  if (profile_ != nullptr) {
    stream.synchronize();
    if (stream.device() == Device::cuda) profile_->kernels = cuda::stop_kernel_records();
    profile_->finish();
    own = report();
    profile_.reset();
  }
  const std::vector<std::string> reports = gather_texts(world_, own);
  if (world_.rank() != 0) return;
  try {
    make_directories(options_.directory);
    std::vector<std::string> events;
    for (std::size_t rank = 0; rank < reports.size(); ++rank) {
      if (reports[rank].empty()) continue;
      const std::vector<std::string> parts = split(reports[rank], kSeparator);
      write_file_atomic(cat(options_.directory, "/rank", rank, ".txt"), parts.at(0));
      write_file_atomic(cat(options_.directory, "/rank", rank, ".json"), parts.at(1));
      events.push_back(parts.at(2));
    }
    write_file_atomic(options_.directory + "/trace.json", trace_file(events));
    console_.info(cat("profile of iterations ", first_, " to ", first_ + recorded_ - 1, ": ", options_.directory,
                      "/rank*.txt, rank*.json and trace.json"));
  } catch (const Error& error) {  // a failing report does not end training
    console_.warn(cat("the profile could not be written: ", error.what()));
  }
}

}  // namespace mtl
