// What --rerun-mode finds: whole runs in which one bit flips, once, at a random place and time, and a table of how many
// of these were caught: mtl_flips --layout=one, and mpirun -n 2 mtl_flips --layout=data, tensor or stages. MTL_SEED
// chooses other flips, MTL_COUNT their number, and MTL_CASE runs one of them and prints its messages. And what
// --check-weight-hash-across-dp-replicas-interval finds in wrong updates: mpirun -n 4 mtl_flips --layout=replicas.
//
// Memory changes before a matrix product of the step. Products, updates and messages are wrong when they are complete:
// the linker redirects calls of the first two to this file, and a Communicator passes on what another one receives.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <regex>

#include "base/hash.h"
#include "kernels/gemm.h"
#include "kernels/update_rules.h"
#include "tests/error_of.h"
#include "tests/mirror/rank_runs.h"
#include "tests/stderr_of.h"

using namespace mtl;
using namespace mtl::test;

namespace {

enum class Site { weights, states, gradients, products, messages, updates };
constexpr const char* kSites[] = {
    "weights, as layers read them", "optimizer states and main weights", "gradients in memory",
    "results of matrix products",   "messages and sums between ranks",   "results of updates"};
constexpr int kSiteCount = std::size(kSites);

constexpr std::int64_t kIterations = 4;

/// One bit that flips on this rank.
struct Flip {
  Site site;
  std::int64_t iteration;
  std::uint64_t when, which;  // random numbers: the event in the iteration, the bit in the tensors
  bool is_large;              // the highest bit of the exponent flips
};

/// How often each kind of event takes place on this rank in an iteration.
struct Events {
  std::int64_t products = 0, messages = 0, updates = 0;
  std::int64_t at(Site site) const {
    return site == Site::messages ? messages : site == Site::updates ? updates : products;
  }
};

/// Follows a run on this rank, and flips a bit in it.
class Probe {
 public:
  void begin_run(const Flip* flip, const std::vector<Events>& of_iterations) {
    *this = {};
    flip_ = flip;
    if (flip == nullptr) return;
    const std::int64_t events = of_iterations.at(flip->iteration).at(flip->site);
    event_ = static_cast<std::int64_t>(flip->when % std::max<std::int64_t>(1, events));
    share_ = double(event_) / double(events);
  }

  void before_product() {
    begin_event();
    if (!is_due(Site::weights) && !is_due(Site::states) && !is_due(Site::gradients)) return;
    std::vector<Tensor> memory;
    for (const UpdateRange& range : ranges_) {
      if (flip_->site == Site::gradients) memory.push_back(range.grad);
      if (flip_->site == Site::weights) memory.push_back(range.copy.exists() ? range.copy : range.param);
      if (flip_->site == Site::states) {
        memory.insert(memory.end(), range.states.begin(), range.states.end());
        if (range.copy.exists()) memory.push_back(range.param);
      }
    }
    flip_in(memory);
  }
  void after_product(const Tensor& result) {
    if (is_due(Site::products)) flip_in({result});
    ++now_.products;
  }
  void after_message(const Tensor& received) {
    begin_event();
    if (is_due(Site::messages)) flip_in({received});
    ++now_.messages;
  }
  void after_update(const UpdateRange& range) {
    if (!is_updating_) ranges_.clear();
    is_updating_ = true;
    ranges_.push_back(range);
    if (is_due(Site::updates)) {
      std::vector<Tensor> results = range.states;
      results.push_back(range.param);
      flip_in(results);
    }
    ++now_.updates;
    for (const std::vector<Tensor>& tensors : {std::vector<Tensor>{range.param, range.copy}, range.states})
      for (const Tensor& tensor : tensors)
        if (tensor.exists()) result_ = 31 * result_ + hash_bytes(tensor.raw(), tensor.bytes());
  }

  /// By iteration; [0] is empty, and the last one is missing.
  const std::vector<Events>& iterations() const { return iterations_; }
  /// A hash of the weights and states after each update.
  std::uint64_t result() const { return result_; }
  /// Where the flip was, if there was one. With `repeats`, each step is computed twice.
  std::string flipped(bool repeats) const {
    if (flipped_.empty()) return "";
    const char* run = share_ == 0 && flip_->site <= Site::gradients ? "between two steps"
                      : flip_->site == Site::updates                ? "in the update"
                      : repeats && share_ < 0.5                     ? "in the first run"
                      : repeats                                     ? "in the second run"
                                                                    : "in the step";
    return cat(flipped_, ", ", run);
  }

 private:
  /// A step ends with its last update.
  void begin_event() {
    if (!is_updating_) return;
    is_updating_ = false;
    iterations_.push_back(std::exchange(now_, {}));
  }
  bool is_due(Site site) const {
    return flip_ != nullptr && flipped_.empty() && site == flip_->site && flip_->iteration == std::ssize(iterations_) &&
           now_.at(site) == event_;
  }
  void flip_in(const std::vector<Tensor>& tensors) {
    std::size_t bytes = 0;
    for (const Tensor& tensor : tensors) bytes += tensor.bytes();
    if (bytes == 0) return;
    std::size_t bit = flip_->which % (8 * bytes);
    for (const Tensor& tensor : tensors) {
      if (bit >= 8 * tensor.bytes()) {
        bit -= 8 * tensor.bytes();
        continue;
      }
      const std::size_t width = 8 * size_of(tensor.dtype());
      if (flip_->is_large) bit = bit / width * width + width - 2;
      static_cast<std::uint8_t*>(tensor.raw())[bit / 8] ^= static_cast<std::uint8_t>(1u << bit % 8);
      flipped_ =
          cat("bit ", bit % width, " of element ", bit / width, " of ", tensor.numel(), " ", name_of(tensor.dtype()));
      return;
    }
  }

  const Flip* flip_ = nullptr;
  std::int64_t event_ = 0;
  double share_ = 0;  // of the iteration's events that are over
  std::vector<Events> iterations_ = {{}};
  Events now_;
  bool is_updating_ = false;
  std::vector<UpdateRange> ranges_;  // of the last update
  std::uint64_t result_ = 0;
  std::string flipped_;
};

Probe probe;

/// Passes on what another communicator does, and shows the probe what arrives.
class ProbedCommunicator final : public Communicator {
 public:
  explicit ProbedCommunicator(std::shared_ptr<Communicator> inner) : inner_(std::move(inner)) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::string name() const override { return inner_->name(); }
  void progress() override { inner_->progress(); }
  bool is_intact() const override { return inner_->is_intact(); }
  void interrupt_others() override { inner_->interrupt_others(); }

 private:
  class Arriving final : public Work::Operation {
   public:
    Arriving(Work work, Tensor data) : work_(std::move(work)), data_(data) {}
    bool done() override { return work_.done(); }
    void join() override {
      work_.join();
      if (!std::exchange(has_arrived_, true)) probe.after_message(data_);
    }

   private:
    Work work_;
    Tensor data_;
    bool has_arrived_ = false;
  };

  Work start(Stream& stream, const Transfer& t) override {
    switch (t.kind) {
      case OperationKind::all_reduce:
        return arriving(inner_->all_reduce(stream, t.out), t.out);
      case OperationKind::all_gather:
        return arriving(inner_->all_gather(stream, t.out, t.in), t.out);
      case OperationKind::reduce_scatter:
        return arriving(inner_->reduce_scatter(stream, t.out, t.in), t.out);
      case OperationKind::broadcast:
        return arriving(inner_->broadcast(stream, t.out, t.peer), t.out);
      case OperationKind::send:
        return inner_->send(stream, t.out, t.peer, t.channel);
      default:
        return arriving(inner_->receive(stream, t.out, t.peer, t.channel), t.out);
    }
  }
  Work arriving(Work work, const Tensor& data) {
    return size() == 1 ? work : Work(std::make_shared<Arriving>(std::move(work), data));
  }

  std::shared_ptr<Communicator> inner_;
};

// --- Runs ---

struct RunLayout {
  const char* name;
  std::int64_t ranks, tensor, pipeline;
};
constexpr RunLayout kLayouts[] = {
    {"one", 1, 1, 1}, {"data", 2, 1, 1}, {"tensor", 2, 2, 1}, {"stages", 2, 1, 2}, {"replicas", 4, 1, 1}};

constexpr const char* kModes[] = {"report_determinism_stats", "validate_results"};
constexpr int kComparesReplicas = 2;  // a mode beside them

/// What a rank saw of a run.
struct Seen {
  std::string messages;  // with the error that ended the run
  std::string flipped;
  std::uint64_t result;
};

/// Collective: returns every rank's text.
std::vector<std::string> texts_of_ranks(const std::string& own) {
  if (session == nullptr) return {own};
  return gather_texts(*session->control_group(), own);
}

class Runs {
 public:
  Runs() : data_(texts_of_ranks(folder_ / "data").front()) {
    if (own_rank() == 0) write_data(data_);
    texts_of_ranks("");  // waits for the data
  }

  static int own_rank() { return session == nullptr ? 0 : session->rank(); }

  /// Collective: runs training; returns what every rank saw. `flip` is null on ranks where no bit flips.
  std::vector<Seen> run(const RunLayout& grid, bool is_bf16, int mode, const Flip* flip) {
    TrainOptions options = options_on(Device::cpu, data_, "");
    options.logging.log_jsonl.clear();
    options.logging.log_interval = 100;
    options.batch.train_iters = kIterations;
    options.batch.global_batch_size = std::max<std::int64_t>(4, 2 * grid.ranks);
    options.batch.eval_iters = 0;
    options.architecture.num_attention_heads = 2;
    options.precision.bf16 = is_bf16;
    options.parallel.world = grid.ranks;
    options.parallel.tensor = grid.tensor;
    options.parallel.pipeline = grid.pipeline;
    options.optimizer.clip_grad = 0.01;  // so that each step clips
    options.threads = 1;
    if (mode == kComparesReplicas)
      options.checks.replica_interval = 1;
    else
      options.checks.rerun_mode = kModes[mode];
    std::vector<Events>& events = events_[{is_bf16, mode}];
    probe.begin_run(flip, events);
    std::string error, messages;
    const std::string written = stderr_of([&] { error = error_of([&] { train(options); }); });
    if (events.empty()) events = probe.iterations();
    for (const std::string& line : split(written + error, '\n'))
      if (!line.empty() && !contains(line, "without --save")) messages += line + '\n';
    std::vector<Seen> all;
    for (const std::string& text :
         texts_of_ranks(cat(probe.result(), "\n", probe.flipped(mode == 0), "\n", messages))) {
      const std::size_t first = text.find('\n'), second = text.find('\n', first + 1);
      all.push_back({text.substr(second + 1), text.substr(first + 1, second - first - 1), std::stoull(text)});
    }
    return all;
  }

 private:
  void train(const TrainOptions& options) {
    if (session != nullptr && ranks_.hosts.size() == 1) {  // the first time: MPI keeps the buffers of groups
      ranks_.rank = session->rank();
      ranks_.hosts = session->hosts();
      const Layout layout = resolve_layout(options.parallel, options.architecture.num_layers, session->rank());
      ranks_.groups = {
          layout, [](const std::vector<int>& members, const std::string& name) {
            if (name == "world") return session->control_group();
            return std::shared_ptr<Communicator>(std::make_shared<ProbedCommunicator>(session->group(members, name)));
          }};
    }
    test::run(options, {}, ranks_);
  }

  RankGroups ranks_;
  ScratchFolder folder_;
  std::string data_;
  std::map<std::pair<bool, int>, std::vector<Events>> events_;  // in a run without a flip
};

// --- Verdicts ---

enum class Verdict { at_once, later, harmless, missed };

/// The first report of a flip.
struct Report {
  std::int64_t iteration = 0;  // 0: there is none
  std::string ranks;           // as the message names them: "rank 0 (vm): other gradients, rank 1 (vm): other sums ..."
};

Report first_report(const std::string& messages) {
  static const std::regex differs("iteration (\\d+), computed twice, differs: (.*)"),
      failed("iteration (\\d+): .* in the first of two runs, which differ: ([^.]*)"),
      alone("iteration (\\d+): the gradient norm is not finite on (.*) alone"),
      replicas("after iteration (\\d+), the weights of (.*) are not those"),
      changed("states of (.*) have changed since the update of iteration (\\d+)"), other("iteration (\\d+): ");
  for (const std::string& line : split(messages, '\n')) {
    std::smatch match;
    if (std::regex_search(line, match, differs) || std::regex_search(line, match, failed) ||
        std::regex_search(line, match, alone) || std::regex_search(line, match, replicas))
      return {std::stoll(match[1]), match[2]};
    if (std::regex_search(line, match, changed)) return {std::stoll(match[2]) + 1, match[1]};
    if (std::regex_search(line, match, other)) return {std::stoll(match[1]), ""};  // names no rank
  }
  return {};
}

/// Returns true if the report names this rank, for its sums of gradients alone only if `also_sums`.
bool names(const Report& report, int rank, bool also_sums = true) {
  const std::size_t at = report.ranks.find(cat("rank ", rank, " "));
  if (at == std::string::npos) return false;
  const std::string own = report.ranks.substr(at, report.ranks.find(", ", at) - at);
  return also_sums || !contains(own, "other sums");
}

struct Row {
  std::array<int, 4> verdicts = {};
  int named = 0, alone = 0;  // of those caught: the rank is named; no other one, but for its sums
};

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

}  // namespace

// The linker's --wrap redirects calls of the operators to these functions (tests/CMakeLists.txt).
#define MTL_GEMM _ZN3mtl4gemmERNS_6StreamERNS_5ArenaENS_6TensorENS_7OperandES5_NS_8GradModeERKNS_8EpilogueE
#define MTL_ADAMW _ZN3mtl10adamw_stepERNS_6StreamERKNS_11UpdateRangeERKNS_12AdamWOptionsEPNS_9StepStateE
#define MTL_JOIN(a, b) a##b
#define MTL_REAL(name) MTL_JOIN(__real_, name)
#define MTL_WRAP(name) MTL_JOIN(__wrap_, name)
extern "C" {
void MTL_REAL(MTL_GEMM)(Stream&, Arena&, Tensor, Operand, Operand, GradMode, const Epilogue&);
void MTL_WRAP(MTL_GEMM)(Stream& stream, Arena& scratch, Tensor c, Operand a, Operand b, GradMode mode,
                        const Epilogue& epilogue) {
  if (stream.is_meta()) return MTL_REAL(MTL_GEMM)(stream, scratch, c, a, b, mode, epilogue);
  probe.before_product();
  MTL_REAL(MTL_GEMM)(stream, scratch, c, a, b, mode, epilogue);
  probe.after_product(c);
}
void MTL_REAL(MTL_ADAMW)(Stream&, const UpdateRange&, const AdamWOptions&, StepState*);
void MTL_WRAP(MTL_ADAMW)(Stream& stream, const UpdateRange& range, const AdamWOptions& options, StepState* state) {
  MTL_REAL(MTL_ADAMW)(stream, range, options, state);
  if (!stream.is_meta()) probe.after_update(range);
}
}

RunLayout layout = {};  // of the job

/// Draws a flip in the second or third iteration.
Flip draw_flip(std::mt19937_64& random) {
  Flip flip{};
  flip.site = static_cast<Site>(random() % kSiteCount);
  if (layout.ranks == 1 && flip.site == Site::messages) flip.site = Site::products;
  flip.iteration = 2 + static_cast<std::int64_t>(random() % 2);
  flip.when = random();
  flip.which = random();
  flip.is_large = random() % 4 == 0;
  return flip;
}

TEST_CASE("flipped bits are found") {
  if (layout.ranks > 2) return;
  const std::uint64_t seed = setting("MTL_SEED", 1), count = setting("MTL_COUNT", 15), chosen = setting("MTL_CASE", 0);
  const bool prints = Runs::own_rank() == 0;
  Runs runs;
  std::array<std::vector<Seen>, 2> right;  // by is_bf16
  for (const bool is_bf16 : {false, true}) {
    for (const int mode : {0, 1}) {
      CAPTURE(is_bf16);
      CAPTURE(mode);
      const std::vector<Seen> seen = runs.run(layout, is_bf16, mode, nullptr);
      if (mode == 0) right[is_bf16] = seen;
      for (std::size_t rank = 0; rank < seen.size(); ++rank) {
        CHECK(seen[rank].messages == "");  // nothing is reported without a flip
        CHECK(seen[rank].result == right[is_bf16][rank].result);
      }
    }
  }

  std::array<std::array<Row, kSiteCount>, 2> table;
  for (std::uint64_t number = 1; number <= count; ++number) {
    if (chosen != 0 && number != chosen) continue;
    std::mt19937_64 random(hash_bytes(layout.name, std::strlen(layout.name)) + seed * 1000003 + number);
    const int mode = static_cast<int>(random() % 2);
    const bool is_bf16 = random() % 2 != 0;
    const Flip flip = draw_flip(random);
    const int rank = static_cast<int>(random() % static_cast<unsigned>(layout.ranks));
    if (prints && chosen != 0)
      std::fprintf(stderr, "iteration %d, rank %d, %s%s\n", static_cast<int>(flip.iteration), rank,
                   kSites[static_cast<int>(flip.site)], flip.is_large ? ", highest bit of an exponent" : "");
    const std::vector<Seen> seen = runs.run(layout, is_bf16, mode, Runs::own_rank() == rank ? &flip : nullptr);
    const std::string& flipped = seen[rank].flipped;
    const Report report = first_report(seen[0].messages);

    bool is_equal = true;
    for (std::size_t r = 0; r < seen.size(); ++r) is_equal &= seen[r].result == right[is_bf16][r].result;
    const Verdict verdict = report.iteration == flip.iteration ? Verdict::at_once
                            : report.iteration > 0             ? Verdict::later
                            : is_equal                         ? Verdict::harmless
                                                               : Verdict::missed;
    Row& row = table[mode][static_cast<int>(flip.site)];
    ++row.verdicts[static_cast<int>(verdict)];
    const bool is_named = names(report, rank), is_alone = is_named && !names(report, 1 - rank, false);
    row.named += is_named;
    row.alone += is_alone;
    const std::string what =
        cat("case ", number, ": ", layout.name, is_bf16 ? ", bf16, " : ", fp32, ", kModes[mode], ", iteration ",
            flip.iteration, ", rank ", rank, ", ", kSites[static_cast<int>(flip.site)], ": ", flipped);
    if (prints && chosen != 0) std::printf("%s: %s\n", what.c_str(), seen[0].messages.c_str());
    CAPTURE(what);
    CAPTURE(seen[0].messages);
    CHECK(!flipped.empty());
    const bool is_caught = verdict <= Verdict::later, is_in_state = flip.site <= Site::states;
    if (is_in_state) CHECK(verdict == Verdict::at_once);
    if (mode == 0 && flip.site != Site::updates) CHECK(verdict != Verdict::missed);
    if (is_caught && flip.site != Site::updates) CHECK(is_named);
    if (is_caught && (flip.site == Site::gradients || (mode == 1 && is_in_state))) CHECK(is_alone);
  }

  if (!prints) return;
  std::printf("MTL_SEED=%llu MTL_COUNT=%llu\n", static_cast<unsigned long long>(seed),
              static_cast<unsigned long long>(count));
  for (const int mode : {0, 1}) {
    std::printf(
        "\n| `%s`: a bit flips in | at once | later | harmless | missed | rank named | alone "
        "|\n|---|---|---|---|---|---|---|\n",
        kModes[mode]);
    for (int site = 0; site < kSiteCount; ++site) {
      const Row& row = table[mode][site];
      std::printf("| %s | %d | %d | %d | %d | %d | %d |\n", kSites[site], row.verdicts[0], row.verdicts[1],
                  row.verdicts[2], row.verdicts[3], row.named, row.alone);
    }
  }
}

TEST_CASE("replicas whose updates were wrong are named") {
  if (layout.ranks <= 2) return;
  const std::uint64_t seed = setting("MTL_SEED", 1), count = setting("MTL_COUNT", 15);
  Runs runs;
  for (const bool is_bf16 : {false, true}) {
    for (const Seen& seen : runs.run(layout, is_bf16, kComparesReplicas, nullptr)) CHECK(seen.messages == "");
  }
  for (std::uint64_t number = 1; number <= count; ++number) {
    std::mt19937_64 random(seed * 1000003 + number);
    const bool is_bf16 = random() % 2 != 0;
    Flip flip = draw_flip(random);
    flip.site = Site::updates;
    flip.is_large = true;  // so that a wrong moment changes the weights of the next iteration, also in bf16
    const int rank = static_cast<int>(random() % static_cast<unsigned>(layout.ranks));
    const std::vector<Seen> seen =
        runs.run(layout, is_bf16, kComparesReplicas, Runs::own_rank() == rank ? &flip : nullptr);
    CAPTURE(number);
    CAPTURE(seen[rank].flipped);
    CAPTURE(seen[0].messages);
    CHECK(!seen[rank].flipped.empty());
    const Report report = first_report(seen[0].messages);
    CHECK(report.iteration >= flip.iteration);
    CHECK(report.iteration <= flip.iteration + 1);
    for (int other = 0; other < layout.ranks; ++other) CHECK(names(report, other) == (other == rank));
  }
}

int main(int argc, char** argv) {
  const RankEnvironment launched = launched_ranks("mtl_flips");
  for (const RunLayout& known : kLayouts)
    if (argc > 1 && argv[1] == cat("--layout=", known.name) && known.ranks == launched.world) layout = known;
  if (layout.name == nullptr) {
    std::fprintf(
        stderr,
        "mtl_flips --layout=one, mpirun -n 2 mtl_flips --layout=data, tensor or stages, or -n 4 --layout=replicas\n");
    return 2;
  }
  doctest::Context context(argc, argv);
  context.setOption("no-colors", true);  // the ranks share stdout, where rank 0 prints the tables
  if (launched.world == 1) return context.run();
  MpiSession job(launched);
  job.set_deadline(60);
  session = &job;
  if (launched.rank > 0) context.setOption("minimal", true);
  const int result = context.run();
  std::fflush(stdout);
  if (result != 0) job.abort(result);
  return 0;
}
