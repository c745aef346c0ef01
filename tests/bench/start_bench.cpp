// Measures the start of training: mtl_bench_start DATA THREADS [bf16]. For GPT-2 124M with sequences of 1024 tokens
// from the token files DATA, prints each phase's seconds, and its user and system time on all threads, as JSON. The
// phase "memset" writes zeros to as many bytes as the run's memory has, for comparison. A process measures one start.
#include <omp.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "run/architecture.h"
#include "run/run_plan.h"
#include "train/run_progress.h"
#include "train/step_runner.h"

using namespace mtl;

namespace {

double seconds(const timeval& time) { return double(time.tv_sec) + 1e-6 * double(time.tv_usec); }

template <class Work>
auto phase(const char* name, const Work& work) {
  struct Report {
    const char* name;
    rusage before{};
    std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();

    explicit Report(const char* of) : name(of) { ::getrusage(RUSAGE_SELF, &before); }
    ~Report() {
      rusage after{};
      ::getrusage(RUSAGE_SELF, &after);
      std::printf("{\"phase\": \"%s\", \"seconds\": %.3f, \"user\": %.3f, \"system\": %.3f}\n", name,
                  std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(),
                  seconds(after.ru_utime) - seconds(before.ru_utime),
                  seconds(after.ru_stime) - seconds(before.ru_stime));
    }
  };
  const Report report(name);
  return work();
}

/// Writes zeros to new memory, with all threads and in large pages if there are any.
void set_new_memory(std::size_t bytes) {
  constexpr std::size_t kPiece = std::size_t{2} << 20;
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require(memory != MAP_FAILED, "cannot allocate ", bytes, " bytes");
  ::madvise(memory, bytes, MADV_HUGEPAGE);
#pragma omp parallel for schedule(static)
  for (std::size_t begin = 0; begin < bytes; begin += kPiece)
    std::memset(static_cast<std::byte*>(memory) + begin, 0, std::min(kPiece, bytes - begin));
  ::munmap(memory, bytes);
}

TrainOptions options_of(const std::string& data, int threads, bool bf16) {
  TrainOptions options;
  options.architecture.num_layers = 12;
  options.architecture.hidden_size = 768;
  options.architecture.num_attention_heads = 12;
  options.architecture.max_position_embeddings = 1024;
  options.data.paths.data_path = {data};
  options.data.paths.split = "100,0,0";
  options.data.seq_length = 1024;
  options.batch.train_iters = 2;
  options.batch.eval_iters = 0;
  options.optimizer.schedule.lr = 1e-4;
  options.threads = threads;
  options.precision.bf16 = bf16;
  options.tuning_cache = "none";
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: mtl_bench_start DATA THREADS [bf16]\n");
    return 2;
  }
  const int threads = std::atoi(argv[2]);
  constexpr std::int64_t kVocab = 50257;
  omp_set_num_threads(threads);
  const TrainOptions options = options_of(argv[1], threads, argc > 3);
  const GptConfig config =
      resolve_config(options, std::nullopt, kVocab,
                     [](const std::string& flag, const std::string& what) { fail(Exit::usage, flag, ": ", what); });
  phase("memset", [&] { set_new_memory(plan_run(options, config, 0).buffer_bytes()); });
  const TrainingData data = phase("reading", [&] { return TrainingData(options, {.vocab_size = kVocab}); });
  const ProcessGroups groups;
  const auto steps = phase("memory", [&] { return std::make_unique<StepRunner>(options, config, 0, groups); });
  StepBatches batches = make_step_batches(steps->shape());
  phase("normals", [&] { steps->params().initialize(1234); });
  RunProgress run(options, std::nullopt);
  const auto feed = open_feed(data.dataset(Split::train), Split::train, 0, options, steps->shape(), batches);
  for (const char* name : {"first step", "second step"}) {
    phase(name, [&] {
      const EnqueuedStep step = run.next_step(feed->next(steps->stream()), steps->queue());
      steps->begin(step);
      steps->enqueue(step);
      StepReport report;
      steps->finish_oldest(report);
      steps->end_step();
      run.count(step, report, {});
    });
  }
}
